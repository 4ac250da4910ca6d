package enginetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Run holds an adapter to the port. site makes machines of their own for each test.
func Run(t *testing.T, site func(t *testing.T) Site) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Site)
	}{
		{"life", life},
		{"created once", createdOnce},
		{"stop", stop},
		{"remove", remove},
		{"fenced", fenced},
		{"re-attach", reattach},
		{"nodes", nodes},
		{"over", over},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, site(t)) })
	}
	t.Run("kills", func(t *testing.T) { kills(t, site) })
}

// life: a replica is created, runs, ends and is done, never goes back, and can be reached while it runs.
func life(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	defer close()
	feed := watch(t, e)
	r := replica(s, 0, true)
	must(t, e.Start(t.Context(), r))
	if o, ok := e.Replica(r.Name); !ok || o.Name != r.Name || o.TaskID != r.TaskID || o.Node != r.Node || o.State != engine.StateCreated || o.Ready {
		t.Errorf("after the start: %+v", o)
	}
	s.Begin(t, r.Name)
	o := await(t, e, r.Name, engine.StateRunning)
	if o.State != engine.StateRunning || o.Started.IsZero() || o.Exit != nil || !o.Launched || !o.Ready || o.Address == "" || o.LauncherAddress == "" {
		t.Errorf("while it runs: %+v", o)
	}
	s.End(t, r.Name)
	if o := await(t, e, r.Name, engine.StateDone); o.Exit == nil || o.Exit.Reason != engine.ReasonSucceeded || o.Exit.At.IsZero() || o.Ready {
		t.Errorf("at the end: %+v %+v", o, o.Exit)
	}
	eventually(t, "the feed has the end", func() bool {
		feed.read()
		return feed.replicas[r.Name].State == engine.StateDone
	})
	if states := feed.states[r.Name]; !slices.IsSortedFunc(states, func(a, b engine.State) int { return engine.Order(a) - engine.Order(b) }) {
		t.Error("the feed went back:", states)
	}
	if s.Starts(r.Name) != 1 {
		t.Error("started", s.Starts(r.Name), "times")
	}
}

// createdOnce: however often and by whomever a replica is started, one is there, and what is different in a later call is ignored.
func createdOnce(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	defer close()
	r := replica(s, 0, false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := e.Start(context.WithoutCancel(t.Context()), r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	await(t, e, r.Name, engine.StateRunning)
	other := r
	other.Node = "elsewhere"
	must(t, e.Start(t.Context(), other))
	if list := e.Replicas(r.TaskID); len(list) != 1 || list[0].Node != "n" || s.Starts(r.Name) != 1 {
		t.Errorf("%+v, started %d times", list, s.Starts(r.Name))
	}
	s.End(t, r.Name)
	await(t, e, r.Name, engine.StateDone)
	must(t, e.Start(t.Context(), r)) // one that has ended is not begun anew
	if o, _ := e.Replica(r.Name); o.State != engine.StateDone || s.Starts(r.Name) != 1 {
		t.Errorf("begun anew: %+v", o)
	}
	if err := e.Start(t.Context(), engine.Replica{Zone: r.Zone}); !fault.Is(err, fault.Invalid) {
		t.Error("one without a name:", err)
	}
	second := another(s, r.TaskID, 1, false)
	must(t, e.Start(t.Context(), second))
	if list := e.Replicas(r.TaskID); len(list) != 2 || list[0].Name != r.Name || list[1].Name != second.Name {
		t.Errorf("of the task: %+v", list)
	}
	if all := e.Replicas(""); len(all) != 2 {
		t.Errorf("all: %+v", all)
	}
	if none := e.Replicas("task-of-nobody"); len(none) != 0 {
		t.Errorf("of nobody: %+v", none)
	}
	stopAll(t, e)
}

// stop: it may be repeated, one that nobody knows or that has ended is fine, and one that has not started never does.
func stop(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	defer close()
	running, held := replica(s, 0, false), replica(s, 0, true)
	must(t, e.Stop(t.Context(), running.Name, time.Second))
	must(t, e.Start(t.Context(), running))
	must(t, e.Start(t.Context(), held))
	await(t, e, running.Name, engine.StateRunning)
	for range 2 {
		must(t, e.Stop(t.Context(), held.Name, time.Second))
		must(t, e.Stop(t.Context(), running.Name, time.Second))
	}
	s.Begin(t, held.Name)
	for _, r := range []engine.Replica{running, held} {
		if o := await(t, e, r.Name, engine.StateDone); o.Exit == nil || o.Exit.Reason != engine.ReasonStopped {
			t.Errorf("%s: %+v", r.Name, o)
		}
		must(t, e.Stop(t.Context(), r.Name, 0))
	}
	if s.Starts(held.Name) != 0 || s.Starts(running.Name) != 1 {
		t.Error("started:", s.Starts(held.Name), s.Starts(running.Name))
	}
}

// remove: only what is done is forgotten, and then it is gone for everybody.
func remove(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	r := replica(s, 0, false)
	must(t, e.Remove(t.Context(), r.Name))
	must(t, e.Start(t.Context(), r))
	await(t, e, r.Name, engine.StateRunning)
	if err := e.Remove(t.Context(), r.Name); !fault.Is(err, fault.Conflict) {
		t.Error("one that runs:", err)
	}
	s.End(t, r.Name)
	await(t, e, r.Name, engine.StateDone)
	feed := watch(t, e)
	feed.read()
	if _, ok := feed.replicas[r.Name]; !ok {
		t.Error("the feed does not know it")
	}
	for range 2 {
		must(t, e.Remove(t.Context(), r.Name))
	}
	if _, ok := e.Replica(r.Name); ok || len(e.Replicas("")) != 0 {
		t.Error("it is still there")
	}
	eventually(t, "the feed says that it is gone", func() bool {
		feed.read()
		return len(feed.replicas) == 0
	})
	close()
	e, close = s.Open(t, 2)
	defer close()
	if list := e.Replicas(""); len(list) != 0 {
		t.Errorf("found again: %+v", list)
	}
}

// fenced: what a leader orders after its time ends nothing, and one that comes too late is told so.
func fenced(t *testing.T, s Site) {
	old, closeOld := s.Open(t, 1)
	defer closeOld()
	r := replica(s, 0, false)
	must(t, old.Start(t.Context(), r))
	await(t, old, r.Name, engine.StateRunning)
	now, close := s.Open(t, 2)
	defer close()
	_ = old.Stop(t.Context(), r.Name, 0) // it may say no, or be obeyed by nobody
	witness := replica(s, 0, false)
	must(t, now.Start(t.Context(), witness))
	await(t, now, witness.Name, engine.StateRunning)
	must(t, now.Stop(t.Context(), witness.Name, 0))
	await(t, now, witness.Name, engine.StateDone) // by now the other would have ended too
	if o, _ := now.Replica(r.Name); o.State != engine.StateRunning {
		t.Errorf("ended by an old leader: %+v", o)
	}
	if err := s.OpenLate(t, 1); err == nil {
		t.Error("an old leader comes back")
	}
	must(t, now.Stop(t.Context(), r.Name, 0))
	if o := await(t, now, r.Name, engine.StateDone); o.Exit.Reason != engine.ReasonStopped {
		t.Errorf("%+v", o.Exit)
	}
}

// reattach: the next engine finds everything, also what ended while there was none, and its feed begins with all of it.
func reattach(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	runs, ends, held := replica(s, 0, false), replica(s, 0, false), replica(s, 0, true)
	for _, r := range []engine.Replica{runs, ends, held} {
		must(t, e.Start(t.Context(), r))
	}
	await(t, e, runs.Name, engine.StateRunning)
	await(t, e, ends.Name, engine.StateRunning)
	close()
	s.End(t, ends.Name)
	for epoch := range 3 { // once more changes nothing
		e, close = s.Open(t, int64(epoch+2))
		if o := await(t, e, ends.Name, engine.StateDone); o.Exit == nil || o.Exit.Reason != engine.ReasonSucceeded {
			t.Errorf("an exit was lost: %+v", o)
		}
		feed := watch(t, e)
		feed.read()
		if len(feed.replicas) != 3 || len(e.Replicas("")) != 3 {
			t.Errorf("found %+v, told of %+v", e.Replicas(""), feed.replicas)
		}
		if o := feed.replicas[runs.Name]; o.State != engine.StateRunning || !o.Ready || o.Address == "" {
			t.Errorf("%+v", o)
		}
		close()
	}
	e, close = s.Open(t, 9)
	defer close()
	s.Begin(t, held.Name)
	await(t, e, held.Name, engine.StateRunning)
	for _, r := range []engine.Replica{runs, ends, held} {
		if s.Starts(r.Name) != 1 {
			t.Errorf("%s was started %d times", r.Name, s.Starts(r.Name))
		}
	}
	stopAll(t, e)
}

// nodes: they are reported without being asked for.
func nodes(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	defer close()
	feed := watch(t, e)
	eventually(t, "all nodes are known", func() bool {
		feed.read()
		_, whole := e.Nodes()
		return whole && len(feed.nodes) > 0
	})
	list, _ := e.Nodes()
	for _, n := range list {
		if n.Meta.Name == "" || !feed.nodes[n.Meta.Name] {
			t.Errorf("the feed is without %q", n.Meta.Name)
		}
	}
	if len(list) != len(feed.nodes) {
		t.Errorf("%d nodes, told of %d", len(list), len(feed.nodes))
	}
}

// over: an engine whose Run has ended changes nothing any more.
func over(t *testing.T, s Site) {
	e, close := s.Open(t, 1)
	r := replica(s, 0, false)
	must(t, e.Start(t.Context(), r))
	await(t, e, r.Name, engine.StateRunning)
	close()
	if err := e.Start(t.Context(), another(s, r.TaskID, 1, false)); err == nil {
		t.Error("it starts")
	}
	e, close = s.Open(t, 2)
	defer close()
	if len(e.Replicas("")) != 1 {
		t.Errorf("%+v", e.Replicas(""))
	}
	stopAll(t, e)
}

// stopAll ends everything, so that a test leaves nothing behind.
func stopAll(t *testing.T, e engine.Adapter) {
	t.Helper()
	for _, o := range e.Replicas("") {
		must(t, e.Stop(t.Context(), o.Name, 0))
	}
	for _, o := range e.Replicas("") {
		await(t, e, o.Name, engine.StateDone)
		must(t, e.Remove(t.Context(), o.Name))
	}
}
