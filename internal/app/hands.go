package app

import (
	"cmp"
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/router"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// This file alone names the adapters of the engine port; the rest of the house holds the port.

// engines makes the engines of a leadership, one behind each name that a zone may give.
func (p *part) engines(ctx context.Context, epoch store.Epoch) (engine.Adapter, error) {
	host, err := hostengine.New(hostengine.Config{
		Dir: p.engineDir(), Exe: p.cfg.Exe, Endpoints: p.endpointsFile(), Mint: p.tokens.Mint, Epoch: epoch.Revision, Inventory: p.inventory,
		Hide: p.private(), Owner: p.soleOwner(), Tiers: p.tiersOf, Network: p.walls().network, DeviceFiles: deviceFiles,
		ImageUID: p.imageUID(ctx), Folders: p.cfg.Folders,
		Log: p.cfg.Log.With("part", "engine"), Clock: clock.Real,
	})
	if err != nil {
		return nil, err
	}
	return router.New(router.Config{Engines: map[string]engine.Adapter{api.EngineLocal: host}, EngineOf: p.engineOf}), nil
}

// engineOf is the engine that a zone names; one that is not in the store has its processes here.
func (p *part) engineOf(ctx context.Context, zone string) (string, error) {
	o, err := p.store.Get(ctx, api.Key{Kind: api.KindZone, Name: zone}, 0)
	if fault.Is(err, fault.NotFound) {
		return api.EngineLocal, nil
	}
	if err != nil {
		return "", err
	}
	return cmp.Or(o.(*api.Zone).Spec.Engine, api.EngineLocal), nil
}

func (p *part) engineDir() string { return filepath.Join(p.cfg.Shared, "engine") }

// book is the machine's book of uids.
func (p *part) book() hostengine.UIDBook {
	return hostengine.UIDBook{Dir: p.cfg.UIDBook, Data: p.cfg.Shared}
}

// firstUID is the first that a project may have.
func (p *part) firstUID() int { return cmp.Or(p.cfg.FirstUID, hostengine.FirstAuto) }

func (p *part) burnUID(least int) (int, error) {
	if p.hands.now() == nil {
		return 0, errNotLeading
	}
	return hostengine.UIDs{Dir: p.engineDir()}.Burn(least)
}

// hands is the engine of this leadership, behind the engine port; nobody's while not leading.
type hands struct {
	current atomic.Pointer[engine.Adapter]
}

// now is nil while not leading.
func (h *hands) now() engine.Adapter {
	if e := h.current.Load(); e != nil {
		return *e
	}
	return nil
}

// take makes e the engine until the function is called.
func (h *hands) take(e engine.Adapter) (give func()) {
	h.current.Store(&e)
	return func() { h.current.Store(nil) }
}

// whole is the engine when it has found everything that runs; nil before.
func (h *hands) whole() engine.Adapter {
	e := h.now()
	if e == nil {
		return nil
	}
	select {
	case <-e.Ready():
		return e
	default:
		return nil
	}
}

var errNotLeading = fault.New(fault.Unavailable, "NotLeading", fault.T("This server does not lead.", "本服务不是主节点。"))

func (h *hands) Start(ctx context.Context, r engine.Replica) error {
	if e := h.now(); e != nil {
		return e.Start(ctx, r)
	}
	return errNotLeading
}

func (h *hands) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	if e := h.now(); e != nil {
		return e.Stop(ctx, name, grace)
	}
	return errNotLeading
}

func (h *hands) Remove(ctx context.Context, name engine.Name) error {
	if e := h.now(); e != nil {
		return e.Remove(ctx, name)
	}
	return errNotLeading
}

func (h *hands) Replica(name engine.Name) (engine.Observation, bool) {
	if e := h.now(); e != nil {
		return e.Replica(name)
	}
	return engine.Observation{}, false
}

func (h *hands) Replicas(taskID string) []engine.Observation {
	if e := h.now(); e != nil {
		return e.Replicas(taskID)
	}
	return nil
}

// poke has the engine look at a replica again, where it does not hear of changes by itself.
func (h *hands) poke(name engine.Name) {
	if e, ok := h.now().(engine.Prompted); ok {
		e.Poke(name)
	}
}

// launchers are all that the engine knows; false while they are looked for.
func (h *hands) launchers() ([]engine.Observation, bool) {
	if e := h.whole(); e != nil {
		return e.Replicas(""), true
	}
	return nil, false
}

// nodes are all that engines report; false: not all are known.
func (h *hands) nodes() ([]api.Node, bool) {
	if e := h.now(); e != nil {
		return e.Nodes()
	}
	return nil, false
}

// follow hands on what the engine says, until ctx ends.
func (p *part) follow(ctx context.Context, feed *engine.Feed) error {
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		for _, ch := range changes {
			switch {
			case ch.Node != nil:
				p.nodes.Look()
			case !ch.Gone:
				p.nodes.Changed(*ch.Replica)
				p.train.Notify(ch.Replica.TaskID, ch.Replica.Name)
			}
		}
	}
}
