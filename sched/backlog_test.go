package sched_test

import (
	"fmt"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
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
