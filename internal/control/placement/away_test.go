package placement_test

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestAway: a task leaves a node, or with it all of its rack, leaf or zone; where nothing else is left it stays.
func TestAway(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(1, 3)
	for i := range all {
		all[i].Spec.Zone, all[i].Spec.Rack, all[i].Spec.Leaf = "a", "r1", "l1"
	}
	all[2].Spec.Rack, all[3].Spec.Rack, all[3].Spec.Leaf = "r2", "r3", "l2"
	c := lead(t, s, zones, all)
	tk := placedIn(t, s, "t", 1, 2)
	from := nodesIn(place(s, "t").Spec.Roles)[0]
	name := all[from-1].Meta.Name
	if _, err := move(t, c, tk, placement.MoveWish{Away: []string{name}, Preview: true}); err != nil {
		t.Fatal(err)
	}
	if err := c.Away(t.Context(), tk, name, "zone"); !fault.Is(err, fault.Conflict) || place(s, "t").Spec.Evict != nil {
		t.Fatalf("there is no other zone: %v", err)
	}
	if err := c.Away(t.Context(), tk, name, "leaf"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is asked to go", func() bool { return place(s, "t").Spec.Evict != nil })
	to := nodesIn(place(s, "t").Spec.Evict.To)[0]
	if all[to-1].Spec.Leaf == all[from-1].Spec.Leaf {
		t.Errorf("from node %d to node %d", from, to)
	}
}
