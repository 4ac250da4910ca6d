package sched_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/sched"
)

// TestWholeNodesGoToTheTightestRack: of nodes that are equally good a gang takes those in the rack, and
// then in the leaf, with the least room, so that larger holes stay whole.
func TestWholeNodesGoToTheTightestRack(t *testing.T) {
	s := newStage(t, 0, 0)
	for i := range 32 { // racks of 4, leaves of 16
		n := node(uint32(i+1), "z", "A100", "A100")
		n.CPU, n.Rack, n.Leaf = 1<<20, fmt.Sprintf("r%d", i/4), fmt.Sprintf("l%d", i/16)
		if err := s.c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	stand := func(number uint32) {
		w := s.task(fmt.Sprintf("s%d", number), 1, 1, 2)
		at := sched.Assignment{{{Node: number, Devices: 3}}}
		if err := s.c.Hold(w.ID, w.Roles, at); err != nil {
			t.Fatal(err)
		}
	}
	at := func(id string, replicas int) []uint32 {
		t.Helper()
		s.q.Add(s.task(id, 1, replicas, 2))
		res := s.plan()
		if len(res.Decisions) != 1 {
			t.Fatalf("%s did not start", id)
		}
		var out []uint32
		for _, slot := range res.Decisions[0].At[0] {
			out = append(out, slot.Node)
		}
		return out
	}
	stand(2)
	stand(29)
	stand(30)
	stand(25) // the racks of 1 and of 25 have three each; more is left in the leaf of 1
	if got := at("a", 1); !slices.Equal(got, []uint32{31}) {
		t.Errorf("one node: %v, want the rack with two left", got)
	}
	if got := at("b", 3); !slices.Equal(got, []uint32{26, 27, 28}) {
		t.Errorf("three nodes: %v, want the rack in the fuller leaf", got)
	}
}
