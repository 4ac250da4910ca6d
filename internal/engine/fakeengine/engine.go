package fakeengine

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Engine is a leader's. Safe for concurrent use.
type Engine struct {
	*engine.Board
	world *World
	epoch int64
	ready chan struct{}
	newer int64 // the epoch of a later leader that was here before us; 0: none was
	over  bool  // guarded by World.mu
}

var _ engine.Adapter = (*Engine)(nil)

// Open makes the engine of a leader. There is nothing to look for, so it is ready at once; without Run it works until the end.
func Open(w *World, epoch int64) *Engine {
	e := &Engine{Board: engine.NewBoard(), world: w, epoch: epoch, ready: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes := make([]api.Node, 0, len(w.order))
	for _, name := range w.order {
		nodes = append(nodes, w.nodes[name])
	}
	e.Report(nodes)
	for _, r := range w.replicas {
		e.Put(*r)
	}
	w.engines = append(w.engines, e)
	if w.epoch > epoch {
		e.newer = w.epoch
	}
	w.epoch = max(w.epoch, epoch)
	close(e.ready)
	return e
}

// Run waits for the end of ctx; then the engine does nothing more.
func (e *Engine) Run(ctx context.Context) error {
	defer e.close()
	if e.newer > 0 {
		return fault.New(fault.Unavailable, "NewerLeader", fault.T(
			"A leader of epoch %d has been here; ours is %d.", "已有纪元 %d 的主节点在此运行，本节点纪元为 %d。", e.newer, e.epoch))
	}
	<-ctx.Done()
	return nil
}

func (e *Engine) close() {
	e.world.mu.Lock()
	defer e.world.mu.Unlock()
	e.over = true
	e.world.engines = slices.DeleteFunc(e.world.engines, func(x *Engine) bool { return x == e })
}

// Ready is closed from the beginning.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// act does something to the machines, unless the engine is over.
func (e *Engine) act(do func(*World) error) error {
	e.world.mu.Lock()
	defer e.world.mu.Unlock()
	if e.over {
		return fault.New(fault.Unavailable, "EngineStopped", fault.T("The engine is shutting down.", "引擎正在关闭。"))
	}
	return do(e.world)
}

// Start makes the replica if there is none of its name.
func (e *Engine) Start(_ context.Context, r engine.Replica) error {
	if r.Name == "" || r.TaskID == "" {
		return fault.New(fault.Invalid, "BadReplicaName", fault.T("%q cannot name a replica.", "%q 不能用作副本名称。", string(r.Name)))
	}
	return e.act(func(w *World) error {
		if w.replicas[r.Name] != nil {
			return nil
		}
		made := &engine.Observation{
			Name: r.Name, TaskID: r.TaskID, State: engine.StateCreated, Node: r.Node, Launched: true, Address: address, LauncherAddress: address,
		}
		w.replicas[r.Name] = made
		w.on[r.Node] = append(w.on[r.Node], r.Name)
		if w.cfg.Hold(r) || e.epoch < w.epoch { // nobody starts anything by the word of an old leader
			w.tell(made)
		} else {
			w.begin(made)
		}
		return nil
	})
}

// Stop ends it at once. An order of a leader whose time is over reaches nobody.
func (e *Engine) Stop(_ context.Context, name engine.Name, _ time.Duration) error {
	return e.act(func(w *World) error {
		if e.epoch >= w.epoch {
			w.end(name, engine.Exit{Code: 143, Reason: engine.ReasonStopped})
		}
		return nil
	})
}

// Remove forgets one that is done.
func (e *Engine) Remove(_ context.Context, name engine.Name) error {
	return e.act(func(w *World) error {
		r := w.replicas[name]
		if r == nil {
			return nil
		}
		if r.State != engine.StateDone {
			return fault.New(fault.Conflict, "ReplicaNotDone", fault.T("Replica %s has not handed over everything yet.", "副本 %s 尚未完成交接。", name))
		}
		delete(w.replicas, name)
		for _, other := range w.engines {
			other.Drop(name)
		}
		return nil
	})
}
