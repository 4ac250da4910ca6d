package app

import (
	"cmp"
	"context"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/current"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/router"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// This file alone names the adapters of the engine port; the rest of the house holds the port.

// engines makes the engines of a leadership, one behind each name that a zone may give.
func (p *part) engines(ctx context.Context, epoch store.Epoch) (engine.Adapter, error) {
	host, err := hostengine.New(hostengine.Config{
		Dir: engineDir(p.cfg), Exe: p.cfg.Exe, Endpoints: endpointsFile(p.cfg), Remote: remote(p.hub), Mint: p.tokens.Mint, Epoch: epoch.Revision, Inventory: p.inventory,
		Hide: p.private(), Owner: p.soleOwner(), Tiers: p.tiersOf, Network: p.walls().network, DeviceFiles: deviceFiles,
		Images: hostengine.Images{UID: p.imageUID(ctx), Most: p.stored.MostImages}, Folders: p.cfg.Folders,
		Log: p.cfg.Log.With("part", "engine"), Clock: clock.Real,
	})
	if err != nil {
		return nil, err
	}
	engineOf := func(ctx context.Context, zone string) (string, error) {
		o, err := p.store.Get(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0)
		if fault.Is(err, fault.NotFound) {
			return api.EngineLocal, nil
		}
		if err != nil {
			return "", err
		}
		return cmp.Or(o.(*api.Zone).Spec.Engine, api.EngineLocal), nil
	}
	return router.New(router.Config{Engines: map[string]engine.Adapter{api.EngineLocal: host}, EngineOf: engineOf}), nil
}

func engineDir(cfg Config) string { return filepath.Join(cfg.Shared, "engine") }

// uidBook is the machine's book of uids.
func uidBook(cfg Config) hostengine.UIDBook {
	return hostengine.UIDBook{Dir: cfg.UIDBook, Data: cfg.Shared}
}

// homes are those that outlive their replicas.
func homes(cfg Config) hostengine.Homes { return hostengine.Homes{Dir: engineDir(cfg)} }

// firstUID is the first that a project may have.
func firstUID(cfg Config) int { return cmp.Or(cfg.FirstUID, hostengine.FirstAuto) }

func (p *part) burnUID(least int) (int, error) {
	if !p.engine.Leads() {
		return 0, current.ErrNotLeading
	}
	return hostengine.UIDs{Dir: engineDir(p.cfg)}.Burn(least)
}

// follow hands on what the engine says, until ctx ends.
func follow(ctx context.Context, feed *engine.Feed, nodes *node.Controller, work *kinds.Crew) error {
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		for _, ch := range changes {
			switch {
			case ch.Node != nil:
				nodes.Look()
			case !ch.Gone:
				nodes.Changed(*ch.Replica)
				work.Notify(ch.Replica.TaskID, ch.Replica.Name)
			}
		}
	}
}
