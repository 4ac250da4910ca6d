// Package node keeps Node objects in step with what the engines report, and creates their zones.
//
// Place: layer 4; only the leader runs it. Promise: a zone or node that appears is created once
// and keeps its number for ever; what operators set (cordon, a zone's spec) is never overwritten;
// unchanged inventory causes no write. Enemies: heartbeats in the store, renumbered nodes.
package node

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
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
	seen, whole := c.cfg.Nodes()
	nodes, err := c.nodeOps(ctx, seen, whole)
	if err != nil {
		return err
	}
	zones, err := c.zoneOps(ctx)
	if err != nil {
		return err
	}
	ops := append(zones, nodes...)
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

func (c *Controller) nodeOps(ctx context.Context, seen []api.Node, whole bool) ([]store.Op, error) {
	snap, err := c.cfg.Store.List(ctx, api.KindNode, "", c.wrote)
	if err != nil {
		return nil, err
	}
	launchers, found := c.launchers()
	have := map[string]*api.Node{}
	taken := map[uint32]bool{}
	snap.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		have[n.Meta.Name] = n
		taken[n.Spec.Number] = true
		return true
	})
	var ops []store.Op
	for i := range seen {
		n := seen[i]
		old, ok := have[n.Meta.Name]
		delete(have, n.Meta.Name)
		if !ok && n.Status.Agent != nil {
			continue // it was removed; joining makes it
		}
		if !ok {
			for taken[n.Spec.Number] || n.Spec.Number == 0 {
				n.Spec.Number++
			}
			taken[n.Spec.Number] = true
			c.born(&n.Meta, "node")
			ops = append(ops, store.Create(&n))
			continue
		}
		n.Spec.Number, n.Spec.Cordoned = old.Spec.Number, old.Spec.Cordoned
		n.Spec.CordonedDevices, n.Spec.Drain, n.Spec.DeviceOrders = old.Spec.CordonedDevices, old.Spec.Drain, old.Spec.DeviceOrders
		n.Spec.Devices = kept(old.Spec.Devices, n.Spec.Devices)
		n.Status.Devices, n.Status.Failures = old.Status.Devices, old.Status.Failures // control/card's
		n.Spec.Lost, n.Status.Holds = old.Spec.Lost, old.Status.Holds
		n.Spec.Agent = old.Spec.Agent
		if n.Status.Launchers = launchers[n.Meta.Name]; !found {
			n.Status.Launchers = old.Status.Launchers
		}
		ops = c.change(ops, old, n.Spec, n.Status)
	}
	if !whole {
		return ops, nil // who is missing may be reported yet
	}
	for _, gone := range have {
		status := gone.Status
		status.Ready, status.Reason = false, "NotReported"
		status.Message = fault.T("No engine reports this node any more.", "没有引擎再上报该节点。")
		if found {
			status.Launchers = launchers[gone.Meta.Name]
		}
		ops = c.change(ops, gone, gone.Spec, status)
	}
	return ops, nil
}

// kept is a node's devices as they are reported now, each in the place it had: placements name devices by it. One that is not
// reported any more has dropped and stays, until another card is on its bus; new ones come last.
func kept(old, now []api.Device) []api.Device {
	if len(old) == 0 {
		return now // also none: what is stored of an empty list is nil, and one that is not would be written for ever
	}
	left := slices.Clone(now)
	take := func(is func(api.Device) bool) (api.Device, bool) {
		i := slices.IndexFunc(left, is)
		if i < 0 {
			return api.Device{}, false
		}
		d := left[i]
		left = slices.Delete(left, i, i+1)
		return d, true
	}
	if slices.ContainsFunc(slices.Concat(old, now), func(d api.Device) bool { return d.UUID == "" }) {
		return now // nobody can tell which is which
	}
	out := make([]api.Device, len(old))
	same := make([]bool, len(old))
	for i, d := range old {
		out[i], same[i] = take(func(n api.Device) bool { return n.UUID == d.UUID })
	}
	for i, d := range old {
		if same[i] {
			continue
		}
		if n, ok := take(func(n api.Device) bool { return d.Bus != "" && n.Bus == d.Bus }); ok {
			out[i] = n
		} else {
			out[i] = d
		}
	}
	out = append(out, left...)
	for i := range out {
		out[i].Index = i
	}
	return out[:min(len(out), maxDevices)]
}

// maxDevices are as many as a placement's mask has bits.
const maxDevices = 64

// launchers counts those of other versions than ours that live, by node; false: not all are found yet.
func (c *Controller) launchers() (map[string][]api.LauncherVersion, bool) {
	if c.cfg.Launchers == nil {
		return nil, false
	}
	all, found := c.cfg.Launchers()
	counts := map[string]map[string]int{}
	for _, o := range all {
		if !o.Launched || o.State == engine.StateDone || o.Version == c.cfg.Version {
			continue
		}
		if counts[o.Node] == nil {
			counts[o.Node] = map[string]int{}
		}
		counts[o.Node][o.Version]++
	}
	out := map[string][]api.LauncherVersion{}
	for node, versions := range counts {
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			out[node] = append(out[node], api.LauncherVersion{Version: v, Count: versions[v]})
		}
	}
	c.other.Store(len(out) > 0)
	return out, found
}

func (c *Controller) change(ops []store.Op, old *api.Node, spec api.NodeSpec, status api.NodeStatus) []store.Op {
	if reflect.DeepEqual(spec, old.Spec) && reflect.DeepEqual(status, old.Status) {
		return ops
	}
	n := store.Clone(old)
	n.Spec, n.Status, n.Meta.UpdatedAt = spec, status, c.cfg.Clock.Now().UTC()
	return append(ops, store.Update(n))
}

// zoneOps creates the zones that are missing; their state is control/zone's.
func (c *Controller) zoneOps(ctx context.Context) ([]store.Op, error) {
	snap, err := c.cfg.Store.List(ctx, api.KindZone, "", c.wrote)
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	have := map[string]bool{}
	snap.Ascend("", func(o api.Object) bool {
		have[o.GetMeta().Name] = true
		return true
	})
	for i := range c.cfg.Zones {
		z := c.cfg.Zones[i]
		if have[z.Meta.Name] {
			continue
		}
		c.born(&z.Meta, "zone")
		ops = append(ops, store.Create(&z))
	}
	return ops, nil
}

func (c *Controller) born(m *api.Meta, prefix string) {
	now := c.cfg.Clock.Now().UTC()
	m.ID, m.CreatedAt, m.UpdatedAt = c.cfg.IDs.New(prefix), now, now
	if m.DisplayName == "" {
		m.DisplayName = m.Name
	}
}
