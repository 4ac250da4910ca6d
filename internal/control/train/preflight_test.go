package train

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// ready is a task whose launchers are attached and have looked around.
func ready(mode api.Preflight, status *api.PreflightStatus, change func(m []member)) seen {
	tk := task(api.PhaseInitializing, 1, 0)
	tk.Spec.Preflight, tk.Status.Preflight = mode, status
	s := seen{task: tk, placement: placed()}
	for i := range 3 {
		m := at(i, 1, engine.StateCreated, true, nil)
		m.said.Serve = 5000 + i
		m.said.Facts = &preflight.Facts{Versions: map[string]string{"torch": "2.1.0"}, FreeDisk: 1 << 40, SharedMemory: 1 << 34}
		s.members = append(s.members, m)
	}
	s.table()
	if change != nil {
		change(s.members)
	}
	return s
}

// answered lets all members have answered the round that began then.
func answered(began time.Time, change func(m []member)) func([]member) {
	round := (&seen{task: task(api.PhaseInitializing, 1, 0)}).round(began)
	return func(m []member) {
		for i := range m {
			m[i].said.Preflight = &preflight.Report{Round: round, Results: []preflight.Result{{Latency: time.Millisecond, Rate: 9}}}
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
	p = decide(ready("", began, answered(began.StartedAt, func(m []member) { m[1].said.Preflight = nil })), now)
	if !slices.Equal(p.check, []int{1}) || p.status.Generation != 0 || p.wake != preflightPatience-time.Second {
		t.Errorf("one has not answered: %+v %+v", summary(p), p.check)
	}
	p = decide(ready("", began, answered(began.StartedAt, func([]member) {})), now)
	if st := p.status.Preflight; p.status.Generation != 1 || st.FinishedAt == nil || st.Pairs != 3 || st.LatencyMs != 1 || st.Rate != 9 || len(st.Findings) != 0 {
		t.Errorf("nothing was found: %+v %+v", summary(p), st)
	}
	other := answered(began.StartedAt, func(m []member) { m[2].said.Facts.Versions = map[string]string{"torch": "1.13.1"} })
	p = decide(ready("", began, other), now)
	if p.status.Generation != 1 || len(p.status.Preflight.Findings) != 1 || len(p.events) != 1 || !p.events[0].warning {
		t.Errorf("a warning: %+v %+v", summary(p), p.status.Preflight)
	}
	s := ready(api.PreflightRequire, began, other)
	p = decide(s, now)
	if p.status.Generation != 0 || len(p.goAhead) != 0 || p.status.Preflight.FinishedAt == nil {
		t.Errorf("required: %+v", summary(p))
	}
	s.task.Status = p.status
	if p = decide(s, now); len(p.stop) != 3 || p.status.Phase != api.PhaseInitializing {
		t.Errorf("its launchers end first: %+v", summary(p))
	}
	for i := range s.members {
		s.members[i].state, s.members[i].exit = engine.StateDone, exit(engine.ReasonStopped, 143)
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
	got := s.targets()
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
	s.members[2].role, s.members[2].index = "reward", 0
	s.task.Status.Roles = []api.RoleStatus{{Name: "reward"}}
	got := s.targets()
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
