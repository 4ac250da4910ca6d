package train

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestTable: ranks follow the topology, role by role.
func TestTable(t *testing.T) {
	m := func(role string, index, ranks int, zone, leaf string, node uint32, devices uint64) member {
		return member{role: role, index: index, ranks: ranks, zone: zone, leaf: leaf, number: node, devices: devices}
	}
	s := seen{task: task(api.PhasePending, 0, 0), members: []member{
		m("worker", 0, 2, "b", "l1", 1, 0), m("worker", 1, 2, "a", "l2", 9, 0), m("worker", 2, 2, "a", "l1", 7, 0b1100),
		m("worker", 3, 2, "a", "l1", 7, 0b0011), m("ps", 0, 1, "a", "l1", 3, 0),
	}}
	s.table()
	if s.world != 9 {
		t.Error(s.world)
	}
	var got []int
	for _, m := range s.members {
		got = append(got, m.first)
	}
	if d := cmp.Diff([]int{6, 4, 2, 0, 8}, got); d != "" {
		t.Error(d)
	}
	if s.lead().index != 3 {
		t.Error(s.lead())
	}
	before := s.membersHash()
	s.members[0].first, s.members[1].first = s.members[1].first, s.members[0].first
	if s.membersHash() == before {
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
	m.said.Failed = &link.RankExit{Code: 1, Reason: engine.ReasonNonZero, At: now}
	p := decide(seen{task: tk, placement: placed(), members: []member{m}, world: 1}, now)
	if p.wake == 0 || p.status.Reason != "BackingOff" || p.status.Generation != 1 || len(p.goAhead) > 0 {
		t.Errorf("%+v", summary(p))
	}
	for name, got := range map[string]link.Ranks{"reported": {Step: 3}, "saved": {Held: []int64{2, 3}}} {
		m.said.Step, m.said.Held = got.Step, got.Held
		tk.Status.Rendezvous.Restore = 2
		if p := decide(seen{task: tk, placement: placed(), members: []member{m}, world: 1}, now); p.status.Generation != 2 {
			t.Errorf("%s a step beyond its start: %+v", name, summary(p))
		}
		tk.Status.Rendezvous.Restore = 3
		if p := decide(seen{task: tk, placement: placed(), members: []member{m}, world: 1}, now); p.status.Reason != "BackingOff" {
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
	two := func(change func(a, b *member)) []member {
		list := []member{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}
		list[0].said.Held, list[1].said.Held = []int64{3, 4, 5}, []int64{2, 3, 4}
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
		members []member
		want    want
		guilty  int
		restore int64
	}{
		"the next generation is written and all go": {
			running(1), two(func(a, b *member) { a.said.Failed, b.said.Failed = killed(0, late), killed(1, early) }),
			want{Phase: api.PhaseRecovering, Reason: "Restarting", Attempt: 1, Generation: 2, Commit: true, Go: []int{0, 1}}, 1, 4,
		},
		"a failure of an earlier generation is over": {
			running(1), two(func(a, _ *member) { a.said.Generation, a.said.Failed = 0, killed(0, late) }),
			want{Phase: api.PhaseRunning, Attempt: 1, Generation: 1, Commit: true, Go: []int{0}}, -1, 0,
		},
		"no restart is left: all end": {
			running(0), two(func(a, _ *member) { a.said.Failed = killed(0, late) }),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0, w1}}, 0, 0,
		},
		"one is away: nobody goes before it is back": {
			running(1), two(func(a, b *member) { a.said.Failed, b.attached = killed(0, late), false }),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true}, 0, 0,
		},
		"one has ended well: only another attempt has all": {
			running(1), two(func(a, b *member) {
				a.said.Failed, b.state, b.exit = killed(0, late), engine.StateExited, exit(engine.ReasonSucceeded, 0)
			}),
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonSignaled, Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0}}, 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(seen{task: c.task, placement: placed(), members: c.members, world: 2}, now)
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
	members := two(func(a, b *member) { a.said.Generation, b.said.Generation = 2, 1 })
	if p := decide(seen{task: tk, placement: placed(), members: members}, now); p.status.Phase != api.PhaseRecovering || len(p.goAhead) != 1 {
		t.Errorf("one lags: %+v", summary(p))
	}
	members[1].said.Generation = 2
	if p := decide(seen{task: tk, placement: placed(), members: members}, now); p.status.Phase != api.PhaseRunning {
		t.Errorf("all run: %+v", summary(p))
	}
}
