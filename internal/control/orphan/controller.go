package orphan

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Engine is what the sweep needs of the engine port.
type Engine interface {
	Stop(ctx context.Context, name engine.Name, grace time.Duration) error
	Remove(ctx context.Context, name engine.Name) error
	Replicas(taskID string) []engine.Observation
}

// Config makes a Controller.
type Config struct {
	Store  store.ReadWriter
	Engine Engine
	Clock  clock.Clock
	Log    *slog.Logger
}

// Controller sweeps while its server leads. One Run at a time.
type Controller struct {
	cfg    Config
	epoch  store.Epoch
	mu     sync.Mutex
	loop   *reconcile.Loop   // nil while not leading
	places map[string]string // owner's id → project of its placement
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

const (
	stopGrace   = 5 * time.Second
	afterRemove = 20 * time.Millisecond
)

// Run sweeps until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.Subscribe(append(api.WorkKinds(), api.KindPlacement)...)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "orphan", Reconciler: c, Workers: 1, Clock: c.cfg.Clock, Log: c.cfg.Log})
	c.mu.Lock()
	c.epoch, c.loop, c.places = epoch, loop, map[string]string{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop = nil
		c.mu.Unlock()
	}()
	if err := c.fill(ctx); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, c.change) })
}

// fill looks at everything that is there once.
func (c *Controller) fill(ctx context.Context) error {
	placements, err := c.cfg.Store.List(ctx, api.KindPlacement, "", 0)
	if err != nil {
		return err
	}
	owners := map[string]bool{}
	placements.Ascend("", func(o api.Object) bool {
		c.places[o.GetMeta().Name] = o.GetMeta().Project
		owners[o.GetMeta().Name] = true
		return true
	})
	for _, o := range c.cfg.Engine.Replicas("") {
		owners[o.TaskID] = true
	}
	for id := range owners {
		if _, err := store.WorkByID(ctx, c.cfg.Store, id, 0); fault.Is(err, fault.NotFound) {
			c.Notify(id)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// change notes who has a place, and looks after owners that went.
func (c *Controller) change(ch store.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.Key.Kind == api.KindPlacement {
		if delete(c.places, ch.Key.Name); ch.New != nil {
			c.places[ch.Key.Name] = ch.Key.Project
		}
		return
	}
	if ch.Old == nil || ch.New != nil && ch.New.GetMeta().ID == ch.Old.GetMeta().ID {
		return
	}
	id := ch.Old.GetMeta().ID
	if _, placed := c.places[id]; c.loop != nil && (placed || len(c.cfg.Engine.Replicas(id)) > 0) {
		c.loop.Add(api.Key{Name: id})
	}
}

// Notify says that something about a replica changed whose owner nobody knows. It never blocks.
func (c *Controller) Notify(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop != nil {
		c.loop.Add(api.Key{Name: owner})
	}
}

// Reconcile is one turn for what an owner left.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	id := key.Name
	if _, err := store.WorkByID(ctx, c.cfg.Store, id, 0); !fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, err // the usual case costs no write
	}
	revision, err := store.StillLeading(ctx, c.cfg.Store, c.epoch)
	if err != nil {
		return reconcile.Result{}, err
	}
	if _, err := store.WorkByID(ctx, c.cfg.Store, id, revision); !fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, err // it came back into view: its own turns see to it
	}
	if !isWork(id) {
		c.cfg.Log.Warn("replicas of a kind that this version does not know are left alone", "owner", id)
		return reconcile.Result{}, nil
	}
	c.mu.Lock()
	project, placed := c.places[id]
	c.mu.Unlock()
	p := decide(c.cfg.Engine.Replicas(id), placed)
	return c.apply(ctx, p, api.PlaceKey(project, id))
}

func (c *Controller) apply(ctx context.Context, p plan, place api.Key) (res reconcile.Result, err error) {
	if len(p.stop) > 0 || p.drop {
		c.cfg.Log.Info("ending what has no owner any more", "owner", place.Name, "replicas", len(p.stop), "placement", p.drop)
	}
	var errs []error
	for _, name := range p.stop {
		errs = append(errs, c.cfg.Engine.Stop(ctx, name, stopGrace))
	}
	for _, name := range p.remove {
		errs = append(errs, c.cfg.Engine.Remove(ctx, name))
	}
	if p.drop {
		_, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(place, 0)}, Fence: c.epoch, Urgent: true})
		errs = append(errs, err)
	}
	if p.again {
		res.Wake = afterRemove
	}
	return res, errors.Join(errs...)
}
