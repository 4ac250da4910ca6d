package sched

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOutage: who finds room elsewhere goes there, by priority; who does not waits with a reason.
func TestOutage(t *testing.T) {
	c, q := NewCluster(), NewQueues()
	for _, z := range []string{"a", "b"} {
		c.SetZone(Zone{Name: z, Region: "r"})
	}
	for i, z := range []string{"a", "a", "a", "b"} {
		if err := c.SetNode(Node{Number: uint32(i + 1), Zone: z, Devices: cards(8, "A100")}); err != nil {
			t.Fatal(err)
		}
	}
	stand := func(id string, priority, devices int, node uint32, allow ...string) {
		w := gangOf(1, Need{Devices: devices})
		w.ID, w.Priority, w.Allow = id, priority, allow
		at := Assignment{{{Node: node, Devices: lowMask(devices)}}}
		if err := c.Hold(id, w.Roles, at); err != nil {
			t.Fatal(err)
		}
		q.Run(time.Time{}, c, w, at, time.Time{})
	}
	stand("t1", 1, 6, 1, "a")
	stand("t2", 1, 4, 2)
	stand("t3", 5, 6, 3)
	before, freed := c.digest(), c.freed
	list, more := Outage(time.Time{}, c, q, "a")
	if after := c.digest(); after != before || c.freed != freed {
		t.Errorf("it changed the cluster:\n%s\n%s", before, after)
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID+" "+r.Why.Reason)
		if r.Replicas != 1 || r.Lost != 1 {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"t3 ", "t1 NoZone", "t2 DevicesBusy"}; !slices.Equal(ids, want) || more != 0 || list[0].To["b"] != 1 {
		t.Errorf("%q, want %q; %+v", ids, want, list[0])
	}
	for _, zone := range []string{"b", "nowhere"} {
		if list, _ := Outage(time.Time{}, c, q, zone); len(list) != 0 {
			t.Errorf("%s: %+v", zone, list)
		}
	}
}

// TestOutageIsTrue: in random worlds nothing is changed by the question, and whoever is promised a
// place gets one when the zone is really closed and all its gangs wait again.
func TestOutageIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, q := newWorld(t), NewQueues()
		for range rapid.IntRange(1, 20).Draw(t, "gangs") {
			q.Add(w.workload(false))
		}
		Plan(time.Time{}, w.c, q, Policy{NoPreemption: true})
		for _, id := range sortedKeys(q.waiting) {
			q.Remove(id)
		}
		before := w.c.digest()
		list, _ := Outage(time.Time{}, w.c, q, "z0")
		if after := w.c.digest(); after != before {
			t.Fatalf("it changed the cluster:\n%s\n%s", before, after)
		}
		for _, n := range w.c.zone("z0").nodes {
			closed := n.Node
			closed.Closed = true
			w.set(closed)
		}
		for _, r := range list {
			w.c.Release(r.ID)
		}
		for _, r := range list {
			g := q.running[r.ID].Workload
			at, ok := place(w.c, g)
			if ok != (len(r.To) > 0) {
				t.Fatalf("%s: promised %v, found %v", r.ID, r.To, at)
			}
			if ok {
				if w.c.inZone(at, "z0") > 0 {
					t.Fatal(r.ID, "goes to the lost zone")
				}
				if err := w.c.Hold(r.ID, g.Roles, at); err != nil {
					t.Fatal(err)
				}
			} else if r.Why.Reason == "" || r.Why.Message.ZH == "" {
				t.Fatalf("%s waits without a reason", r.ID)
			}
		}
	})
}
