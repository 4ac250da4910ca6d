package sched_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// TestOverloadSharesTheDevices: once everybody is overdue, age alone does not decide. Short work that
// comes then is served beside the oldest, and the oldest is served beside it.
func TestOverloadSharesTheDevices(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	s.teach("short", 1, 10*time.Minute)
	s.teach("long", 1, 100*time.Hour)
	long := func(i int) *sched.Workload {
		w := s.task(fmt.Sprintf("a%03d", i), 1, 1, 1)
		w.Name = "long"
		return w
	}
	var running []string
	for i := range 100 { // 8 start, and the others are work for weeks
		s.q.Add(long(i))
	}
	for _, d := range s.plan().Decisions {
		running = append(running, d.Workload.ID)
	}
	s.pass(80 * time.Hour) // everybody is overdue
	for i := range 4 {
		w := s.task(fmt.Sprintf("b%03d", i), 1, 1, 1)
		w.Name = "short"
		s.q.Add(w)
	}
	s.plan()
	var started []string
	for range 6 {
		s.end(running[0])
		running = running[1:]
		for _, d := range s.plan().Decisions {
			started = append(started, d.Workload.ID)
		}
	}
	slices.Sort(started)
	if want := []string{"a008", "a009", "b000", "b001", "b002", "b003"}; !slices.Equal(started, want) {
		t.Errorf("started %v, want %v", started, want)
	}
	ex, _ := sched.Explain(s.now, s.c, s.q, "a050", 10_000)
	if i := slices.IndexFunc(ex.Evidence, func(e sched.Evidence) bool { return e.Fact == "OverdueShare" }); i < 0 || ex.Evidence[i].Count < 1 || ex.Evidence[i].Count > 50 {
		t.Errorf("the explanation does not say that the overdue share: %+v", ex.Evidence)
	}
}

// TestBearableLoadKeepsThePromise: with little overdue work the oldest goes before everybody.
func TestBearableLoadKeepsThePromise(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	s.teach("short", 1, 20*time.Hour)
	s.teach("ends", 1, 75*time.Hour)
	for i := range 8 {
		w := s.task(fmt.Sprintf("r%d", i), 1, 1, 1)
		w.Name = "ends"
		s.q.Add(w)
	}
	s.plan()
	gang := s.task("a", 1, 1, 4)
	gang.Expected = 10 * time.Hour
	s.q.Add(gang)
	s.plan()
	s.pass(73 * time.Hour)
	for i := range 20 {
		w := s.task(fmt.Sprintf("b%02d", i), 1, 1, 1)
		w.Name = "short"
		s.q.Add(w)
	}
	s.plan()
	ex, _ := sched.Explain(s.now, s.c, s.q, "a", 10_000)
	if !slices.ContainsFunc(ex.Evidence, func(e sched.Evidence) bool { return e.Fact == "OverdueFirst" && e.Count == 73 }) {
		t.Errorf("the explanation does not say that it goes first: %+v", ex.Evidence)
	}
	for i := range 3 {
		s.end(fmt.Sprintf("r%d", i))
		s.starts()
	}
	s.end("r3")
	s.starts("a")
}

// TestNothingIsKeptForWhoIsNoLongerNext: a reservation that nobody works out again any more, because
// others of its class came before it, ends.
func TestNothingIsKeptForWhoIsNoLongerNext(t *testing.T) {
	s := newStage(t, 2, 8)
	s.p.NoTurns = true
	s.q.Add(s.task("r", 1, 1, 8))
	s.starts("r")
	s.q.Add(s.task("m", 1, 2, 8))
	s.starts()
	if _, ok := s.q.Predicted("m"); !ok {
		t.Fatal("the gang has no reservation")
	}
	s.q.Add(s.task("a", 1, 2, 8)) // older, of the same class
	for range 20 {
		s.pass(10 * time.Minute)
		s.starts()
	}
	if r, ok := s.q.Predicted("m"); ok {
		t.Errorf("room is still kept: %v", r)
	}
}
