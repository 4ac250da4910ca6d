package train

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// borrowed is the place of a guest in two environments.
func borrowed() *api.Placement {
	p := placed()
	p.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 2, Devices: 0b1100}, {Node: 1, Devices: 1}}}}
	p.Spec.Inside = []api.Lender{{Task: "env-b", TaskID: "task-b", Role: "worker", Attempt: 4}, {Task: "env-a", TaskID: "task-a", Role: "main", Attempt: 1}}
	return p
}

func restarts(t *api.TrainingTask, n int) *api.TrainingTask {
	t.Spec.Restart = &api.RestartPolicy{MaxRestarts: n}
	return t
}

func TestGuest(t *testing.T) {
	w0, w1 := engine.NameOf("task-1", "worker", 0, 1), engine.NameOf("task-1", "worker", 1, 1)
	run := gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}
	over := gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143)), at(1, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143))}
	well := gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonSucceeded, 0)), at(1, 1, engine.StateDone, false, exit(engine.ReasonSucceeded, 0))}
	running := func() *api.TrainingTask { return task(api.PhaseRunning, 1, 1) }
	tests := map[string]struct {
		in   snapshot
		want want
	}{
		"lost: its processes end": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: running(), Placement: borrowed()}, Members: run}, homeless: environmentLost("env-b")},
			want{Phase: api.PhaseRunning, Reason: "EnvironmentLost", Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0, w1}},
		},
		"lost: then it fails": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: running(), Placement: borrowed()}, Members: over}, homeless: environmentLost("env-b")},
			want{Phase: api.PhaseFailed, Reason: "EnvironmentLost", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"lost: or waits for it, where a restart is left": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: restarts(running(), 1), Placement: borrowed()}, Members: over}, homeless: environmentLost("env-b")},
			want{Phase: api.PhasePending, Reason: "EnvironmentLost", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"stopped: no restart helps": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: restarts(running(), 1), Placement: borrowed()}, Members: over}, homeless: environmentStopped("env-b")},
			want{Phase: api.PhaseStopped, Reason: "EnvironmentStopped", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"lost before it began: it waits again": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0), Placement: borrowed()}}, homeless: environmentLost("env-b")},
			want{Phase: api.PhasePending, Reason: "EnvironmentLost", Commit: true, DropPlace: true},
		},
		"lost after it was done: it is done": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: running(), Placement: borrowed()}, Members: well}, homeless: environmentLost("env-b")},
			want{Phase: api.PhaseCompleted, Reason: "Succeeded", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"a host that is stopped waits for its guest": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: stopped(running()), Placement: placed()}, Members: run}, guest: "g"},
			want{Phase: api.PhaseRunning, Reason: "Stopping", Attempt: 1, Generation: 1, Commit: true},
		},
		"a host whose processes ended waits too": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: running(), Placement: placed()}, Members: well}, guest: "g"},
			want{Phase: api.PhaseRunning, Reason: "HandingOver", Attempt: 1, Generation: 1, Commit: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, summary(decide(tc.in, now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func stopped(t *api.TrainingTask) *api.TrainingTask {
	t.Spec.Stop = true
	return t
}

// TestGroups: each launcher is told which one it is, however many ranks those before it have; a role that
// restarts by itself counts its own.
func TestGroups(t *testing.T) {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Status.Rendezvous = &api.Rendezvous{World: 6, Lead: "127.0.0.1:1"}
	tk.Status.Roles = []api.RoleStatus{{Name: "reward", Generation: 1, Rendezvous: &api.Rendezvous{World: 3, Lead: "127.0.0.1:2"}}}
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}}}
	for i, ranks := range []int{3, 1, 2, 1, 2} {
		m := at(i, 1, engine.StateRunning, true, nil)
		if m.Ranks, m.Number = ranks, uint32(i); i > 2 {
			m.Role = "reward"
		}
		s.Members = append(s.Members, m)
	}
	s.Rank()
	for i, want := range [][3]int{{0, 0, 3}, {3, 1, 3}, {4, 2, 3}, {0, 0, 2}, {1, 1, 2}} {
		g := s.orderFor(i, &tk.Status, false)
		if got := [3]int{g.FirstRank, g.Group, g.Groups}; got != want {
			t.Errorf("%d: %v, not %v", i, got, want)
		}
	}
}

// TestGuestsAndHosts plays both against decide: nothing of a guest starts while an environment is lost, a host
// neither ends its processes nor its place while a guest is inside, and both come to an end.
func TestGuestsAndHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.Bool().Draw(t, "host")
		tk := restarts(task(api.PhasePending, 0, 0), rapid.IntRange(0, 2).Draw(t, "budget"))
		pl, guest := borrowed(), ""
		if host {
			pl, guest = placed(), "g"
		}
		lossAt, leaves := rapid.IntRange(0, 30).Draw(t, "lost at"), rapid.IntRange(20, 60).Draw(t, "guest leaves")
		how := rapid.SampledFrom([]*loss{environmentLost("env-a"), environmentStopped("env-a")}).Draw(t, "how")
		world := map[engine.Name]*gang.Member{}
		for turn := range 400 {
			if turn == leaves {
				guest = ""
			}
			if turn == 15 {
				tk.Spec.Stop = host
			}
			s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: pl}}, archiveAfter: time.Hour, stay: true, guest: guest}
			if !host && turn >= lossAt && pl != nil {
				s.homeless = how
			}
			s.fillFrom(world, 2)
			p := decide(s, now.Add(time.Duration(turn)*time.Second))
			if s.homeless != nil && len(p.start)+len(p.goAhead) > 0 {
				t.Fatal("started inside what is lost")
			}
			if guest != "" && (p.dropPlace || p.status.Phase.Finished() || p.status.InUseBy != guest || tk.Spec.Stop && len(p.stop) > 0) {
				t.Fatalf("a host left its guest: %+v", p)
			}
			tk, pl = s.committed(p)
			play(t, world, s, p)
			if tk.Status.Phase.Finished() && len(world) == 0 {
				return
			}
			if pl == nil && !host && tk.Status.Phase == api.PhasePending {
				pl, lossAt = borrowed(), turn+rapid.IntRange(0, 30).Draw(t, "lost again after")
				pl.Spec.Attempt = tk.Status.Attempt + 1
			}
		}
		t.Fatalf("still %s after 400 turns: %+v", tk.Status.Phase, world)
	})
}
