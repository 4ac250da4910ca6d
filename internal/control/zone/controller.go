package zone

import (
	"context"
	"log/slog"
	"sync"
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
}

// again is when a zone with measurements is looked at without a change: they grow stale.
const again = time.Hour

// Controller derives the state of zones while its server leads.
type Controller struct {
	cfg   Config
	epoch store.Epoch
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	c.epoch = epoch
	feed := c.cfg.Store.Subscribe(api.KindZone, api.KindNode)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "zone", Reconciler: c, Workers: 1, Clock: c.cfg.Clock, Log: c.cfg.Log})
	snap, err := c.cfg.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return err
	}
	snap.Ascend("", func(o api.Object) bool {
		loop.Add(api.KeyOf(o))
		return true
	})
	var wg sync.WaitGroup
	wg.Go(func() { follow(ctx, feed, loop) })
	err = loop.Run(ctx)
	wg.Wait()
	return err
}

// follow asks for a turn of every zone that a change is about.
func follow(ctx context.Context, feed *store.Feed, loop *reconcile.Loop) {
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return
		}
		for _, ch := range changes {
			if ch.Key.Kind == api.KindZone {
				loop.Add(ch.Key)
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
	if err := c.apply(ctx, s, decide(s, c.cfg.Clock.Now())); err != nil {
		return reconcile.Result{}, err
	}
	if len(s.zone.Status.Measured) > 0 {
		return reconcile.Result{Wake: again}, nil
	}
	return reconcile.Result{}, nil
}

// observe counts the zone's nodes. A conflict when it is written brings another turn.
func (c *Controller) observe(ctx context.Context, key api.Key) (seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if err != nil {
		return seen{}, err
	}
	s := seen{zone: o.(*api.Zone)}
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
