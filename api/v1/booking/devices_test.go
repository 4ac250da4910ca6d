package booking

import (
	"fmt"
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func box(name, zone, rack string, devices int, kind string) *api.Node {
	n := &api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: zone, Rack: rack}}
	for i := range devices {
		n.Spec.Devices = append(n.Spec.Devices, api.Device{Index: i, Type: kind})
	}
	return n
}

// TestChoose: the closest nodes that have enough, none that is closed or taken, and how many there are where there are too few.
func TestChoose(t *testing.T) {
	nodes := []*api.Node{
		box("a1", "a", "r1", 8, "A100"), box("a2", "a", "r1", 8, "A100"), box("a3", "a", "r2", 8, "A100"), box("a4", "a", "r2", 4, "A100"),
		box("b1", "b", "r1", 8, "H800"), box("b2", "b", "r1", 8, "H800"), box("b3", "b", "r1", 2, "A100"), box("c1", "b", "r1", 0, ""),
	}
	shut := box("a0", "a", "r1", 8, "A100")
	shut.Spec.Cordoned = true
	gone := box("a00", "a", "r1", 8, "A100")
	gone.Spec.Lost = true
	nodes = append(nodes, shut, gone)
	for _, c := range []struct {
		spec  BookingSpec
		taken string
		want  []string
		have  int
	}{
		{BookingSpec{Devices: &Devices{Count: 2, Type: "A100"}}, "", []string{"b3"}, 2},
		{BookingSpec{Devices: &Devices{Count: 3, Type: "A100"}}, "", []string{"a4"}, 4},
		{BookingSpec{Devices: &Devices{Count: 8, Type: "A100"}}, "", []string{"a1"}, 8},
		{BookingSpec{Devices: &Devices{Count: 8, Type: "A100"}}, "a1", []string{"a2"}, 8},
		{BookingSpec{Devices: &Devices{Count: 12, Type: "A100"}}, "", []string{"a3", "a4"}, 12},
		{BookingSpec{Devices: &Devices{Count: 16, Type: "A100"}}, "", []string{"a1", "a2"}, 16},
		{BookingSpec{Devices: &Devices{Count: 17, Type: "A100"}}, "", []string{"a1", "a2", "a4"}, 20},
		{BookingSpec{Devices: &Devices{Count: 30, Type: "A100"}}, "", []string{"a1", "a2", "a3", "a4", "b3"}, 30},
		{BookingSpec{Devices: &Devices{Count: 31, Type: "A100"}}, "", nil, 30},
		{BookingSpec{Zone: "b", Devices: &Devices{Count: 9}}, "", []string{"b1", "b3"}, 10},
		{BookingSpec{Labels: map[string]string{"rack": "r2"}, Devices: &Devices{Count: 9}}, "", []string{"a3", "a4"}, 12},
		{BookingSpec{Nodes: []string{"a3", "b1"}, Devices: &Devices{Count: 9}}, "", []string{"a3", "b1"}, 16},
		{BookingSpec{Devices: &Devices{Count: 1, Type: "B200"}}, "", nil, 0},
	} {
		got, have := c.spec.Choose(nodes, func(n *api.Node) bool { return n.Meta.Name != c.taken })
		if !slices.Equal(got, c.want) || have != c.have {
			t.Errorf("%+v without %q: %v with %d, want %v with %d", *c.spec.Devices, c.taken, got, have, c.want, c.have)
		}
	}
}

// TestChooseFromMany: of any wish there are enough, and none of the nodes could be left out.
func TestChooseFromMany(t *testing.T) {
	var nodes []*api.Node
	sum := 0
	for i := range 40 {
		n := 1 << (i % 4)
		sum += n
		nodes = append(nodes, box(fmt.Sprintf("n%02d", i), fmt.Sprint("z", i%2), fmt.Sprint("r", i%7), n, "A100"))
	}
	for count := 1; count <= sum; count++ {
		s := BookingSpec{Devices: &Devices{Count: count}}
		names, have := s.Choose(nodes, func(*api.Node) bool { return true })
		least := sum
		for _, n := range nodes {
			if slices.Contains(names, n.Meta.Name) {
				least = min(least, len(n.Spec.Devices))
			}
		}
		if have < count || have-least >= count {
			t.Fatalf("%d: %v with %d, the smallest has %d", count, names, have, least)
		}
	}
}
