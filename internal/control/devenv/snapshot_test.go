package devenv

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// asked is a stopped environment of which a snapshot was asked for.
func asked(t *testing.T) *kind.DevEnvironment {
	t.Helper()
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-0123456789abcdefghjk", Name: "lab", Project: "lab", Owner: "ann"}}
	e.Spec.Image, e.Spec.Command, e.Spec.Resources.Accelerators.Count = "debian:12", []string{"serve"}, 2
	e.Default()
	e.Spec.Stop = true
	e.Status.Status = work.Status{Phase: api.PhaseStopped, Attempt: 3, Zones: []string{"z"}, Home: "n1", Starts: 2, FinishedAt: &noon}
	if err := (kind.Snapshots{Of: e}).May(); err != nil {
		t.Fatal(err)
	}
	if _, changed := (kind.Snapshots{Of: e}).Ask(); !changed {
		t.Fatal("it is not asked for")
	}
	if _, again := (kind.Snapshots{Of: e}).Ask(); again {
		t.Error("two at once")
	}
	return e
}

// begun is what becomes of it with the next turn.
func begunSaving(t *testing.T) *kind.DevEnvironment {
	t.Helper()
	p := decide(seen(asked(t)), kind.Policy{}, noon)
	if p.Next == nil {
		t.Fatal("it is not begun")
	}
	return p.Next.(*kind.DevEnvironment)
}

// ended is a replica that saved the home and ended so.
func endedSaving(e *kind.DevEnvironment, exit engine.Exit) *work.Seen {
	run := *e
	run.Status.Phase, run.Status.Attempt = api.PhaseRunning, 4
	s := seen(&run)
	name := engine.NameOf(run.Meta.ID, kind.Role, 0, 4)
	s.Placement = &api.Placement{Spec: api.PlacementSpec{Attempt: 4}}
	s.Members = []work.Member{{Name: name, Role: kind.Role, Attempt: 4, Node: &api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Zone: "z"}}, Known: engine.Observation{Name: name, State: engine.StateDone, Exit: &exit}}}
	return s
}

// TestSnapshotIsPlaced: what saves a home needs no device and no image, stands where the home is, and counts as nothing that runs.
func TestSnapshotIsPlaced(t *testing.T) {
	e := begunSaving(t)
	w := e.Workload()
	role := w.Roles[0]
	if e.Status.Phase != api.PhasePending || w.Stop || role.Image != "" || role.Resources.Accelerators.Count != 0 || w.Wish.Node != "n1" || w.Wish.Zones == nil || w.Host.Lends || role.Name != kind.Role {
		t.Errorf("%+v", w)
	}
	if got := strings.Join(role.Command, " "); got != "fermi save-home -- home-lab-bcdefghjk" {
		t.Error(got)
	}
	if n := kind.Needs(e); n.Running != 0 || n.Devices != 0 {
		t.Errorf("it takes %+v of a quota", n)
	}
	if kind.StateText(e).EN != "Saving its home" {
		t.Error(kind.StateText(e).EN)
	}
	if e.Status.Starts != 2 || e.Status.Home != "n1" || e.Status.Attempt != 3 {
		t.Errorf("%+v", e.Status)
	}
}

// TestSnapshotUnknown: where nobody can look at what was made, nothing is said of it.
func TestSnapshotUnknown(t *testing.T) {
	p := decide(endedSaving(begunSaving(t), engine.Exit{Reason: engine.ReasonSucceeded}), kind.Policy{}, noon)
	if p.Next != nil || p.Wake != lookAgain || p.Leave {
		t.Errorf("%+v", p)
	}
}

func TestSnapshotEnds(t *testing.T) {
	well := engine.Exit{Reason: engine.ReasonSucceeded}
	made := &asset.Dataset{Meta: api.Meta{Owner: "ann"}, Status: asset.AssetStatus{Latest: 7, Size: 42}}
	for name, c := range map[string]struct {
		exit    engine.Exit
		made    api.Object
		phase   api.Phase
		reason  string
		version int
	}{
		"made":                {well, made, api.PhaseStopped, "SnapshotMade", 7},
		"nothing is there":    {well, &asset.Dataset{}, api.PhaseStopped, "SnapshotFailed", 0},
		"it could not":        {engine.Exit{Code: 1, Reason: engine.ReasonNonZero}, made, api.PhaseStopped, "SnapshotFailed", 0},
		"lost, and once more": {engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost}, nil, api.PhaseRecovering, engine.ReasonLauncherLost, 0},
	} {
		s := endedSaving(begunSaving(t), c.exit)
		s.Made = c.made
		p := decide(s, kind.Policy{}, noon)
		if p.Next == nil {
			t.Errorf("%s: nothing happens", name)
			continue
		}
		got := p.Next.(*kind.DevEnvironment)
		if got.Status.Phase != c.phase || got.Status.Reason != c.reason || got.Status.Snapshot.Version != c.version || got.Saves() != (c.phase == api.PhaseRecovering) {
			t.Errorf("%s: %s %s %+v", name, got.Status.Phase, got.Status.Reason, got.Status.Snapshot)
		}
		if c.phase == api.PhaseStopped {
			if p := decide(seen(got), kind.Policy{}, noon.Add(time.Hour)); p.Next != nil || p.Archive || p.Erase {
				t.Errorf("%s: then %+v", name, p)
			}
		}
	}
}

// TestSnapshotAndStart: a start that is asked for meanwhile is heard when the snapshot is made, and a stop gives it up.
func TestSnapshotAndStart(t *testing.T) {
	e := begunSaving(t)
	e.Spec.Stop, e.Spec.Starts = false, 3
	s := endedSaving(e, engine.Exit{Reason: engine.ReasonSucceeded})
	s.Made = &asset.Dataset{Status: asset.AssetStatus{Latest: 1}}
	after := decide(s, kind.Policy{}, noon).Next.(*kind.DevEnvironment)
	if !after.IsDue() {
		t.Fatalf("the start is not due: %+v", after.Status)
	}
	p := decide(seen(after), kind.Policy{}, noon.Add(time.Minute))
	if p.Next == nil || p.Next.(*kind.DevEnvironment).Status.Starts != 3 || p.Next.(*kind.DevEnvironment).Status.Snapshot == nil {
		t.Errorf("it is not started: %+v", p)
	}

	e = begunSaving(t)
	if !(kind.Snapshots{Of: e}).Leave() || (kind.Snapshots{Of: e}).Leave() {
		t.Fatal("it can't be given up")
	}
	if !e.Workload().Stop {
		t.Error("it goes on")
	}
	s = endedSaving(e, engine.Exit{Code: 143, Reason: engine.ReasonStopped})
	after = decide(s, kind.Policy{}, noon).Next.(*kind.DevEnvironment)
	if after.Status.Phase != api.PhaseStopped || after.Status.Reason != "SnapshotStopped" || (kind.Snapshots{Of: after}).Due() {
		t.Errorf("%+v", after.Status)
	}
	if _, changed := (kind.Snapshots{Of: after}).Ask(); !changed || !(kind.Snapshots{Of: after}).Due() {
		t.Error("no other can be made")
	}
}

func TestMaySnapshot(t *testing.T) {
	e := asked(t)
	e.Spec.Snapshots = 0
	e.Status.Phase, e.Spec.Stop = api.PhaseRunning, false
	if err := (kind.Snapshots{Of: e}).May(); fault.ReasonOf(err) != "Running" {
		t.Errorf("of one that runs: %v", err)
	}
	e.Status.Phase, e.Status.Attempt, e.Spec.Stop = api.PhaseStopped, 0, true
	if err := (kind.Snapshots{Of: e}).May(); fault.ReasonOf(err) != "NoHome" {
		t.Errorf("of one that never ran: %v", err)
	}
}
