package train

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// ready is a task whose launchers are attached and have looked around.
func ready(mode api.Preflight, status *api.PreflightStatus, change func(m gang.Members)) snapshot {
	tk := task(api.PhaseInitializing, 1, 0)
	tk.Spec.Preflight, tk.Status.Preflight = mode, status
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}}}
	for i := range 3 {
		m := at(i, 1, engine.StateCreated, true, nil)
		m.Said.Serve = 5000 + i
		m.Said.Facts = &preflight.Facts{Versions: map[string]string{"torch": "2.1.0"}, FreeDisk: 1 << 40, SharedMemory: 1 << 34}
		s.Members = append(s.Members, m)
	}
	s.Rank()
	if change != nil {
		change(s.Members)
	}
	return s
}

// answered lets all members have answered the round that began then.
func answered(began time.Time, change func(m gang.Members)) func(gang.Members) {
	round := roundOf("task-1", began)
	return func(m gang.Members) {
		for i := range m {
			m[i].Said.Preflight = &preflight.Report{Round: round, Results: []preflight.Result{{Latency: time.Millisecond, Rate: 9}}}
		}
		change(m)
	}
}

func TestPreflight(t *testing.T) {
	p := decide(ready("", nil, nil), now)
	if !slices.Equal(p.check, []int{0, 1, 2}) || !p.commit || p.status.Preflight == nil || p.status.Generation != 0 || p.wake != preflightPatience {
		t.Fatalf("the round begins: %+v %+v", summary(p), p.check)
	}
	began := &api.PreflightStatus{StartedAt: now.Add(-time.Second)}
	p = decide(ready("", began, answered(began.StartedAt, func(m gang.Members) { m[1].Said.Preflight = nil })), now)
	if !slices.Equal(p.check, []int{1}) || p.status.Generation != 0 || p.wake != preflightPatience-time.Second {
		t.Errorf("one has not answered: %+v %+v", summary(p), p.check)
	}
	p = decide(ready("", began, answered(began.StartedAt, func(gang.Members) {})), now)
	if st := p.status.Preflight; p.status.Generation != 1 || st.FinishedAt == nil || st.Pairs != 3 || st.LatencyMs != 1 || st.Rate != 9 || len(st.Findings) != 0 {
		t.Errorf("nothing was found: %+v %+v", summary(p), st)
	}
	other := answered(began.StartedAt, func(m gang.Members) { m[2].Said.Facts.Versions = map[string]string{"torch": "1.13.1"} })
	p = decide(ready("", began, other), now)
	if p.status.Generation != 1 || len(p.status.Preflight.Findings) != 1 || len(p.events) != 1 || !p.events[0].Warning {
		t.Errorf("a warning: %+v %+v", summary(p), p.status.Preflight)
	}
	s := ready(api.PreflightRequire, began, other)
	p = decide(s, now)
	if p.status.Generation != 0 || len(p.goAhead) != 0 || p.status.Preflight.FinishedAt == nil {
		t.Errorf("required: %+v", summary(p))
	}
	s.Task.Status = p.status
	if p = decide(s, now); len(p.stop) != 3 || p.status.Phase != api.PhaseInitializing {
		t.Errorf("its launchers end first: %+v", summary(p))
	}
	for i := range s.Members {
		s.Members[i].State, s.Members[i].Exit = engine.StateDone, exit(engine.ReasonStopped, 143)
	}
	if p = decide(s, now); p.status.Phase != api.PhaseFailed || p.status.Reason != "PreflightFailed" || !p.dropPlace {
		t.Errorf("the end: %+v", summary(p))
	}
	late := &api.PreflightStatus{StartedAt: now.Add(-preflightPatience)}
	p = decide(ready("", late, nil), now)
	if p.status.Generation != 1 || len(p.status.Preflight.Findings) != 3 {
		t.Errorf("nobody answered in time: %+v %+v", summary(p), p.status.Preflight)
	}
	if p = decide(ready(api.PreflightOff, nil, nil), now); p.status.Generation != 1 || p.status.Preflight != nil {
		t.Errorf("not wanted: %+v", summary(p))
	}
}

func TestTargets(t *testing.T) {
	s := ready("", nil, nil)
	got := targetsOf(&s.Gang)
	lead := preflight.Target{Name: "worker-0", Address: "127.0.0.1:5000"}
	for i, want := range [][]preflight.Target{
		{{Name: "worker-1", Address: "127.0.0.1:5001", Bandwidth: true}},
		{lead, {Name: "worker-2", Address: "127.0.0.1:5002", Bandwidth: true}},
		{{Name: "worker-0", Address: "127.0.0.1:5000", Bandwidth: true}},
	} {
		if !slices.Equal(got[i], want) {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
}

// TestTargetsOfOtherRoles: who restarts alone is a ring by itself, and is reached from the others all the same.
func TestTargetsOfOtherRoles(t *testing.T) {
	s := ready("", nil, nil)
	s.Members[2].Role, s.Members[2].Index = "reward", 0
	s.Task.Status.Roles = []api.RoleStatus{{Name: "reward"}}
	got := targetsOf(&s.Gang)
	reward := preflight.Target{Name: "reward-0", Address: "127.0.0.1:5002"}
	for i, want := range [][]preflight.Target{
		{reward, {Name: "worker-1", Address: "127.0.0.1:5001", Bandwidth: true}},
		{reward, {Name: "worker-0", Address: "127.0.0.1:5000", Bandwidth: true}},
		{{Name: "worker-0", Address: "127.0.0.1:5000"}},
	} {
		if !slices.Equal(got[i], want) {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
}
