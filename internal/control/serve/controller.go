package serve

import (
	"context"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Controller keeps services true while its server leads. One Run at a time.
type Controller struct {
	cfg    work.Config
	ids    *id.Source
	epoch  store.Epoch
	desk   *demand.Desk
	checks checks
	books  books
	far    Far

	mu   sync.Mutex
	loop *reconcile.Loop // nil: it does not run
}

// New makes a controller; it starts nothing. far may be nil: replicas on machines that joined are not reached, and a canary's
// own check of one fails.
func New(cfg work.Config, ids *id.Source, far Far) *Controller {
	return &Controller{cfg: cfg, ids: ids, far: far, desk: demand.NewDesk()}
}

// Notify is for those who have replicas of an engine; services have none.
func (*Controller) Notify(string, engine.Name) bool { return false }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	kinds := []api.Kind{serving.Kind, serving.ReplicaKind, serving.EndpointsKind}
	feed := c.cfg.Store.Subscribe(kinds...)
	defer feed.Close()
	c.epoch = epoch
	loop := reconcile.New(reconcile.Config{
		Name: strings.ToLower(string(serving.Kind)), Reconciler: c, Workers: max(c.cfg.Workers, 1), Clock: c.cfg.Clock, Log: c.cfg.Log,
	})
	c.mu.Lock()
	c.loop = loop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop = nil
		c.mu.Unlock()
	}()
	change := func(ch store.Change) {
		if o := ch.New; o != nil {
			loop.Add(serviceOf(o))
		} else if ch.Old != nil {
			loop.Add(serviceOf(ch.Old))
		}
	}
	if err := store.Fill(ctx, c.cfg.Store, change, kinds...); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, change) })
}

// Heard takes what a gateway reports. A service that somebody waits for has its turn at once; what was carried is written down.
func (c *Controller) Heard(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
	for _, id := range c.desk.Take(r, c.cfg.Clock.Now()) {
		o, err := c.cfg.Store.GetByID(ctx, serving.Kind, id, 0)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		if c.loop != nil {
			c.loop.Add(serviceOf(o))
		}
		c.mu.Unlock()
	}
	return c.account(ctx, r)
}

// serviceOf is whose turn it is when an object changed.
func serviceOf(o api.Object) api.Key {
	key := api.Key{Kind: serving.Kind, Project: o.GetMeta().Project, Name: o.GetMeta().Name}
	switch x := o.(type) {
	case *serving.ServiceReplica:
		key.Name = x.Spec.Service
	case *serving.ServiceEndpoints:
		key.Project = x.Spec.Project
	}
	return key
}

// Reconcile is one turn for one service.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	s, err := c.observe(ctx, key)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	now := c.cfg.Clock.Now().UTC()
	c.figures(s, now)
	p := decide(s, now)
	if err := c.apply(ctx, s, &p); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Wake: p.wake}, nil
}

// observe gathers what is known: first the service, whose revision guards the commit, then what may only be newer. nil:
// there is no such service.
func (c *Controller) observe(ctx context.Context, key api.Key) (*seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &seen{service: o.(*serving.InferenceService)}
	snap, err := c.cfg.Store.List(ctx, serving.ReplicaKind, key.Project, 0)
	if err != nil {
		return nil, err
	}
	snap.Ascend("", func(o api.Object) bool {
		if r := o.(*serving.ServiceReplica); r.Spec.ServiceID == s.service.Meta.ID {
			s.replicas = append(s.replicas, r)
		}
		return true
	})
	e, err := c.cfg.Store.Get(ctx, api.Key{Kind: serving.EndpointsKind, Name: key.Name}, 0)
	if err == nil {
		s.endpoints = e.(*serving.ServiceEndpoints)
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return s, nil
}
