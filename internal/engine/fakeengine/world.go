package fakeengine

import (
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// address is where everybody is: there is no network to reach anything by.
const address = "127.0.0.1"

// World is the machines. It outlives the engines that are opened on it. Safe for concurrent use.
type World struct {
	cfg Config

	mu       sync.Mutex
	epoch    int64 // the highest whose engine was here
	replicas map[engine.Name]*engine.Observation
	on       map[string][]engine.Name // node → those that have not ended, in the order of their start
	nodes    map[string]api.Node
	order    []string // of nodes, as they were set
	engines  []*Engine
}

// Config is what a World needs.
type Config struct {
	Now func() time.Time
	// Hold says of which replicas the launcher waits for Begin; nil: of none, their processes start at once.
	Hold func(engine.Replica) bool
	// Started is told whenever the processes of a replica start; nil: nobody is. It must call nothing of the World.
	Started func(engine.Name)
}

// NewWorld makes machines without nodes.
func NewWorld(cfg Config) *World {
	if cfg.Hold == nil {
		cfg.Hold = func(engine.Replica) bool { return false }
	}
	if cfg.Started == nil {
		cfg.Started = func(engine.Name) {}
	}
	return &World{cfg: cfg, replicas: map[engine.Name]*engine.Observation{}, on: map[string][]engine.Name{}, nodes: map[string]api.Node{}}
}

// Begin starts the processes of a replica that is held. One that was started or has ended is left alone.
func (w *World) Begin(name engine.Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.replicas[name]; r != nil && r.State == engine.StateCreated {
		w.begin(r)
	}
}

func (w *World) begin(r *engine.Observation) {
	w.cfg.Started(r.Name)
	r.State, r.Started, r.Ready = engine.StateRunning, w.cfg.Now(), true
	w.tell(r)
}

// End ends the processes of a replica; everything is handed over at once. One that has ended, or that nobody knows, is left alone.
func (w *World) End(name engine.Name, exit engine.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(name, exit)
}

func (w *World) end(name engine.Name, exit engine.Exit) {
	r := w.replicas[name]
	if r == nil || r.Exit != nil {
		return
	}
	exit.At = w.cfg.Now()
	r.State, r.Exit, r.Ready = engine.StateDone, &exit, false
	if left := slices.DeleteFunc(w.on[r.Node], func(n engine.Name) bool { return n == name }); len(left) > 0 {
		w.on[r.Node] = left
	} else {
		delete(w.on, r.Node)
	}
	w.tell(r)
}

// SetNode reports a node that is new or changed. Where it is not ready any more, its replicas are lost.
func (w *World) SetNode(n api.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.nodes[n.Meta.Name]; !known {
		w.order = append(w.order, n.Meta.Name)
	}
	w.nodes[n.Meta.Name] = n
	for _, e := range w.engines {
		e.ReportOne(n)
	}
	if n.Status.Ready {
		return
	}
	for _, name := range slices.Clone(w.on[n.Meta.Name]) {
		w.end(name, engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost})
	}
}

// tell is for holders of the lock.
func (w *World) tell(r *engine.Observation) {
	for _, e := range w.engines {
		e.Put(*r)
	}
}
