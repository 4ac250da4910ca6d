package sched_test

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// TestATurnIsBounded: before a long backlog of many shapes a turn ends early and says so, the next ones
// come to everybody, and one that comes in between and fits does not wait for that.
func TestATurnIsBounded(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	s.q.Add(s.task("a", 1, 1, 7))
	s.starts("a")
	for i := range 1000 {
		w := s.task(fmt.Sprintf("b%04d", i), 1, 1, 2)
		w.Roles[0].Need.CPU = api.MilliCPU(1 + i)
		w.Queue = fmt.Sprintf("q%d", i%5)
		s.q.Add(w)
	}
	if res := s.plan(); !res.More || len(res.Decisions) > 0 {
		t.Fatalf("a turn before a long backlog was not cut: %v", res.More)
	}
	s.q.Add(s.task("c", 1, 1, 1))
	res := s.plan()
	if len(res.Decisions) != 1 || res.Decisions[0].Workload.ID != "c" || !res.More {
		t.Fatalf("one that fits did not start at once: %+v, more %v", res.Decisions, res.More)
	}
	turns := 0
	for res := s.plan(); res.More; res = s.plan() {
		if turns++; turns > 50 {
			t.Fatal("the turns never end")
		}
	}
	if turns < 3 {
		t.Error("the backlog was done with in too few turns:", turns)
	}
	s.end("a")
	started := 0
	for {
		res := s.plan()
		started += len(res.Decisions)
		if !res.More {
			break
		}
	}
	if started != 3 { // seven devices in pairs
		t.Errorf("%d started, want 3", started)
	}
}

// TestWhoComesGoesBeforeASweep: something was freed, and a long backlog is to be looked at again; one that
// comes now and is the first of its queue starts before that.
func TestWhoComesGoesBeforeASweep(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	s.q.Add(s.task("a", 1, 1, 7))
	s.starts("a")
	for i := range 1000 {
		w := s.task(fmt.Sprintf("b%04d", i), 1, 1, 2)
		w.Roles[0].Need.CPU = api.MilliCPU(1 + i)
		w.Queue = fmt.Sprintf("q%d", i%5)
		s.q.Add(w)
	}
	for s.plan().More {
	}
	s.end("a")
	late := s.task("c", 1, 1, 1)
	late.Queue, late.Expected = "q0", 1000*time.Hour
	s.q.Add(late)
	first := s.task("d", 9, 1, 1)
	first.Queue = "q0"
	s.q.Add(first)
	if !s.starts("d").More {
		t.Error("the others are forgotten")
	}
	next := s.task("e", 9, 1, 1) // comes before they were looked at
	next.Queue = "q1"
	s.q.Add(next)
	s.starts("e")
	for i := range 20 { // but they are, whoever comes
		w := s.task(fmt.Sprintf("f%02d", i), 9, 1, 0)
		w.Queue = "q2"
		s.q.Add(w)
		if got := ids(s.plan()); len(got) > 1 || got[0] != w.ID {
			return
		}
	}
	t.Error("whoever comes keeps the others waiting for ever")
}

// TestWhoComesGoesBeforeASweepThatIsDue: nothing was freed, but it is time to look at all who wait again; one that
// comes then and fits starts before that.
func TestWhoComesGoesBeforeASweepThatIsDue(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	s.q.Add(s.task("a", 1, 1, 7))
	s.starts("a")
	for i := range 100 {
		w := s.task(fmt.Sprintf("b%02d", i), 1, 1, 2)
		w.Roles[0].Need.CPU = api.MilliCPU(1 + i)
		s.q.Add(w)
	}
	for s.plan().More {
	}
	s.now = s.now.Add(time.Hour)
	s.q.Add(s.task("c", 9, 1, 1))
	if !s.starts("c").More {
		t.Error("all who wait were looked at first")
	}
	if s.plan().More {
		t.Error("the next turn does not come to all")
	}
}

// TestASearchGoesOnInASmallerCluster: nodes are taken away while victims are looked for in parts.
func TestASearchGoesOnInASmallerCluster(t *testing.T) {
	const nodes = 12_000
	s := newStage(t, nodes, 1)
	for i := range nodes {
		w := s.task(fmt.Sprintf("r%05d", i), 1, 1, 1)
		w.Preemptible = i == 7
		s.stands(w, uint32(i+1))
	}
	x := s.task("x", 5, 1, 1)
	x.Avoid = []uint32{8}
	s.q.Add(x)
	if !s.plan().More {
		t.Fatal("all of it was searched at once")
	}
	for i := 1000; i < nodes; i++ {
		id := fmt.Sprintf("r%05d", i)
		s.c.Release(id)
		s.q.Stop(s.now, id, true)
		if err := s.c.RemoveNode(uint32(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if res := s.plan(); len(res.Evictions)+len(res.Decisions) > 0 {
			t.Fatalf("%+v", res)
		}
		s.now = s.now.Add(time.Hour)
	}
}

// TestVictimsAreLookedForInParts: in a large cluster a search for victims goes on where it ended, and finds
// the only one there is.
func TestVictimsAreLookedForInParts(t *testing.T) {
	const nodes = 5000
	s := newStage(t, nodes, 1)
	for i := range nodes {
		w := s.task(fmt.Sprintf("r%04d", i), 1, 1, 1)
		w.Preemptible = i == nodes-7
		s.stands(w, uint32(i+1))
	}
	s.q.Add(s.task("x", 5, 1, 1))
	for turns := 0; ; turns++ {
		res := s.plan()
		if len(res.Evictions) > 0 {
			if want := fmt.Sprintf("r%04d", nodes-7); res.Evictions[0].ID != want || len(res.Evictions) > 1 {
				t.Errorf("%+v was asked to go, want %s", res.Evictions, want)
			}
			break
		}
		if !res.More || turns > 10 {
			t.Fatal("nobody is asked to go, turns:", turns)
		}
	}
}

// stands lets a workload run on the first device of a node.
func (s *stage) stands(w *sched.Workload, node uint32) {
	s.t.Helper()
	at := sched.Assignment{{api.Slot{Node: node, Devices: 1}}}
	if err := s.c.Hold(w.ID, w.Roles, at); err != nil {
		s.t.Fatal(err)
	}
	s.q.Run(s.now, s.c, w, at, s.now)
}

// TestEndsOfManyAreNotBelievedForLong: with thousands of runs and turns in quick succession a forecast hears of runs that
// have started since the ends were first worked out.
func TestEndsOfManyAreNotBelievedForLong(t *testing.T) {
	const nodes = 4200
	s := newStage(t, nodes, 1)
	long := func(id string) *sched.Workload {
		w := s.task(id, 1, 1, 1)
		w.Expected, w.Preemptible = 100*time.Hour, false
		return w
	}
	for i := range nodes {
		s.stands(long(fmt.Sprintf("r%04d", i)), uint32(i+1))
	}
	s.q.Add(s.task("x", 1, 2, 1))
	s.plan()
	for i := range 2 {
		s.end(fmt.Sprintf("r%04d", i))
		short := s.task(fmt.Sprintf("y%d", i), 9, 1, 1)
		short.Expected, short.Preemptible = time.Hour, false
		s.q.Add(short)
	}
	for range 3 {
		s.now = s.now.Add(4 * time.Second)
		s.plan()
	}
	s.q.Add(s.task("z", 5, 2, 1))
	s.plan()
	r, ok := s.q.Predicted("z")
	if wait := r.Start.Sub(s.now); !ok || wait > 2*time.Hour {
		t.Errorf("z is expected in %s (%v), though two end in an hour", wait, ok)
	}
}
