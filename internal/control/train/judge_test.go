package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// twoRanks is a running task of two launchers with a rank each, and restarts.
func twoRanks(failures ...*link.RankExit) snapshot {
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, World: 2}}
	s.Task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	for i := range 2 {
		m := at(i, 1, engine.StateRunning, true, nil)
		if i < len(failures) && failures[i] != nil {
			m.Said.Failed = failures[i]
		}
		s.Members = append(s.Members, m)
	}
	return s
}

func died(rank int, cause, fingerprint string, step int64, ago time.Duration) *link.RankExit {
	return &link.RankExit{
		Rank: rank, Code: 1, Reason: engine.ReasonNonZero, At: now.Add(-ago),
		Diagnosis: engine.Diagnosis{Cause: cause, Fingerprint: fingerprint, Step: step},
	}
}

// next is the task after a plan, as the next turn sees it.
func next(s snapshot, p plan) snapshot {
	tk := *s.Task
	tk.Status = p.status
	s.Task = &tk
	return s
}

func TestVictimsAreNotBlamed(t *testing.T) {
	victim := died(0, "peer-lost", "v", 3, 100*time.Millisecond)
	p := decide(twoRanks(victim), now)
	if p.status.Failure != nil || p.status.Generation != 1 || p.wake <= 0 || p.wake > 1500*time.Millisecond {
		t.Errorf("a victim alone: %+v, wake %s", p.status, p.wake)
	}
	p = decide(twoRanks(victim, died(1, "killed", "k", 3, 0)), now)
	if f := p.status.Failure; f == nil || *f.Rank != 1 || f.Cause != "killed" || f.Action != "restart" || p.status.Generation != 2 {
		t.Errorf("the culprit that came later: %+v", f)
	}
	p = decide(twoRanks(victim), now.Add(2*1500*time.Millisecond))
	if f := p.status.Failure; f == nil || f.Cause != "peer-lost" || p.status.Generation != 2 {
		t.Errorf("nobody came: %+v", f)
	}
}

func TestTheReplicaThatLeftIsNamed(t *testing.T) {
	lost := died(0, "peer-lost", "v", 3, 0)
	for name, c := range map[string]struct {
		change func(*snapshot)
		cause  string
	}{
		"it ended well":            {func(*snapshot) {}, "left-early"},
		"in an earlier generation": {func(s *snapshot) { s.Members[1].Said.Generation = 0 }, "peer-lost"},
		"of another role":          {func(s *snapshot) { s.Members[1].Role = "judge" }, "peer-lost"},
		"the other was killed":     {func(s *snapshot) { s.Members[0].Said.Failed = died(0, "killed", "k", 3, 0) }, "killed"},
	} {
		s := twoRanks(lost)
		s.Members[1].State, s.Members[1].Exit = engine.StateExited, exit(engine.ReasonSucceeded, 0)
		c.change(&s)
		p := decide(s, now.Add(2*1500*time.Millisecond))
		f := p.status.Failure
		if f == nil || f.Cause != c.cause || f.Action != "restart" || *f.Rank != map[bool]int{true: 1}[c.cause == "left-early"] {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestTheSameErrorTwiceAtTheSameStep(t *testing.T) {
	for name, c := range map[string]struct {
		again  *link.RankExit
		action string
	}{
		"again":             {died(0, "python-error", "f", 3, -time.Second), "stop"},
		"on another rank":   {died(1, "python-error", "f", 3, -time.Second), "stop"},
		"at another step":   {died(0, "python-error", "f", 4, -time.Second), "restart"},
		"in another way":    {died(0, "python-error", "g", 3, -time.Second), "restart"},
		"no user's mistake": {died(0, "killed", "f", 3, -time.Second), "restart"},
	} {
		s := twoRanks(died(0, "python-error", "f", 3, 0))
		p := decide(s, now)
		if f := p.status.Failure; f.Action != "restart" || p.status.Generation != 2 {
			t.Fatalf("%s: the first time: %+v", name, f)
		}
		s = next(s, p)
		for i := range s.Members {
			s.Members[i].Said.Generation, s.Members[i].Said.Failed = 2, nil
		}
		s.Members[c.again.Rank].Said.Failed = c.again
		p = decide(s, now.Add(2*time.Second))
		if f := p.status.Failure; f.Action != c.action || (p.status.Generation == 2) != (c.action == "stop") {
			t.Errorf("%s: %+v, generation %d", name, f, p.status.Generation)
		}
		if c.action != "stop" {
			continue
		}
		// The launchers were told to end; how they do is not the reason.
		s = next(s, p)
		for i := range s.Members {
			s.Members[i].State, s.Members[i].Exit = engine.StateDone, exit(engine.ReasonStopped, 143)
		}
		if p = decide(s, now.Add(3*time.Second)); p.status.Phase != api.PhaseFailed || p.status.Failure.Cause != "python-error" || *p.status.ExitCode != 1 {
			t.Errorf("%s: ended %s with %+v", name, p.status.Phase, p.status.Failure)
		}
	}
}

func TestAFaultyNodeIsLeft(t *testing.T) {
	s := twoRanks(nil, died(1, "device-lost", "f", 3, 0))
	p := decide(s, now)
	if p.swap.node != "n1" || p.status.Generation != 1 || p.status.Reason != "Swapping" || len(p.status.Restarts) != 1 {
		t.Fatalf("%+v", p.status)
	}
	s = next(s, p)
	if p = decide(s, now); p.swap.node != "n1" || len(p.status.Restarts) != 1 {
		t.Errorf("asked twice it costs %d restarts", len(p.status.Restarts))
	}
	s.stay = true
	if p = decide(s, now); p.swap.node != "" || p.status.Generation != 2 || len(p.status.Restarts) != 1 {
		t.Errorf("with no other place: %+v", p.status)
	}
}

func TestHangIsVoted(t *testing.T) {
	hung := func(m *gang.Member, states ...link.RankState) {
		m.Said.Watched, m.Said.Hung, m.Said.HungAt = true, states, now
	}
	s := twoRanks()
	s.Members[1].Said.Watched = true
	hung(&s.Members[0], link.RankState{Rank: 0, Step: 7, State: 'S'})
	if p := decide(s, now); p.status.Failure != nil || p.status.Generation != 1 {
		t.Errorf("one launcher's ranks work on, but: %+v", p.status.Failure)
	}
	if p := decide(s, now.Add(time.Minute)); p.status.Failure != nil || p.status.Generation != 1 || !tells(p, "RankStandsStill") {
		t.Errorf("a minute later: %+v %+v", p.status.Failure, p.events)
	}
	hung(&s.Members[1], link.RankState{Rank: 1, Step: 6, State: 'S'})
	p := decide(s, now)
	if f := p.status.Failure; f == nil || *f.Rank != 1 || f.Cause != "hang" || f.Node != "n1" || p.status.Generation != 2 {
		t.Errorf("the one behind: %+v", f)
	}
	s.Task.Spec.Restart.MaxRestarts = 0
	for i := range s.Members {
		s.Members[i].Said.Printed = true
	}
	if p = decide(s, now); p.status.Failure != nil || p.status.Phase != api.PhaseRunning || !tells(p, "NoProgress") {
		t.Errorf("who only prints does not end of it: %+v", p.status)
	}
	s.Task.Spec.Restart.MaxRestarts = 5
	if p = decide(s, now); p.status.Failure == nil || p.status.Generation != 2 {
		t.Errorf("who only prints, with restarts: %+v", p.status)
	}
	s.Members[1].Said.Hung = nil
	hung(&s.Members[0], link.RankState{Rank: 0, Step: 7, State: 'T'})
	p = decide(s, now)
	if f := p.status.Failure; f == nil || *f.Rank != 0 || f.Cause != "process-stopped" || p.status.Generation != 2 {
		t.Errorf("a stopped one: %+v", f)
	}
}

// TestDoingNothingIsTold: where nobody knows of steps and all processes do nothing, the task says so, goes on, and says when they do something again.
func TestDoingNothingIsTold(t *testing.T) {
	s := twoRanks()
	s.Task.Status.Reason = "Started"
	for i := range s.Members {
		s.Members[i].Said.Hung = []link.RankState{{Rank: i, State: 'S', Silent: 10 * time.Minute}}
	}
	s.Members[1].Said.Hung = nil
	if p := decide(s, now); tells(p, doesNothing) || p.status.Reason != "Started" {
		t.Errorf("one does something: %+v", p.status)
	}
	s.Members[1].Said.Hung = s.Members[0].Said.Hung
	s.Members[1].Said.Watched = true
	if p := decide(s, now); tells(p, doesNothing) {
		t.Errorf("one tells how far it is: %+v", p.events)
	}
	s.Members[1].Said.Watched = false
	p := decide(s, now)
	if !tells(p, doesNothing) || p.status.Reason != doesNothing || p.status.Phase != api.PhaseRunning || p.status.Failure != nil || p.status.Generation != 1 {
		t.Fatalf("both do nothing: %+v %+v", p.status, p.events)
	}
	s = next(s, p)
	s.Members[0].Said.Hung = nil
	if p = decide(s, now); p.status.Reason != "Started" || p.status.Phase != api.PhaseRunning {
		t.Errorf("one works again: %+v", p.status)
	}
}

// TestNewcomersAreWaitedFor: ranks that wait for those of a launcher that never told of a step don't hang, for a while;
// once somebody made a step of the generation they may.
func TestNewcomersAreWaitedFor(t *testing.T) {
	silent := func(d time.Duration) snapshot {
		s := twoRanks()
		s.Members[0].Said.Watched, s.Members[0].Said.HungAt = true, now
		s.Members[0].Said.Hung = []link.RankState{{Rank: 0, Step: 7, State: 'S', Silent: d}}
		return s
	}
	s := silent(time.Minute)
	if p := decide(s, now.Add(time.Minute)); p.status.Failure != nil || p.wake != 10*time.Minute-2*time.Minute {
		t.Errorf("the other is new: %+v, looked at again in %s", p.status.Failure, p.wake)
	}
	if p := decide(s, now.Add(10*time.Minute)); p.status.Failure == nil {
		t.Error("the other never comes, and nothing happens")
	}
	s.Members[0].Said.SteppedAt = now.Add(-time.Hour)
	if p := decide(s, now.Add(time.Minute)); p.status.Failure == nil {
		t.Error("they had made steps together, and hang")
	}
	s = silent(time.Minute)
	s.Members[0].Said.Hung[0].State = 'T'
	if p := decide(s, now); p.status.Failure == nil {
		t.Error("a stopped process needs no other witness")
	}
	s = silent(time.Minute)
	s.Members[1].Said.Generation = 0 // it has not started yet
	if p := decide(s, now); p.status.Failure != nil {
		t.Errorf("%+v", p.status.Failure)
	}
}
