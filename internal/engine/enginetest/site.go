package enginetest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// Site is the machines of one test, behind an adapter: they outlive the engines that are opened on them.
type Site interface {
	// Open runs an engine of a leader and returns when it is ready; close ends it and leaves the replicas running.
	Open(t *testing.T, epoch int64) (e engine.Adapter, close func())
	// OpenLate makes an engine of an epoch that may be over, and gives what its Run returned before it was ready.
	OpenLate(t *testing.T, epoch int64) error
	// Owner is an engine whose owner can be killed at any moment, also in the middle of a call.
	Owner(t *testing.T, epoch int64) (o Orders, kill func())
	// Shape makes a replica run until End is called. A held one starts its processes only after Begin.
	Shape(r *engine.Replica, held bool)
	// Begin lets a held replica go on; End ends the processes of one as if they ended by themselves.
	Begin(t *testing.T, name engine.Name)
	End(t *testing.T, name engine.Name)
	// Starts is how often the processes of a replica were started, also of one that was removed.
	Starts(name engine.Name) int
}

// Orders are the calls that change something.
type Orders interface {
	Start(ctx context.Context, r engine.Replica) error
	Stop(ctx context.Context, name engine.Name, grace time.Duration) error
	Remove(ctx context.Context, name engine.Name) error
}

var serial atomic.Int64

// replica makes one of a task that no other test run has: some of what engines make is the machine's.
func replica(s Site, index int, held bool) engine.Replica {
	task := fmt.Sprintf("task-suite-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), serial.Add(1))
	return another(s, task, index, held)
}

func another(s Site, task string, index int, held bool) engine.Replica {
	r := engine.Replica{
		Name: engine.NameOf(task, "worker", index, 1), TaskID: task, Task: "t", Project: "p", Owner: "o",
		Role: "worker", Index: index, Attempt: 1, Ranks: 1, Zone: "z", Node: "n", Virtual: true,
	}
	s.Shape(&r, held)
	return r
}

// await waits until the engine says that a replica got as far as this.
func await(t *testing.T, e engine.Adapter, name engine.Name, state engine.State) engine.Observation {
	t.Helper()
	var o engine.Observation
	eventually(t, fmt.Sprintf("%s is %s", name, state), func() bool {
		if p, ok := e.(engine.Prompted); ok {
			p.Poke(name)
		}
		o, _ = e.Replica(name)
		return engine.Order(o.State) >= engine.Order(state)
	})
	return o
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for wait := 2 * time.Millisecond; !ok(); wait = min(2*wait, 16*time.Millisecond) { // who asks all the time slows down what it waits for
		if time.Now().After(deadline) {
			t.Fatal("never:", what)
		}
		time.Sleep(wait)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reader follows a feed and remembers the newest of everything.
type reader struct {
	feed     *engine.Feed
	states   map[engine.Name][]engine.State // as they came
	replicas map[engine.Name]engine.Observation
	nodes    map[string]bool
}

func watch(t *testing.T, e engine.Adapter) *reader {
	r := &reader{engine.NewFeed(), map[engine.Name][]engine.State{}, map[engine.Name]engine.Observation{}, map[string]bool{}}
	e.Watch(r.feed)
	t.Cleanup(r.feed.Close)
	return r
}

func (r *reader) read() {
	for _, ch := range r.feed.Take() {
		switch {
		case ch.Node != nil:
			r.nodes[ch.Node.Meta.Name] = !ch.Gone
		case ch.Gone:
			delete(r.replicas, ch.Replica.Name)
		default:
			r.replicas[ch.Replica.Name] = *ch.Replica
			r.states[ch.Replica.Name] = append(r.states[ch.Replica.Name], ch.Replica.State)
		}
	}
}
