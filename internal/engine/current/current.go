package current

import (
	"context"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Engine is the one of now. The zero value has none. Safe for concurrent use.
type Engine struct {
	now atomic.Pointer[engine.Adapter]
}

var _ engine.Engine = (*Engine)(nil)

// ErrNotLeading is what calls answer while there is none.
var ErrNotLeading = fault.New(fault.Unavailable, "NotLeading", fault.T("This server does not lead.", "本服务不是主节点。"))

// Take makes a the engine until give is called.
func (e *Engine) Take(a engine.Adapter) (give func()) {
	e.now.Store(&a)
	return func() { e.now.Store(nil) }
}

// Leads says that there is one.
func (e *Engine) Leads() bool { return e.now.Load() != nil }

// adapter is nil while there is none.
func (e *Engine) adapter() engine.Adapter {
	if a := e.now.Load(); a != nil {
		return *a
	}
	return nil
}

// Start starts a replica.
func (e *Engine) Start(ctx context.Context, r engine.Replica) error {
	if a := e.adapter(); a != nil {
		return a.Start(ctx, r)
	}
	return ErrNotLeading
}

// Stop stops one.
func (e *Engine) Stop(ctx context.Context, name engine.Name, grace time.Duration) error {
	if a := e.adapter(); a != nil {
		return a.Stop(ctx, name, grace)
	}
	return ErrNotLeading
}

// Remove forgets one.
func (e *Engine) Remove(ctx context.Context, name engine.Name) error {
	if a := e.adapter(); a != nil {
		return a.Remove(ctx, name)
	}
	return ErrNotLeading
}

// Replica is what is known of one.
func (e *Engine) Replica(name engine.Name) (engine.Observation, bool) {
	if a := e.adapter(); a != nil {
		return a.Replica(name)
	}
	return engine.Observation{}, false
}

// Replicas lists what is known now.
func (e *Engine) Replicas(taskID string) []engine.Observation {
	if a := e.adapter(); a != nil {
		return a.Replicas(taskID)
	}
	return nil
}

// All lists every replica; false while they are looked for.
func (e *Engine) All() ([]engine.Observation, bool) {
	a := e.adapter()
	if a == nil {
		return nil, false
	}
	select {
	case <-a.Ready():
		return a.Replicas(""), true
	default:
		return nil, false
	}
}

// Nodes lists those that are reported; false: not all are known.
func (e *Engine) Nodes() ([]api.Node, bool) {
	if a := e.adapter(); a != nil {
		return a.Nodes()
	}
	return nil, false
}

// Spec is what the launcher of a replica must know; fault NotFound where the engine has no such replica, or gives it only by a folder.
func (e *Engine) Spec(ctx context.Context, name engine.Name) ([]byte, error) {
	a := e.adapter()
	if a == nil {
		return nil, ErrNotLeading
	}
	if b, ok := a.(engine.Briefed); ok {
		return b.Spec(ctx, name)
	}
	return nil, fault.New(fault.NotFound, "NoSpec", fault.T("The engine has no record of replica %s.", "引擎没有副本 %s 的记录。", name))
}

// Poke has the engine look at a replica again, where it does not hear of changes by itself. It never blocks.
func (e *Engine) Poke(name engine.Name) {
	if p, ok := e.adapter().(engine.Prompted); ok {
		p.Poke(name)
	}
}
