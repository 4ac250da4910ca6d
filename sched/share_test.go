package sched_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// TestShare: what a queue may use, uses and is owed, and who is next, with those below it.
func TestShare(t *testing.T) {
	s := newStage(t, 2, 4)
	s.p.NoPreemption = true
	s.queues(
		fair.Queue{Name: "org", Limit: []int64{-1, -1, 6000}}, fair.Queue{Name: "a", Parent: "org", Weight: 3, Guarantee: []int64{0, 0, 2000}},
		fair.Queue{Name: "b", Parent: "org"}, fair.Queue{Name: "idle", Parent: "org", Weight: 100}, fair.Queue{Name: "q", Weight: 1})
	add := func(id, queue string, priority, devices int) {
		w := s.task(id, priority, 1, devices)
		w.Queue = queue
		s.q.Add(w)
	}
	add("t1", "a", 1, 4)
	add("t2", "b", 1, 1)
	s.plan()
	for i := range 12 {
		add(fmt.Sprintf("w%02d", i), []string{"a", "b"}[i%2], 1+i/10, 4)
	}
	s.plan()
	org, ok := s.q.Share("org", 10)
	if !ok || org.Waiting != 12 || org.Running != 2 || org.Usage[sched.VectorDevices] != 5000 || org.Share != 5.0/8 || org.Dominant != sched.VectorDevices {
		t.Fatalf("%t %+v", ok, org)
	}
	if diff := cmp.Diff([]string{"w10", "w11", "w00", "w01", "w02", "w03", "w04", "w05", "w06", "w07"}, org.Waits); diff != "" {
		t.Error(diff)
	}
	if len(org.Runs) != 2 || org.Runs[0].Workload.ID != "t1" || !slices.Equal(org.Children, []string{"a", "b", "idle"}) || org.Fair != 1 {
		t.Errorf("%+v", org)
	}
	a, _ := s.q.Share("a", 1) // idle wants nothing, so a has three parts of four
	if a.Fair != .75 || len(a.Waits) != 1 || a.Waiting != 6 || a.Running != 1 {
		t.Errorf("%+v", a)
	}
	if _, ok := s.q.Share("never heard of", 10); ok {
		t.Error("a queue was made by looking at it")
	}
	var names []string
	for _, x := range s.q.Shares() {
		names = append(names, x.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "idle", "org", "q"}, names); diff != "" {
		t.Error(diff)
	}
}
