package work

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

var now = time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)

const first engine.Name = "probe-1-r-0-1"

// seen is work of one replica: what the engine knows of it, and whether its launcher is there.
func seen(state engine.State, attached bool, exit *engine.Exit, change ...func(*Seen)) *Seen {
	s := &Seen{View: api.Workload{Meta: &api.Meta{ID: "probe-1"}}, Placement: &api.Placement{Spec: api.PlacementSpec{Attempt: 1}}, ArchiveAfter: time.Hour}
	s.Members = []Member{{
		Name: first, Role: "r", Attempt: 1, Node: &api.Node{Spec: api.NodeSpec{Zone: "z"}}, Attached: attached,
		Known: engine.Observation{Name: first, State: state, Exit: exit},
	}}
	if state == engine.StateRunning {
		s.Members[0].Known.Started = now.Add(-time.Minute)
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func unplaced(s *Seen) { s.Placement, s.Members = nil, nil }
func stopped(s *Seen)  { s.View.Stop = true }
func deleted(s *Seen)  { unplaced(s); s.View.Meta.DeletedAt = &now }
func evicted(to ...api.RoleAssignment) func(*Seen) {
	return func(s *Seen) { s.Placement.Spec.Evict = &api.Eviction{Reason: "Drained", To: to} }
}
func left(state engine.State) func(*Seen) {
	return func(s *Seen) { s.Others = []engine.Observation{{Name: "old", State: state}} }
}

// TestSteady: each row is one turn. What is left out of a row does not happen.
func TestSteady(t *testing.T) {
	failed := &engine.Exit{Code: 7, Reason: engine.ReasonNonZero, At: now}
	refused := &engine.Exit{Code: -1, Reason: engine.ReasonRefused, At: now}
	well := &engine.Exit{Reason: engine.ReasonSucceeded, At: now}
	twice := &api.RestartPolicy{MaxRestarts: 2}
	run := func(phase api.Phase) Status { return Status{Phase: phase, Attempt: 1, Zones: []string{"z"}} }
	over := run(api.PhaseCompleted)
	over.FinishedAt = &now
	old := now.Add(-2 * time.Hour)
	past := over
	past.FinishedAt = &old
	type want struct {
		Phase                api.Phase
		Attempt              int
		Start, Go            []int
		Stop, Remove         []engine.Name
		Leave, Move, Usage   bool
		Archive, Erase, Wake bool
	}
	for name, c := range map[string]struct {
		seen   *Seen
		was    Status
		policy *api.RestartPolicy
		want   want
	}{
		"new":                        {seen("", false, nil, unplaced), Status{}, nil, want{Phase: api.PhasePending}},
		"waits":                      {seen("", false, nil, unplaced), Status{Phase: api.PhasePending}, nil, want{Phase: api.PhasePending}},
		"placed":                     {seen("", false, nil), Status{Phase: api.PhasePending}, nil, want{Phase: api.PhaseInitializing, Attempt: 1}},
		"old replicas first":         {seen("", false, nil, left(engine.StateRunning)), Status{Phase: api.PhasePending}, nil, want{Phase: api.PhasePending, Stop: []engine.Name{"old"}}},
		"starts":                     {seen("", false, nil), run(api.PhaseInitializing), nil, want{Phase: api.PhaseInitializing, Attempt: 1, Start: []int{0}}},
		"waits for its launcher":     {seen(engine.StateCreated, false, nil), run(api.PhaseInitializing), nil, want{Phase: api.PhaseInitializing, Attempt: 1}},
		"goes":                       {seen(engine.StateCreated, true, nil), run(api.PhaseInitializing), nil, want{Phase: api.PhaseInitializing, Attempt: 1, Go: []int{0}}},
		"runs":                       {seen(engine.StateRunning, true, nil), run(api.PhaseInitializing), nil, want{Phase: api.PhaseRunning, Attempt: 1, Usage: true}},
		"hands over after a failure": {seen(engine.StateExited, true, failed), run(api.PhaseRunning), twice, want{Phase: api.PhaseRecovering, Attempt: 1}},
		"starts again":               {seen(engine.StateDone, false, failed), run(api.PhaseRecovering), twice, want{Phase: api.PhaseRecovering, Attempt: 2, Usage: true}},
		"was refused by its node":    {seen(engine.StateDone, false, refused), run(api.PhaseInitializing), nil, want{Phase: api.PhasePending, Attempt: 1, Usage: true, Leave: true}},
		"may not start again":        {seen(engine.StateDone, false, failed), run(api.PhaseRunning), nil, want{Phase: api.PhaseFailed, Attempt: 1, Usage: true, Leave: true}},
		"ends well":                  {seen(engine.StateDone, false, well), run(api.PhaseRunning), nil, want{Phase: api.PhaseCompleted, Attempt: 1, Usage: true, Leave: true}},
		"is told to end":             {seen(engine.StateRunning, true, nil, stopped), run(api.PhaseRunning), nil, want{Phase: api.PhaseRunning, Attempt: 1, Stop: []engine.Name{first}}},
		"ended as told":              {seen(engine.StateDone, false, well, stopped), run(api.PhaseRunning), nil, want{Phase: api.PhaseStopped, Attempt: 1, Usage: true, Leave: true}},
		"must leave":                 {seen(engine.StateRunning, true, nil, evicted()), run(api.PhaseRunning), nil, want{Phase: api.PhaseRunning, Attempt: 1, Stop: []engine.Name{first}}},
		"left":                       {seen(engine.StateDone, false, failed, evicted()), run(api.PhaseRunning), nil, want{Phase: api.PhasePending, Attempt: 1, Usage: true, Leave: true}},
		"moves":                      {seen(engine.StateDone, false, failed, evicted(api.RoleAssignment{})), run(api.PhaseRunning), nil, want{Phase: api.PhasePending, Attempt: 1, Usage: true, Move: true}},
		"lost its place":             {seen("", false, nil, unplaced), run(api.PhaseRunning), nil, want{Phase: api.PhasePending, Attempt: 1, Usage: true}},
		"is over":                    {seen("", false, nil, unplaced), over, nil, want{Phase: api.PhaseCompleted, Attempt: 1, Wake: true}},
		"is over, with a folder":     {seen("", false, nil, unplaced, left(engine.StateDone)), past, nil, want{Phase: api.PhaseCompleted, Attempt: 1, Remove: []engine.Name{"old"}}},
		"is archived":                {seen("", false, nil, unplaced), past, nil, want{Phase: api.PhaseCompleted, Attempt: 1, Archive: true}},
		"is deleted":                 {seen("", false, nil, deleted), over, nil, want{Phase: api.PhaseCompleted, Attempt: 1, Erase: true}},
	} {
		t.Run(name, func(t *testing.T) {
			status, p, changed := Steady(c.seen, &c.was, c.policy, now)
			got := want{
				status.Phase, status.Attempt, p.Start, p.Go, p.Stop, p.Remove, p.Leave, p.Move, p.Usage, p.Archive, p.Erase, p.Wake > 0,
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if written := !cmp.Equal(status, c.was) || p.Leave || p.Move; changed != written {
				t.Errorf("changed is %v: %+v", changed, status)
			}
		})
	}
}

// TestSteadySettles: a turn on what a turn wrote changes nothing more while nothing happens.
func TestSteadySettles(t *testing.T) {
	s := seen(engine.StateRunning, true, nil)
	was := Status{Phase: api.PhaseInitializing, Attempt: 1}
	status, _, changed := Steady(s, &was, nil, now)
	if !changed {
		t.Fatal("nothing was written")
	}
	if again, p, changed := Steady(s, &status, nil, now.Add(time.Minute)); changed || len(p.Events) > 0 {
		t.Errorf("%+v, %+v", again, p)
	}
}

// TestFailedSays: the message has what the launcher or the program said, not only a code.
func TestFailedSays(t *testing.T) {
	for name, c := range map[string]struct {
		exit *engine.Exit
		want string
	}{
		"not started":      {&engine.Exit{Code: 127, Reason: engine.ReasonStartFailed, Message: fault.T("The command \"x\" was not found.", "找不到命令 x。").Pack()}, "r-0 could not be started: The command \"x\" was not found."},
		"known words":      {&engine.Exit{Code: 1, Reason: engine.ReasonNonZero, Diagnosis: engine.Diagnosis{Cause: "import", Line: "ModuleNotFoundError: No module named 'x'"}}, "ModuleNotFoundError: No module named 'x' — r-0 ended with exit code 1. Cause: "},
		"unknown words":    {&engine.Exit{Code: 2, Reason: engine.ReasonNonZero, Diagnosis: engine.Diagnosis{Cause: "exit-code", Line: "lab: no such option"}}, "lab: no such option — r-0 ended with exit code 2."},
		"nothing was said": {&engine.Exit{Code: 2, Reason: engine.ReasonNonZero, Diagnosis: engine.Diagnosis{Cause: "exit-code"}}, "r-0 ended with exit code 2."},
	} {
		c.exit.At = now
		was := Status{Phase: api.PhaseRunning, Attempt: 1}
		got, _, _ := Steady(seen(engine.StateDone, false, c.exit), &was, nil, now)
		if got.Phase != api.PhaseFailed || !strings.HasPrefix(got.Message.EN, c.want) || got.Message.ZH == got.Message.EN {
			t.Errorf("%s: %s %q", name, got.Phase, got.Message.EN)
		}
	}
}
