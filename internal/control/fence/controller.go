package fence

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes a Controller.
type Config struct {
	Store  store.ReadWriter
	Events history.Events
	// Engine knows all that runs.
	Engine interface {
		Replicas(taskID string) []engine.Observation
	}
	Clock clock.Clock
	Log   *slog.Logger
}

// Controller sees to holds while its server leads.
type Controller struct {
	cfg   Config
	epoch store.Epoch
}

// again is when a node with holds is looked at without a change: the end of a replica is no change of its node.
const again = time.Second

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	c.epoch = epoch
	feed := c.cfg.Store.Subscribe(api.KindNode)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "fence", Reconciler: c, Workers: 1, Clock: c.cfg.Clock, Log: c.cfg.Log})
	change := func(ch store.Change) {
		if concerns(ch.New) {
			loop.Add(ch.Key)
		}
	}
	if err := store.Fill(ctx, c.cfg.Store, change, api.KindNode); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, change) })
}

// concerns says that there is something to see to.
func concerns(o api.Object) bool {
	n, ok := o.(*api.Node)
	return ok && n != nil && (n.Spec.Lost || len(n.Status.Holds) > 0)
}

// Reconcile is one turn for one node.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	n := o.(*api.Node)
	if !concerns(n) {
		return reconcile.Result{}, nil
	}
	var there []engine.Observation
	for _, ob := range c.cfg.Engine.Replicas("") {
		if ob.Node == n.Meta.Name && ob.State != engine.StateDone {
			there = append(there, ob)
		}
	}
	if err := c.apply(ctx, n, decide(n, there, c.cfg.Clock.Now().UTC())); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Wake: again}, nil
}

// apply writes the holds if they are others, in one fenced commit, and tells of those that went.
func (c *Controller) apply(ctx context.Context, n *api.Node, holds hold.List) error {
	if len(holds) == len(n.Status.Holds) && (len(holds) == 0 || reflect.DeepEqual(holds, n.Status.Holds)) {
		return nil
	}
	next := store.Clone(n)
	next.Status.Holds, next.Meta.UpdatedAt = holds, c.cfg.Clock.Now().UTC()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: c.epoch}); err != nil {
		return fmt.Errorf("write the holds of node %s: %w", n.Meta.Name, err)
	}
	var rows []history.Event
	for i := range n.Status.Holds {
		h := &n.Status.Holds[i]
		if now := next.Status.Holds.Of(h.Replica); now != nil && (h.Released || !now.Released || n.Spec.Lost) {
			continue
		}
		rows = append(rows, history.Event{
			Time: next.Meta.UpdatedAt, Kind: api.KindNode, Name: n.Meta.Name, ID: n.Meta.ID, Type: "Normal", Reason: "Freed", Actor: "fence",
			Message: fault.T("%s, which was given up, has ended; its devices are free.", "已被放弃的 %s 已结束，其加速卡已释放。", h.Replica), Dedup: n.Meta.ID + "/freed-" + h.Replica,
		})
	}
	if len(rows) == 0 {
		return nil
	}
	return c.cfg.Events.AddEvents(ctx, rows...)
}
