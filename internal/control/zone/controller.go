package zone

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes a Controller.
type Config struct {
	Store store.ReadWriter
	Clock clock.Clock
	Log   *slog.Logger
	// Trouble is why the engine of a zone can't be used now; nil: it can. Without it nobody asks.
	Trouble func(zone string) *fault.Error
}

// askAgain is how often the engine of a cluster is asked: nothing in the store says that it is away.
const askAgain = 5 * time.Second

// Controller derives the state of zones while its server leads.
type Controller struct {
	cfg   Config
	epoch store.Epoch
	log   logbook // of what tasks and agents measured
	loop  atomic.Pointer[reconcile.Loop]
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg, log: newLogbook()} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	c.epoch = epoch
	feed := c.cfg.Store.Subscribe(api.KindZone, api.KindNode, api.KindTrainingTask)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "zone", Reconciler: c, Workers: 1, Clock: c.cfg.Clock, Log: c.cfg.Log})
	c.loop.Store(loop)
	snap, err := c.cfg.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return err
	}
	tasks, err := c.cfg.Store.List(ctx, api.KindTrainingTask, "", 0)
	if err != nil {
		return err
	}
	tasks.Ascend("", func(o api.Object) bool {
		c.log.note(o.(*api.TrainingTask))
		return true
	})
	snap.Ascend("", func(o api.Object) bool {
		loop.Add(api.KeyOf(o))
		return true
	})
	var wg sync.WaitGroup
	wg.Go(func() { c.follow(ctx, feed, loop) })
	err = loop.Run(ctx)
	wg.Wait()
	return err
}

// Measured takes up what agents found between two zones, while its server leads. It never blocks.
func (c *Controller) Measured(from, to string, m api.MeasuredLatency) {
	loop := c.loop.Load()
	if loop == nil || !c.log.both(from, to, m) {
		return
	}
	loop.Add(api.Key{Kind: api.KindZone, Name: from})
	loop.Add(api.Key{Kind: api.KindZone, Name: to})
}

// follow asks for a turn of every zone that a change is about.
func (c *Controller) follow(ctx context.Context, feed *store.Feed, loop *reconcile.Loop) {
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return
		}
		for _, ch := range changes {
			switch ch.Key.Kind {
			case api.KindZone:
				loop.Add(ch.Key)
				continue
			case api.KindTrainingTask:
				if t, ok := ch.New.(*api.TrainingTask); ok && t != nil {
					for _, zone := range c.log.note(t) {
						loop.Add(api.Key{Kind: api.KindZone, Name: zone})
					}
				}
				continue
			}
			for _, o := range []api.Object{ch.Old, ch.New} {
				if n, ok := o.(*api.Node); ok && n != nil {
					loop.Add(api.Key{Kind: api.KindZone, Name: n.Spec.Zone})
				}
			}
		}
	}
}

// Reconcile is one turn for one zone.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	s, err := c.observe(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	now := c.cfg.Clock.Now()
	status := decide(s, now)
	if err := c.apply(ctx, s, status); err != nil {
		return reconcile.Result{}, err
	}
	next := wake(status.Measured, now)
	if c.cfg.Trouble != nil && s.zone.Spec.Engine == api.EngineKubernetes {
		next = askAgain
	}
	return reconcile.Result{Wake: next}, nil
}

// observe counts the zone's nodes. A conflict when it is written brings another turn.
func (c *Controller) observe(ctx context.Context, key api.Key) (seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if err != nil {
		return seen{}, err
	}
	s := seen{zone: o.(*api.Zone), trips: c.log.of(key.Name), peers: map[string]bool{}}
	zones, err := c.cfg.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return seen{}, err
	}
	zones.Ascend("", func(o api.Object) bool {
		s.peers[o.GetMeta().Name] = true
		return true
	})
	if c.cfg.Trouble != nil {
		s.trouble = c.cfg.Trouble(key.Name)
	}
	snap, err := c.cfg.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return seen{}, err
	}
	snap.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		if n.Spec.Zone != key.Name {
			return true
		}
		s.nodes++
		s.devs += len(n.Spec.Devices)
		switch {
		case n.Status.Ready:
			s.ready++
		case n.Spec.Cordoned:
			s.retired++
		case n.Status.Reason == unreported:
			s.silent++
		}
		return true
	})
	return s, nil
}
