package app

import (
	"cmp"
	"context"
	"net"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/app/apart"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/control/tenant"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/current"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/router"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/forward"
	"github.com/fermi-cluster/fermi/internal/store"
)

// This file alone names the adapters of the engine port; the rest of the house holds the port.

// engines makes the engines of a leadership, one behind each name that a zone may give.
func (p *part) engines(ctx context.Context, epoch store.Epoch) (all engine.Adapter, give func(), err error) {
	host, err := hostengine.New(hostengine.Config{
		Dir: engineDir(p.cfg), Exe: p.cfg.Exe, Endpoints: endpointsFile(p.cfg), Remote: remote(p.hub), Mint: p.keys.Tokens.Mint, Epoch: epoch.Revision, Inventory: p.ground.inventory,
		Hide: p.ground.private(), Tiers: p.vault.tiers, Network: p.ground.walls().network, Standing: hostengine.Standing{Owner: p.ground.soleOwner(), Advertise: advertised(p.cfg)}, DeviceFiles: deviceFiles,
		Images: hostengine.Images{UID: p.ground.imageUID(ctx), Most: p.stored.MostImages, IDs: uidBook(p.cfg).Inner(p.cfg.Log, func() ([]int, error) { return tenant.Used(ctx, p.store, 0) })}, Folders: p.cfg.Folders,
		Log: p.cfg.Log.With("part", "engine"), Clock: clock.Real,
	})
	if err != nil {
		return nil, nil, err
	}
	agents, give := p.hosts.Lead(epoch, p.keys.Tokens.Mint)
	engines := map[string]engine.Adapter{api.EngineLocal: host, engineAgents: agents}
	if err := p.pods.engines(ctx, epoch, engines); err != nil {
		return nil, nil, err
	}
	engineOf := func(ctx context.Context, r engine.Replica) (string, error) {
		if agents.Has(r.Node) {
			return engineAgents, nil
		}
		if p.pods.clusters[r.Zone] != nil {
			return clusterEngine(r.Zone), nil
		}
		if isApart(p.cfg) {
			return "", apart.NoEngine(r.Node)
		}
		o, err := p.store.Get(ctx, api.Key{Kind: api.KindZone, Name: r.Zone}, 0)
		if fault.Is(err, fault.NotFound) {
			return api.EngineLocal, nil
		}
		if err != nil {
			return "", err
		}
		return cmp.Or(o.(*api.Zone).Spec.Engine, api.EngineLocal), nil
	}
	return router.New(router.Config{Engines: engines, EngineOf: engineOf}), give, nil
}

// far dials replicas on machines that joined.
func far(d *forward.Dialer) func(context.Context, serving.Via, int) (net.Conn, error) {
	return func(ctx context.Context, v serving.Via, port int) (net.Conn, error) {
		return d.Dial(ctx, v.Node, v.Agent, v.Replica, port)
	}
}

// engineAgents is the engine of machines that joined; no zone names it, nodes do.
const engineAgents = "agents"

func engineDir(cfg Config) string { return filepath.Join(cfg.Shared, "engine") }

// uidBook is the machine's book of uids.
func uidBook(cfg Config) hostengine.UIDBook {
	return hostengine.UIDBook{Dir: cfg.UIDBook, Data: cfg.Shared}
}

// homes are those that outlive their replicas.
func homes(cfg Config) hostengine.Homes { return hostengine.Homes{Dir: engineDir(cfg)} }

// firstUID is the first that a project may have.
func firstUID(cfg Config) int { return cmp.Or(cfg.FirstUID, hostengine.FirstAuto) }

func (g *ground) burnUID(least int) (int, error) {
	if !g.leads() {
		return 0, current.ErrNotLeading
	}
	return hostengine.UIDs{Dir: engineDir(g.cfg)}.Burn(least)
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
			case ch.Replica.State != engine.StateDone: // it was never there after all, and is to be started again
				work.Notify(ch.Replica.TaskID, ch.Replica.Name)
			}
		}
	}
}
