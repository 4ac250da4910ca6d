package devenv

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// stoppedAt is an environment whose home is on n1.
func stoppedAt() *kind.DevEnvironment {
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-0123456789abcdefghjk", Name: "lab", Project: "lab", Owner: "ann"}}
	e.Default()
	e.Spec.Stop = true
	e.Status.Status = work.Status{Phase: api.PhaseStopped, Attempt: 1, Zones: []string{"z1"}, Home: "n1", FinishedAt: &noon}
	return e
}

// disks are homes by their names, as they are on all machines: what is in each, and whether it is whole.
type disks map[string]bool

// stage plays all around the controller: the planner, an engine, and the leader's looks.
type stage struct {
	t     *testing.T
	e     *kind.DevEnvironment
	homes disks
	fails func(saving bool) bool // whether what starts now ends badly
	exit  *engine.Exit
	start time.Time
	node  string
	at    int // the attempt that has a place; 0: none
}

// turn is one of the controller's. crash: what it wrote is lost.
func (g *stage) turn(now time.Time, crash bool) {
	e := g.e
	s := seen(e)
	m := kind.Moves{Of: e}
	if g.at > 0 {
		s.Placement = &api.Placement{Spec: api.PlacementSpec{Attempt: g.at}}
		name := engine.NameOf(e.Meta.ID, kind.Role, 0, g.at)
		member := work.Member{Name: name, Role: kind.Role, Attempt: g.at, Attached: true, Node: &api.Node{Meta: api.Meta{Name: g.node}, Spec: api.NodeSpec{Zone: s.View.Wish.Zones.Allow[0]}}}
		switch {
		case g.exit != nil:
			member.Known = engine.Observation{Name: name, State: engine.StateDone, Exit: g.exit, Started: g.start}
		case !g.start.IsZero():
			member.Known = engine.Observation{Name: name, State: engine.StateRunning, Started: g.start}
		}
		s.Members = []work.Member{member}
	}
	if e.Saves() && g.exit != nil {
		s.Made = &asset.Dataset{Meta: api.Meta{Owner: "ann"}, Status: asset.AssetStatus{Latest: 1, Size: 1}}
	}
	if m.Due() && e.Status.Snapshot != nil && e.Status.Snapshot.Version > 0 {
		s.Made = &asset.AssetVersion{Meta: api.Meta{Owner: "ann"}, Spec: asset.VersionSpec{Manifest: "d", Size: 1}}
	}
	if moved := e.Status.Moved; moved != nil && moved.Left != nil {
		if m.Keeps(moved.Left.Home) {
			g.t.Fatalf("a home that is needed is to go: %+v", moved)
		}
		delete(g.homes, moved.Left.Home)
		s.Dropped = true
	}
	p := decide(s, kind.Policy{}, now)
	if !g.homes[e.HomeName()] && !m.Filling() {
		g.t.Fatalf("the home that counts is not whole: %v, %+v", g.homes, e.Status)
	}
	if len(p.Start) > 0 && g.start.IsZero() && g.exit == nil { // an effect: a crash does not take it back
		saving, bad := e.Saves(), g.fails(e.Saves())
		if !saving {
			g.homes[e.HomeName()] = g.homes[e.HomeName()] || !bad
		}
		switch {
		case bad:
			g.exit = &engine.Exit{Code: 1, Reason: engine.ReasonNonZero}
		case saving:
			g.start, g.exit = now, &engine.Exit{Reason: engine.ReasonSucceeded}
		default:
			g.start = now
		}
	}
	if len(p.Stop) > 0 && g.exit == nil {
		g.exit = &engine.Exit{Code: 143, Reason: engine.ReasonStopped}
	}
	if p.Next == nil || crash {
		return
	}
	g.e = p.Next.(*kind.DevEnvironment)
	if p.Leave {
		g.at, g.exit, g.start = 0, nil, time.Time{}
	}
	if g.e.Status.Phase == api.PhaseRecovering || g.e.Status.Phase == api.PhaseInitializing && g.e.Status.Attempt > g.at && g.at > 0 {
		g.exit, g.start = nil, time.Time{}
		g.at = max(g.at, g.e.Status.Attempt)
	}
}

// place is the planner: what is pending gets a place.
func (g *stage) place() {
	if g.at == 0 && g.e.Status.Phase == api.PhasePending && !g.e.Workload().Stop {
		g.at, g.exit, g.start = g.e.Status.Attempt+1, nil, time.Time{}
		if g.node = g.e.Workload().Wish.Node; g.node == "" {
			g.node = "other"
		}
	}
}

// TestMoves: 300 generated stories of moves with crashes at any turn, snapshots and starts that fail, and people who stop it. A whole home counts at
// every moment, what is deleted never counts, and in the end there is one home, where the status says.
func TestMoves(t *testing.T) {
	moved, returned, given := 0, 0, 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		e := stoppedAt()
		if rnd.IntN(2) == 0 {
			e.Spec.Zone = "z1"
		}
		bad := rnd.IntN(3) == 0
		g := &stage{t: t, e: e, homes: disks{e.HomeName(): true}, fails: func(bool) bool { return bad && rnd.IntN(2) == 0 }}
		targets, now := map[int]string{}, noon
		for step := range 120 {
			now = now.Add(time.Second)
			m := kind.Moves{Of: g.e}
			if step%40 == 0 {
				to := kind.HomeTo{Node: []string{"n1", "n2", "n3", ""}[rnd.IntN(4)], Zone: "z2"}
				if m.May(to) == nil {
					m.Ask(to, false)
					targets[g.e.Spec.Move.Count] = to.Node
				}
			}
			if rnd.IntN(60) == 0 { // somebody's stop
				if !m.Leave() {
					g.e.Spec.Stop = true
				}
			}
			g.place()
			g.turn(now, rnd.IntN(4) == 0)
		}
		m := kind.Moves{Of: g.e}
		if m.Going() {
			t.Fatalf("seed %d: it never ends: %+v", seed, g.e.Status)
		}
		if len(g.homes) != 1 || !g.homes[g.e.HomeName()] {
			t.Errorf("seed %d: homes %v, the status says %s", seed, g.homes, g.e.HomeName())
		}
		switch s := g.e.Status; {
		case s.Moved == nil:
			given++
		case s.HomeCount == s.Moved.Count:
			moved++
			if s.Home != targets[s.HomeCount] || !slices.Equal(s.Zones, []string{"z2"}) || g.e.Spec.Zone != "" && g.e.Spec.Zone != "z2" {
				t.Errorf("seed %d: it is on %q in %v (%q)", seed, s.Home, s.Zones, g.e.Spec.Zone)
			}
		default:
			returned++
		}
	}
	if moved < 100 || returned < 10 {
		t.Errorf("%d moved, %d returned, %d given up: the test proves little", moved, returned, given)
	}
}

// TestMayMove: what can't be moved is refused by name.
func TestMayMove(t *testing.T) {
	for reason, spoil := range map[string]func(*kind.DevEnvironment){
		"AlreadyThere": func(*kind.DevEnvironment) {},
		"NoHome":       func(e *kind.DevEnvironment) { e.Status.Attempt = 0 },
		"InUse":        func(e *kind.DevEnvironment) { e.Status.InUseBy = "task" },
		"Moving":       func(e *kind.DevEnvironment) { kind.Moves{Of: e}.Ask(kind.HomeTo{Node: "n2"}, false) },
		"Saving":       func(e *kind.DevEnvironment) { kind.Snapshots{Of: e}.Ask() },
	} {
		e := stoppedAt()
		spoil(e)
		if err := (kind.Moves{Of: e}).May(kind.HomeTo{Node: "n1", Zone: "z1"}); fault.ReasonOf(err) != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
	e := stoppedAt()
	e.Spec.Image = "debian:12"
	m := kind.Moves{Of: e}
	if err := m.May(kind.HomeTo{Node: "n2"}); err != nil {
		t.Errorf("with a layer: %v", err)
	}
	if m.Ask(kind.HomeTo{Node: "n2", Zone: "z"}, true); m.TakesLayer() {
		t.Error("it takes along what nobody wants")
	}
	m.Leave()
	if m.Ask(kind.HomeTo{Node: "n2", Zone: "z"}, false); !m.TakesLayer() || m.BringsLayer() {
		t.Error("its layer stays behind")
	}
	if !e.Runs() || kind.StateText(e).EN != "Moving" {
		t.Error("it counts as nothing while it is moved")
	}
	if !m.Leave() || m.Leave() || m.Going() || (kind.Snapshots{Of: e}).Due() {
		t.Errorf("it can't be given up: %+v", e.Spec.Asked)
	}
}

// TestHomeNames: a home's name leads back to who owns it.
func TestHomeNames(t *testing.T) {
	e := stoppedAt()
	for _, id := range []string{e.Meta.ID, "env-m0123456789abcdefghj", "env-m1", "env-m12345678901234567890"} { // some look like the mark
		for _, n := range []int{0, 1, 12} {
			e.Meta.ID, e.Status.HomeCount = id, n
			if name := e.HomeName(); kind.OwnerOfHome(name) != id || !api.IsName(name) {
				t.Errorf("%s is said to be of %s", name, kind.OwnerOfHome(name))
			}
		}
	}
}
