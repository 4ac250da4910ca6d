package sched

import (
	"fmt"
	"testing"
	"time"
)

// halfFull is 12,500 nodes of 8 with every second one taken by one gang, and some of the others
// by single devices.
func halfFull(b *testing.B) *Cluster {
	c := NewCluster()
	for i := range 12500 {
		n := Node{
			Number: uint32(i + 1), Name: fmt.Sprint("n", i+1), Zone: fmt.Sprint("z", i%2), CPU: 128000, Memory: 1 << 40,
			Rack: fmt.Sprint("rack", i/16), Leaf: fmt.Sprint("leaf", i/128), Devices: cards(8, "A100"),
		}
		if err := c.SetNode(n); err != nil {
			b.Fatal(err)
		}
		slots := Assignment{nil}
		switch {
		case i%2 == 0 && i%3 > 0:
			slots[0] = append(slots[0], slot(n.Number, 0xff))
		case i%5 == 0:
			slots[0] = append(slots[0], slot(n.Number, 0x05))
		}
		if err := c.Hold(n.Name, gangOf(1, Need{CPU: 4000, Memory: 1 << 30, Devices: 1}).Roles, slots); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

func BenchmarkPlace(b *testing.B) {
	need := func(devices int) Need { return Need{CPU: 4000, Memory: 1 << 33, Devices: devices} }
	for _, tc := range []struct {
		name string
		w    *Workload
		ok   bool
	}{
		{"one", gangOf(1, need(1)), true},
		{"half", gangOf(1, Need{CPU: 4000, Devices: 1, Share: 500}), true},
		{"8x1", gangOf(8, need(1)), true},
		{"8x8", gangOf(8, need(8)), true},
		{"1024x8", gangOf(1024, need(8)), true},
		{"roles", &Workload{Roles: []Role{{Replicas: 8, Need: need(8)}, {Replicas: 2, Need: need(0)}}}, true},
		{"spread", &Workload{Roles: gangOf(8, need(1)).Roles, Topology: Topology{Spread: true}}, true},
		{"rack2", &Workload{Roles: gangOf(8, need(8)).Roles, Topology: Topology{MaxPerRack: 2}}, true},
		{"refused", gangOf(12000, need(8)), false},
	} {
		b.Run("nodes=12500/"+tc.name, func(b *testing.B) {
			c, q := halfFull(b), NewQueues()
			for i := 0; b.Loop(); i++ {
				w := *tc.w
				w.ID, w.Queue = fmt.Sprint("w", i), "q"
				q.Add(&w)
				if res := Plan(time.Time{}, c, q, Policy{}); (len(res.Decisions) == 1) != tc.ok {
					b.Fatal(len(res.Decisions), "decisions")
				}
				c.Release(w.ID)
				q.Remove(w.ID)
			}
		})
	}
}
