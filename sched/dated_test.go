package sched_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestDeadlinesChangePlaces: one that is due soon goes before shorter ones that can wait, and one that can't be in
// time any more goes last.
func TestDeadlinesChangePlaces(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	add := func(id string, hours, due int) {
		w := s.task(id, 1, 1, 8)
		w.Expected, w.Deadline = time.Duration(hours)*time.Hour, s.now.Add(time.Duration(due)*time.Hour)
		s.q.Add(w)
	}
	add("a", 6, 7)
	add("b", 2, 20)
	add("c", 2, 1)
	add("d", 3, 12)
	var got []string
	for range 4 {
		for _, d := range s.plan().Decisions {
			got = append(got, d.Workload.ID)
			s.pass(d.Workload.Expected)
			s.end(d.Workload.ID)
		}
	}
	if want := []string{"a", "b", "d", "c"}; !slices.Equal(got, want) {
		t.Errorf("started as %v, want %v", got, want)
	}
}

// TestDeadlinesLeaveOthersAlone: who is not dated keeps its place.
func TestDeadlinesLeaveOthersAlone(t *testing.T) {
	s := newStage(t, 1, 8)
	s.p.NoPreemption = true
	for i, hours := range []int{4, 1, 2} {
		w := s.task(fmt.Sprintf("w%d", i), 1, 1, 8)
		w.Expected = time.Duration(hours) * time.Hour
		if i == 0 {
			w.Deadline = s.now.Add(5 * time.Hour)
		}
		s.q.Add(w)
	}
	s.starts("w1")
}
