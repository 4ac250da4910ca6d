package train

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
)

func TestBackOff(t *testing.T) {
	ago := func(list ...time.Duration) (out []time.Time) {
		for _, d := range list {
			out = append(out, now.Add(-d))
		}
		return out
	}
	for _, c := range []struct {
		restarts []time.Time
		want     time.Duration
	}{
		{nil, 0}, {ago(0, 0), 0}, {ago(2*time.Second, time.Second, 100*time.Millisecond), 900 * time.Millisecond},
		{ago(3, 2, 1, 0), 2 * time.Second}, {ago(time.Hour, time.Hour, 0), 0}, {ago(time.Minute-1, time.Minute-1, time.Minute-1), 0},
		{ago(make([]time.Duration, 40)...), backOffMost},
	} {
		if got := backOff(c.restarts, now); got != c.want {
			t.Errorf("%v: %v, not %v", c.restarts, got, c.want)
		}
	}
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: 9}
	tk.Status.Restarts = ago(3, 2, 1)
	m := at(0, 1, engine.StateRunning, true, nil)
	m.Said.Failed = &link.RankExit{Code: 1, Reason: engine.ReasonNonZero, At: now}
	p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: gang.Members{m}, World: 1}}, now)
	if p.wake == 0 || p.status.Reason != "BackingOff" || p.status.Generation != 1 || len(p.goAhead) > 0 {
		t.Errorf("%+v", summary(p))
	}
	for name, got := range map[string]link.Ranks{"reported": {Progress: link.Progress{Step: 3}}, "saved": {Holding: link.Holding{Held: []int64{2, 3}}}} {
		m.Said.Step, m.Said.Held = got.Step, got.Held
		tk.Status.Rendezvous.Restore = 2
		if p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: gang.Members{m}, World: 1}}, now); p.status.Generation != 2 {
			t.Errorf("%s a step beyond its start: %+v", name, summary(p))
		}
		tk.Status.Rendezvous.Restore = 3
		if p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: gang.Members{m}, World: 1}}, now); p.status.Reason != "BackingOff" {
			t.Errorf("%s no step beyond its start: %+v", name, summary(p))
		}
	}
}

// TestGenerations: what a failed rank brings about while its launcher lives.
func TestGenerations(t *testing.T) {
	early, late := now.Add(-2*time.Second), now.Add(-time.Second)
	killed := func(rank int, at time.Time) *link.RankExit {
		return &link.RankExit{Rank: rank, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, At: at}
	}
	two := func(change func(a, b *gang.Member)) gang.Members {
		list := gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}
		list[0].Said.Held, list[1].Said.Held = []int64{3, 4, 5}, []int64{2, 3, 4}
		change(&list[0], &list[1])
		return list
	}
	running := func(restarts int) *api.TrainingTask {
		tk := task(api.PhaseRunning, 1, 1)
		tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: restarts}
		return tk
	}
	w0, w1 := engine.NameOf("task-1", "worker", 0, 1), engine.NameOf("task-1", "worker", 1, 1)
	for name, c := range map[string]struct {
		task    *api.TrainingTask
		members gang.Members
		want    want
		guilty  int
		restore int64
	}{
		"the next generation is written and all go": {
			running(1), two(func(a, b *gang.Member) { a.Said.Failed, b.Said.Failed = killed(0, late), killed(1, early) }),
			want{Phase: api.PhaseRecovering, Reason: "Restarting", Attempt: 1, Generation: 2, Commit: true, Go: []int{0, 1}}, 1, 4,
		},
		"a failure of an earlier generation is over": {
			running(1), two(func(a, _ *gang.Member) { a.Said.Generation, a.Said.Failed = 0, killed(0, late) }),
			want{Phase: api.PhaseRunning, Attempt: 1, Generation: 1, Commit: true, Go: []int{0}}, -1, 0,
		},
		"no restart is left: all end": {
			running(0), two(func(a, _ *gang.Member) { a.Said.Failed = killed(0, late) }),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0, w1}}, 0, 0,
		},
		"one is away: nobody goes before it is back": {
			running(1), two(func(a, b *gang.Member) { a.Said.Failed, b.Attached = killed(0, late), false }),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true, Wake: hearing.SilenceLimit}, 0, 0,
		},
		"one has ended well: only another attempt has all": {
			running(1), two(func(a, b *gang.Member) {
				a.Said.Failed, b.State, b.Exit = killed(0, late), engine.StateExited, exit(engine.ReasonSucceeded, 0)
			}),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0}}, 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: c.task, Placement: placed()}, Members: c.members, World: 2}}, now)
			if d := cmp.Diff(c.want, summary(p)); d != "" {
				t.Error(d)
			}
			if c.guilty >= 0 && (p.status.Failure == nil || *p.status.Failure.Rank != c.guilty) {
				t.Errorf("guilty: %+v", p.status.Failure)
			}
			if got := p.status.Rendezvous.Restore; got != c.restore {
				t.Errorf("goes on from %d", got)
			}
			if c.want.Generation == 2 && (p.status.Rendezvous.Lead != "127.0.0.1:4000" || len(p.status.Restarts) != 1) {
				t.Errorf("%+v %v", p.status.Rendezvous, p.status.Restarts)
			}
		})
	}
	// Once all have started it the task runs again.
	tk := running(1)
	tk.Status.Phase, tk.Status.Generation = api.PhaseRecovering, 2
	members := two(func(a, b *gang.Member) { a.Said.Generation, b.Said.Generation = 2, 1 })
	if p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: members}}, now); p.status.Phase != api.PhaseRecovering || len(p.goAhead) != 1 {
		t.Errorf("one lags: %+v", summary(p))
	}
	members[1].Said.Generation = 2
	if p := decide(snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}, Members: members}}, now); p.status.Phase != api.PhaseRunning {
		t.Errorf("all run: %+v", summary(p))
	}
}
