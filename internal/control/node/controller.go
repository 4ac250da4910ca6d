// Package node keeps Node objects in step with what the engines report, and creates their zones.
//
// Place: layer 4; only the leader runs it. Promise: a zone or node that appears is created once
// and keeps its number for ever; what operators set (cordon, a zone's spec) is never overwritten;
// unchanged inventory causes no write. Enemies: heartbeats in the store, renumbered nodes.
package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes a Controller.
type Config struct {
	Store store.ReadWriter
	Clock clock.Clock
	IDs   *id.Source
	Log   *slog.Logger
	// Zones are created when absent.
	Zones []api.Zone
	// Nodes are those that the engines report; whole is false while not all of them are known. Say Look when they change.
	Nodes func() (list []api.Node, whole bool)
	Every time.Duration // 30 s when 0
	// Version is this server's; Launchers are all that the engine knows, false: it has not found all yet.
	// Without Launchers nothing is said of them.
	Version   string
	Launchers func() ([]engine.Observation, bool)
}

// Controller is the inventory's scribe.
type Controller struct {
	cfg Config
	// wrote is our last revision: we read at least that, or we would write it again.
	wrote int64
	wake  chan struct{} // room for one: look again
	other atomic.Bool   // launchers of other versions were there when we looked last
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller {
	if cfg.Every == 0 {
		cfg.Every = 30 * time.Second
	}
	return &Controller{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Changed says that the engine saw a replica change. It never blocks. Where all launchers are of our
// version, that is no news.
func (c *Controller) Changed(o engine.Observation) {
	ends := o.State == engine.StateExited || o.State == engine.StateDone
	if o.Launched && (o.Version != c.cfg.Version || ends && c.other.Load()) {
		c.Look()
	}
}

// Look asks for a sync before its time. It never blocks.
func (c *Controller) Look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run syncs now and then until ctx ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.Subscribe(api.KindZone, api.KindNode)
	defer feed.Close()
	for {
		if err := c.Sync(ctx, epoch); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("inventory could not be written; trying again", "error", err)
		}
		turn, cancel := context.WithTimeout(ctx, c.cfg.Every)
		go func() {
			select {
			case <-c.wake:
				cancel()
			case <-turn.Done():
			}
		}()
		_, err := feed.Next(turn) // a change by hand, the time, or our own wish
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && turn.Err() == nil {
			return err
		}
	}
}

// Sync writes what differs, in batches. Not for concurrent use.
func (c *Controller) Sync(ctx context.Context, epoch store.Epoch) error {
	v, err := c.observe(ctx)
	if err != nil {
		return err
	}
	ops := append(v.zoneOps(), v.nodeOps()...)
	const batch = 50 // the store takes 100 operations, the fence counts too
	for len(ops) > 0 {
		n := min(batch, len(ops))
		revision, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: ops[:n], Fence: epoch, Urgent: true})
		if err != nil {
			return err
		}
		c.wrote = revision
		ops = ops[n:]
	}
	return nil
}

// observe is everything that a sync is decided by.
func (c *Controller) observe(ctx context.Context) (v view, err error) {
	v = view{now: c.cfg.Clock.Now().UTC(), ids: c.cfg.IDs, declared: c.cfg.Zones}
	v.reported, v.whole = c.cfg.Nodes()
	if v.nodes, err = c.cfg.Store.List(ctx, api.KindNode, "", c.wrote); err != nil {
		return v, err
	}
	if v.zones, err = c.cfg.Store.List(ctx, api.KindZone, "", c.wrote); err != nil {
		return v, err
	}
	if c.cfg.Launchers != nil {
		var all []engine.Observation
		all, v.found = c.cfg.Launchers()
		v.launchers = versions(all, c.cfg.Version)
		c.other.Store(len(v.launchers) > 0)
	}
	return v, nil
}
