package gang

import (
	"testing"
	"time"

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

func (silentHub) Attached(engine.Name) bool                 { return false }
func (silentHub) Silence(engine.Name) (time.Duration, bool) { return 0, false }
func (silentHub) Ranks(engine.Name) (link.Ranks, bool)      { return link.Ranks{}, false }

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

// TestUnits: each has the attempt, generation, rendezvous and members of its roles, and writes them back there and nowhere else.
func TestUnits(t *testing.T) {
	tk := task(api.PhaseRunning, 2, 2)
	g := Gang{Terms: Terms{Task: tk, Placement: placed()}}
	for i, role := range []string{"worker", "reward", "worker", "reward", "reward"} {
		m := at(i, 2, engine.StateRunning, true)
		m.Role = role
		g.Members = append(g.Members, m)
	}
	g.Rank()
	whole := g.Units(&tk.Status)
	if len(whole) != 1 || !whole[0].Whole() || !whole[0].Main() || whole[0].World != 5 || whole[0].At(3) != 3 || whole[0].Once("x") != "x" {
		t.Fatalf("%+v", whole)
	}
	status := tk.Status
	status.Roles = []api.RoleStatus{{Name: "reward", Attempt: 7, Generation: 9, Rendezvous: &api.Rendezvous{World: 3}}}
	units := g.Units(&status)
	if len(units) != 2 || len(units[0].Members) != 2 || units[0].World != 2 || units[0].Whole() || units[0].Generation != 2 {
		t.Fatalf("%+v", units)
	}
	own := units[1]
	if own.Role != "reward" || own.Main() || own.Attempt != 7 || own.Generation != 9 || own.Rendezvous.World != 3 || own.World != 3 || own.At(1) != 3 || own.Once("x") != "reward-x" {
		t.Fatalf("%+v", own)
	}
	own.Attempt, own.Generation, own.Rendezvous = 8, 10, nil
	own.Write(&status)
	if r := status.Roles[0]; r.Attempt != 8 || r.Generation != 10 || r.Rendezvous != nil || status.Generation != 2 || status.Rendezvous == nil {
		t.Errorf("%+v", status)
	}
	units[0].Generation++
	units[0].Write(&status)
	if status.Generation != 3 || status.Roles[0].Generation != 10 {
		t.Errorf("%+v", status)
	}
}

// TestProgressed: ranks got beyond where their generation began. The number of an entry in a script's own folder is no such place.
func TestProgressed(t *testing.T) {
	for _, c := range []struct {
		folder  string
		step    int64
		restore int64
		want    bool
	}{{"", 7, 7, false}, {"", 8, 7, true}, {"out", 8, 1_795_032_355, true}, {"out", 0, 1_795_032_355, false}} {
		tk := task(api.PhaseRunning, 1, 1)
		tk.Spec.Checkpoint = &api.Checkpoints{Folder: c.folder}
		m := at(0, 1, engine.StateRunning, true)
		m.Said.Step = c.step
		u := Unit{Terms: Terms{Task: tk}, Generation: 1, Rendezvous: &api.Rendezvous{Restore: c.restore}, Members: Members{m}}
		if got := u.Progressed(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
