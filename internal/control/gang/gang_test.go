package gang

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/google/go-cmp/cmp"
)

// TestTable: ranks follow the topology, role by role.
func TestTable(t *testing.T) {
	m := func(role string, index, ranks int, zone, leaf string, node uint32, devices uint64) Member {
		return Member{Stand: Stand{Zone: zone, Leaf: leaf, Number: node, Devices: devices}, Ranking: Ranking{Ranks: ranks}, Role: role, Index: index}
	}
	s := Gang{Terms: Terms{Task: task(api.PhasePending, 0, 0)}, Members: Members{
		m("worker", 0, 2, "b", "l1", 1, 0), m("worker", 1, 2, "a", "l2", 9, 0), m("worker", 2, 2, "a", "l1", 7, 0b1100),
		m("worker", 3, 2, "a", "l1", 7, 0b0011), m("ps", 0, 1, "a", "l1", 3, 0),
	}}
	s.Rank()
	if s.World != 9 {
		t.Error(s.World)
	}
	var got []int
	for _, m := range s.Members {
		got = append(got, m.First)
	}
	if d := cmp.Diff([]int{6, 4, 2, 0, 8}, got); d != "" {
		t.Error(d)
	}
	if s.Members.Lead().Index != 3 {
		t.Error(s.Members.Lead())
	}
	before := s.Members.Hash()
	s.Members[0].First, s.Members[1].First = s.Members[1].First, s.Members[0].First
	if s.Members.Hash() == before {
		t.Error("another table has the same hash")
	}
}

func TestNewestCommon(t *testing.T) {
	for _, c := range []struct {
		held [][]int64
		want int64
	}{
		{nil, 0}, {[][]int64{{1, 2}}, 2}, {[][]int64{{1, 2, 3}, {2, 3}, {2, 4}}, 2}, {[][]int64{{1}, {2}}, 0}, {[][]int64{{5}, nil}, 0},
	} {
		if got := newestCommon(c.held); got != c.want {
			t.Errorf("%v: %d", c.held, got)
		}
	}
}

func TestMFUIsOfRealDevicesThatAreKnown(t *testing.T) {
	peaks := LoadPeaks()
	node := &api.Node{Spec: api.NodeSpec{Devices: []api.Device{{Type: "H800"}, {Type: "H800"}, {Type: "nobody's"}}}}
	if got := peaks.Of(node, 0b11); got != 2*989e12 {
		t.Error(got)
	}
	if peaks.Of(node, 0b111) != 0 {
		t.Error("a peak of an unknown device")
	}
	node.Spec.Virtual = true
	if peaks.Of(node, 0b11) != 0 {
		t.Error("a peak of devices that are not there")
	}
}

type silentHub struct{}

func (silentHub) Attached(engine.Name) bool            { return false }
func (silentHub) Ranks(engine.Name) (link.Ranks, bool) { return link.Ranks{}, false }

// TestGuestRanks: a rank for each device of the environment, in the order of the user, and no limits or
// devices of its own in the books.
func TestGuestRanks(t *testing.T) {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Framework = "pytorch-ddp"
	o := NewObserver(nil, nil, silentHub{}, nil)
	for number := range uint32(3) {
		o.Note(&api.Node{Spec: api.NodeSpec{Number: number, Zone: "z", Devices: make([]api.Device, 4)}})
	}
	pl := placed()
	pl.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 2, Devices: 0b1100}, {Node: 1, Devices: 1}}}}
	pl.Spec.Inside = []api.Lender{{Task: "env-b", TaskID: "task-b", Role: "worker", Attempt: 4}, {Task: "env-a", TaskID: "task-a", Role: "main", Attempt: 1}}
	s := Gang{Terms: Terms{Task: tk, Placement: pl}}
	s.Members = o.members(s.Terms, s.Placement.Spec.Roles, map[engine.Name]engine.Observation{})
	s.Rank()
	if s.Members[0].Ranks != 2 || s.Members[1].Ranks != 1 || s.Members[0].First != 0 || s.Members[1].First != 2 {
		t.Errorf("%+v", s.Members)
	}
	if got := s.Members[1].Lender; got.TaskID != "task-a" {
		t.Errorf("inside %+v", got)
	}
	if n := s.RanksAt("worker", api.Slot{}, recipe.Ranks); n != 1 {
		t.Errorf("%d ranks without a device", n)
	}
}
