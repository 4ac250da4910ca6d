package router

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/run"
)

// Config is what a Router needs.
type Config struct {
	// Engines are those that zones may name, by name.
	Engines map[string]engine.Adapter
	// EngineOf is the name of the engine that a new replica's node or zone has.
	EngineOf func(ctx context.Context, r engine.Replica) (string, error)
}

// Router is the engines as one. Safe for concurrent use.
type Router struct {
	engines  map[string]engine.Adapter
	order    []string // their names
	engineOf func(ctx context.Context, r engine.Replica) (string, error)
	ready    chan struct{}
}

// New makes one; it starts nothing.
func New(cfg Config) *Router {
	return &Router{engines: cfg.Engines, order: slices.Sorted(maps.Keys(cfg.Engines)), engineOf: cfg.EngineOf, ready: make(chan struct{})}
}

var (
	_ engine.Adapter  = (*Router)(nil)
	_ engine.Prompted = (*Router)(nil)
	_ engine.Briefed  = (*Router)(nil)
)

// Run runs all engines until ctx ends or one of them fails.
func (r *Router) Run(ctx context.Context) error {
	var g run.Group
	for _, name := range r.order {
		g.Add(name, r.engines[name].Run)
	}
	g.Add("ready", func(ctx context.Context) error {
		for _, name := range r.order {
			select {
			case <-r.engines[name].Ready():
			case <-ctx.Done():
				return nil
			}
		}
		close(r.ready)
		<-ctx.Done()
		return nil
	})
	return g.Run(ctx)
}

// Ready is closed when all engines are ready.
func (r *Router) Ready() <-chan struct{} { return r.ready }

// Start starts it with the engine of its zone, unless another engine has it: the zone named that one earlier.
func (r *Router) Start(ctx context.Context, replica engine.Replica) error {
	if has := r.holder(replica.Name); has != nil {
		return has.Start(ctx, replica)
	}
	name, err := r.engineOf(ctx, replica)
	if err != nil {
		return err
	}
	e, ok := r.engines[name]
	if !ok {
		return fault.New(fault.Unavailable, "NoSuchEngine", fault.T(
			"Zone %s names the engine %q, which this server does not have.", "可用区 %s 指定的引擎 %q 在本服务器上不存在。", replica.Zone, name))
	}
	return e.Start(ctx, replica)
}

// Stop asks the engine that has it; where none is known to, all of them: it is fine with those that don't.
func (r *Router) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	return r.each(name, func(e engine.Adapter) error { return e.Stop(ctx, name, grace) })
}

// Remove has the engine that has it forget it, as Stop.
func (r *Router) Remove(ctx context.Context, name engine.Name) error {
	return r.each(name, func(e engine.Adapter) error { return e.Remove(ctx, name) })
}

// holder is the engine that knows the replica; nil: none.
func (r *Router) holder(name engine.Name) engine.Adapter {
	for _, n := range r.order {
		if _, ok := r.engines[n].Replica(name); ok {
			return r.engines[n]
		}
	}
	return nil
}

func (r *Router) each(name engine.Name, do func(engine.Adapter) error) error {
	if e := r.holder(name); e != nil {
		return do(e)
	}
	var errs []error
	for _, n := range r.order {
		errs = append(errs, do(r.engines[n]))
	}
	return errors.Join(errs...)
}

// Replica is what the engine that has it knows.
func (r *Router) Replica(name engine.Name) (engine.Observation, bool) {
	if e := r.holder(name); e != nil {
		return e.Replica(name)
	}
	return engine.Observation{}, false
}

// Replicas lists those of all engines.
func (r *Router) Replicas(taskID string) []engine.Observation {
	if len(r.order) == 1 {
		return r.engines[r.order[0]].Replicas(taskID)
	}
	var out []engine.Observation
	for _, n := range r.order {
		out = append(out, r.engines[n].Replicas(taskID)...)
	}
	slices.SortFunc(out, func(a, b engine.Observation) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

// Watch joins the feeds of all engines.
func (r *Router) Watch(f *engine.Feed) {
	for _, n := range r.order {
		r.engines[n].Watch(f)
	}
}

// Nodes lists those of all engines; whole only if each one's are.
func (r *Router) Nodes() (list []api.Node, whole bool) {
	whole = true
	for _, n := range r.order {
		some, all := r.engines[n].Nodes()
		list, whole = append(list, some...), whole && all
	}
	slices.SortFunc(list, func(a, b api.Node) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
	return list, whole
}

// Spec asks the engine that has it; where none is known to, all that give specs. NotFound is said only when every one of them knows what it has: a
// launcher that hears it gives up.
func (r *Router) Spec(ctx context.Context, name engine.Name) ([]byte, error) {
	if b, ok := r.holder(name).(engine.Briefed); ok {
		return b.Spec(ctx, name)
	}
	select {
	case <-r.ready:
	default:
		return nil, fault.New(fault.Unavailable, "EnginesStarting", fault.T("What runs is being found again.", "正在重新查找运行中的副本。"))
	}
	for _, n := range r.order {
		if b, ok := r.engines[n].(engine.Briefed); ok {
			if raw, err := b.Spec(ctx, name); !fault.Is(err, fault.NotFound) {
				return raw, err
			}
		}
	}
	return nil, fault.New(fault.NotFound, "NoSpec", fault.T("No engine has a record of replica %s.", "没有引擎有副本 %s 的记录。", name))
}

// Poke reaches the engines that want it.
func (r *Router) Poke(name engine.Name) {
	if p, ok := r.holder(name).(engine.Prompted); ok {
		p.Poke(name)
		return
	}
	for _, n := range r.order {
		if p, ok := r.engines[n].(engine.Prompted); ok {
			p.Poke(name)
		}
	}
}
