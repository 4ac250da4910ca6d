package sched

import (
	"testing"
	"time"
)

// TestDisplacedGoesFirst: who was sent away from its place goes before all others of its priority, older ones and smaller ones
// too, and never before a higher one.
func TestDisplacedGoesFirst(t *testing.T) {
	c, q := NewCluster(), NewQueues()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.SetZone(Zone{Name: "a"})
	must(c.SetNode(Node{Number: 1, Name: "n1", Zone: "a", CPU: 64000, Memory: 1 << 40, Disk: 1 << 40, Devices: []string{"A100"}}))
	now := time.Unix(1e9, 0)
	add := func(id string, priority int, displaced bool, expected time.Duration) {
		q.Add(&Workload{ID: id, Queue: "default", Priority: priority, Displaced: displaced, Submitted: now, Expected: expected,
			Roles: []Role{{Name: "worker", Replicas: 1, Need: Need{Devices: 1}}}})
	}
	add("t1-old", 50, false, time.Minute)
	add("t2-drained", 50, true, 24*time.Hour)
	add("t3-high", 60, false, time.Hour)
	var order []string
	for range 3 {
		res := Plan(now, c, q, Policy{NoPreemption: true})
		if len(res.Decisions) != 1 {
			t.Fatalf("%v, then %+v", order, res.Decisions)
		}
		id := res.Decisions[0].Workload.ID
		order = append(order, id)
		c.Release(id)
		q.Stop(now, id, true)
	}
	if order[0] != "t3-high" || order[1] != "t2-drained" || order[2] != "t1-old" {
		t.Error(order)
	}
}
