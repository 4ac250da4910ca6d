package devenv

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
)

func seen(e *kind.DevEnvironment) *work.Seen {
	return &work.Seen{Work: e, View: e.Workload(), ArchiveAfter: time.Minute}
}

// TestStopAndStart: what is stopped stays, also after the time in which others are archived, and a start is heard once.
func TestStopAndStart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-1", Name: "lab", Project: "lab"}}
	e.Default()
	e.Spec.Stop, e.Status.Status = true, work.Status{Phase: api.PhaseRunning, Attempt: 1, Zones: []string{"z"}}
	p := decide(seen(e), kind.Policy{}, now)
	if p.Next == nil {
		t.Fatal("it is not stopped")
	}
	stopped := p.Next.(*kind.DevEnvironment)
	if stopped.Status.Phase != api.PhaseStopped || len(stopped.Status.Zones) != 1 {
		t.Fatalf("%+v", stopped.Status)
	}
	if p := decide(seen(stopped), kind.Policy{}, now.Add(time.Hour)); p.Archive || p.Erase || p.Next != nil || p.Wake != 0 {
		t.Errorf("what is stopped: %+v", p)
	}
	stopped.Spec.Stop, stopped.Spec.Starts = false, 1
	p = decide(seen(stopped), kind.Policy{}, now.Add(time.Hour))
	if p.Next == nil {
		t.Fatal("it is not started")
	}
	again := p.Next.(*kind.DevEnvironment)
	if s := again.Status; s.Phase != api.PhasePending || s.Attempt != 1 || s.Starts != 1 || s.FinishedAt != nil || len(s.Zones) != 1 {
		t.Errorf("%+v", s)
	}
	deleted := *stopped
	at := now
	deleted.Meta.DeletedAt = &at
	if p := decide(seen(&deleted), kind.Policy{}, now); !p.Erase {
		t.Errorf("what is deleted: %+v", p)
	}
}

// TestLostNode: on a node that was declared lost it fails and says what can be done; a start waits for a replica that may yet be ended.
func TestLostNode(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-1", Name: "lab", Project: "lab"}}
	e.Default()
	e.Status.Status = work.Status{Phase: api.PhaseRunning, Reason: work.Unreachable, Attempt: 1, Zones: []string{"z"}}
	s := seen(e)
	s.Placement = &api.Placement{Spec: api.PlacementSpec{Attempt: 1}}
	node := &api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Zone: "z"}}
	name := engine.NameOf("env-1", kind.Role, 0, 1)
	ob := engine.Observation{Name: name, Node: "n1", State: engine.StateRunning}
	s.Members = []work.Member{{Name: name, Role: kind.Role, Attempt: 1, Node: node, Known: ob, Silent: time.Hour}}
	if p := decide(s, kind.Policy{}, now); len(p.Fence) > 0 || p.Leave || len(p.Stop)+len(p.End) > 0 {
		t.Errorf("on a silent node: %+v", p)
	}
	s.Given = []work.GivenUp{{Observation: ob, Hold: hold.Hold{Replica: string(name), Reason: hold.Lost, Released: true, Since: now}}}
	s.Members[0].Known.State, s.Members[0].Known.Exit = engine.StateDone, &engine.Exit{Code: -1, Reason: hold.Lost}
	p := decide(s, kind.Policy{}, now)
	if p.Next == nil || !p.Leave {
		t.Fatalf("on a lost node: %+v", p)
	}
	failed := p.Next.(*kind.DevEnvironment)
	if st := failed.Status; st.Phase != api.PhaseFailed || st.Reason != "NodeLost" || !strings.Contains(st.Message.EN, "fermi env start lab") || !strings.Contains(st.Message.ZH, "fermi env start lab") || len(st.Zones) != 1 {
		t.Errorf("%+v", st)
	}
	failed.Spec.Starts = 1
	again := seen(failed)
	again.Given = s.Given
	if p := decide(again, kind.Policy{}, now.Add(time.Second)); p.Next != nil || p.Wake != endsWithin-time.Second || len(p.End) != 1 {
		t.Errorf("a start while it may yet be ended: %+v", p)
	}
	if p := decide(again, kind.Policy{}, now.Add(endsWithin)); p.Next == nil || p.Next.(*kind.DevEnvironment).Status.Phase != api.PhasePending {
		t.Errorf("a start after that: %+v", p)
	}
}

// TestHome: where it starts on a machine that joined its home stays, through a stop and a fault; only a start after an operator gave the machine
// up, while it is away, begins with another.
func TestHome(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &kind.DevEnvironment{Meta: api.Meta{ID: "env-1", Name: "lab", Project: "lab"}}
	e.Default()
	e.Status.Status = work.Status{Phase: api.PhasePending}
	s := seen(e)
	s.Placement = &api.Placement{Spec: api.PlacementSpec{Attempt: 1}}
	node := &api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "x"}}}}
	name := engine.NameOf("env-1", kind.Role, 0, 1)
	s.Members = []work.Member{{Name: name, Role: kind.Role, Attempt: 1, Node: node}}
	p := decide(s, kind.Policy{}, now)
	if p.Next == nil || p.Next.(*kind.DevEnvironment).Status.Home != "n1" {
		t.Fatalf("placed: %+v", p)
	}
	e = p.Next.(*kind.DevEnvironment)
	if w := e.Workload(); w.Wish.Node != "n1" {
		t.Errorf("it may go elsewhere: %+v", w.Wish)
	}
	e.Status.Phase, e.Status.Reason, e.Spec.Starts = api.PhaseFailed, "NodeLost", 1
	if back := decide(seen(e), kind.Policy{}, now).Next.(*kind.DevEnvironment); back.Status.Home != "n1" {
		t.Errorf("the machine is back: its home is on %q", back.Status.Home)
	}
	away := seen(e)
	away.Given = []work.GivenUp{{Observation: engine.Observation{Name: name, Node: "n1"}, Hold: hold.Hold{Replica: string(name), Reason: hold.Lost, Released: true, Since: now.Add(-time.Minute)}}}
	if anew := decide(away, kind.Policy{}, now).Next.(*kind.DevEnvironment); anew.Status.Home != "" {
		t.Errorf("the machine was given up: its home is on %q", anew.Status.Home)
	}
}
