package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// twoRanks is a running task of two launchers with a rank each, and restarts.
func twoRanks(failures ...*link.RankExit) seen {
	s := seen{task: task(api.PhaseRunning, 1, 1), placement: placed(), world: 2}
	s.task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	for i := range 2 {
		m := at(i, 1, engine.StateRunning, true, nil)
		if i < len(failures) && failures[i] != nil {
			m.said.Failed = failures[i]
		}
		s.members = append(s.members, m)
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
func next(s seen, p plan) seen {
	tk := *s.task
	tk.Status = p.status
	s.task = &tk
	return s
}

func TestVictimsAreNotBlamed(t *testing.T) {
	victim := died(0, "peer-lost", "v", 3, 100*time.Millisecond)
	p := decide(twoRanks(victim), now)
	if p.status.Failure != nil || p.status.Generation != 1 || p.wake <= 0 || p.wake > victimGrace {
		t.Errorf("a victim alone: %+v, wake %s", p.status, p.wake)
	}
	p = decide(twoRanks(victim, died(1, "killed", "k", 3, 0)), now)
	if f := p.status.Failure; f == nil || *f.Rank != 1 || f.Cause != "killed" || f.Action != "restart" || p.status.Generation != 2 {
		t.Errorf("the culprit that came later: %+v", f)
	}
	p = decide(twoRanks(victim), now.Add(2*victimGrace))
	if f := p.status.Failure; f == nil || f.Cause != "peer-lost" || p.status.Generation != 2 {
		t.Errorf("nobody came: %+v", f)
	}
}

func TestTheReplicaThatLeftIsNamed(t *testing.T) {
	lost := died(0, "peer-lost", "v", 3, 0)
	for name, c := range map[string]struct {
		change func(*seen)
		cause  string
	}{
		"it ended well":            {func(*seen) {}, "left-early"},
		"in an earlier generation": {func(s *seen) { s.members[1].said.Generation = 0 }, "peer-lost"},
		"of another role":          {func(s *seen) { s.members[1].role = "judge" }, "peer-lost"},
		"the other was killed":     {func(s *seen) { s.members[0].said.Failed = died(0, "killed", "k", 3, 0) }, "killed"},
	} {
		s := twoRanks(lost)
		s.members[1].state, s.members[1].exit = engine.StateExited, exit(engine.ReasonSucceeded, 0)
		c.change(&s)
		p := decide(s, now.Add(2*victimGrace))
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
		for i := range s.members {
			s.members[i].said.Generation, s.members[i].said.Failed = 2, nil
		}
		s.members[c.again.Rank].said.Failed = c.again
		p = decide(s, now.Add(2*time.Second))
		if f := p.status.Failure; f.Action != c.action || (p.status.Generation == 2) != (c.action == "stop") {
			t.Errorf("%s: %+v, generation %d", name, f, p.status.Generation)
		}
		if c.action != "stop" {
			continue
		}
		// The launchers were told to end; how they do is not the reason.
		s = next(s, p)
		for i := range s.members {
			s.members[i].state, s.members[i].exit = engine.StateDone, exit(engine.ReasonStopped, 143)
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
	hung := func(m *member, states ...link.RankState) {
		m.said.Watched, m.said.Hung, m.said.HungAt = true, states, now
	}
	s := twoRanks()
	s.members[1].said.Watched = true
	hung(&s.members[0], link.RankState{Rank: 0, Step: 7, State: 'S'})
	if p := decide(s, now); p.status.Failure != nil || p.status.Generation != 1 {
		t.Errorf("one launcher's ranks work on, but: %+v", p.status.Failure)
	}
	hung(&s.members[1], link.RankState{Rank: 1, Step: 6, State: 'S'})
	p := decide(s, now)
	if f := p.status.Failure; f == nil || *f.Rank != 1 || f.Cause != "hang" || f.Node != "n1" || p.status.Generation != 2 {
		t.Errorf("the one behind: %+v", f)
	}
	s.task.Spec.Restart.MaxRestarts = 0
	for i := range s.members {
		s.members[i].said.Printed = true
	}
	if p = decide(s, now); p.status.Failure != nil || p.status.Phase != api.PhaseRunning || !tells(p, "NoProgress") {
		t.Errorf("who only prints does not end of it: %+v", p.status)
	}
	s.task.Spec.Restart.MaxRestarts = 5
	if p = decide(s, now); p.status.Failure == nil || p.status.Generation != 2 {
		t.Errorf("who only prints, with restarts: %+v", p.status)
	}
	s.members[1].said.Hung = nil
	hung(&s.members[0], link.RankState{Rank: 0, Step: 7, State: 'T'})
	p = decide(s, now)
	if f := p.status.Failure; f == nil || *f.Rank != 0 || f.Cause != "process-stopped" || p.status.Generation != 2 {
		t.Errorf("a stopped one: %+v", f)
	}
}

// TestNewcomersAreWaitedFor: ranks that wait for those of a launcher that never told of a step don't hang, for a while;
// once somebody made a step of the generation they may.
func TestNewcomersAreWaitedFor(t *testing.T) {
	silent := func(d time.Duration) seen {
		s := twoRanks()
		s.members[0].said.Watched, s.members[0].said.HungAt = true, now
		s.members[0].said.Hung = []link.RankState{{Rank: 0, Step: 7, State: 'S', Silent: d}}
		return s
	}
	s := silent(time.Minute)
	if p := decide(s, now.Add(time.Minute)); p.status.Failure != nil || p.wake != beginMost-2*time.Minute {
		t.Errorf("the other is new: %+v, looked at again in %s", p.status.Failure, p.wake)
	}
	if p := decide(s, now.Add(beginMost)); p.status.Failure == nil {
		t.Error("the other never comes, and nothing happens")
	}
	s.members[0].said.SteppedAt = now.Add(-time.Hour)
	if p := decide(s, now.Add(time.Minute)); p.status.Failure == nil {
		t.Error("they had made steps together, and hang")
	}
	s = silent(time.Minute)
	s.members[0].said.Hung[0].State = 'T'
	if p := decide(s, now); p.status.Failure == nil {
		t.Error("a stopped process needs no other witness")
	}
	s = silent(time.Minute)
	s.members[1].said.Generation = 0 // it has not started yet
	if p := decide(s, now); p.status.Failure != nil {
		t.Errorf("%+v", p.status.Failure)
	}
}
