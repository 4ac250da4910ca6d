package train

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/store"
)

// rewound is a task that was asked to go on from the second newest of past.
func rewound(tk *api.TrainingTask, at time.Time) *api.TrainingTask {
	next := store.Clone(tk)
	chosen := past()[1]
	next.Spec.Stop = false
	next.Spec.Restore = &api.Rewind{Name: chosen.Name, Step: chosen.Step, Attempt: tk.Status.Attempt, Generation: max(tk.Status.Generation, 1), At: at}
	return next
}

// checkRewind: attempts that a restore ended open no generation, and later ones begin from nothing that was given up, nor at
// nothing.
func checkRewind(t *rapid.T, s snapshot, p plan) {
	r := s.Task.Spec.Restore
	if r == nil || p.status.Generation == s.Task.Status.Generation {
		return
	}
	if r.Due(p.status.Attempt) {
		t.Fatalf("attempt %d goes on, though those up to %d are over", p.status.Attempt, r.Attempt)
	}
	if o := p.status.Rendezvous.Origin; o == nil || r.Abandons(o.Name) {
		t.Fatalf("it begins from %+v, though %s was chosen", o, r.Name)
	}
}

func TestARestoreEndsWhatRunsAndBeginsThere(t *testing.T) {
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: rewound(task(api.PhaseRunning, 1, 1), now), Placement: placed()}}, origins: save.Origins{Durable: true}}
	s.Members = gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}
	s.Rank()
	for i := range s.Members {
		s.Members[i].Said.Held = []int64{9} // newer, and given up
	}
	p := decide(s, now)
	if len(p.stop) != 2 || p.status.Attempt != 1 || p.status.Reason != "Restoring" {
		t.Fatalf("%+v", p)
	}
	for i := range s.Members {
		s.Members[i].State, s.Members[i].Exit = engine.StateDone, exit(engine.ReasonStopped, 143)
	}
	s.Task.Status = p.status
	s.Task.Status.Restarts = []time.Time{now}
	p = decide(s, now)
	if p.status.Phase != api.PhaseRecovering || p.status.Attempt != 2 || p.status.Rendezvous != nil || len(p.status.Restarts) != 0 || p.dropPlace {
		t.Fatalf("%+v", p.status)
	}
	next := gathered(nil)
	next.Task.Spec.Restore, next.origins.Durable = s.Task.Spec.Restore, true
	next.origins.List = unrefused(&next)
	if r := decide(next, now).status.Rendezvous; r == nil || r.Origin == nil || r.Origin.Name != s.Task.Spec.Restore.Name {
		t.Errorf("it begins from %+v", r)
	}
}

func TestARestoreRevivesWhatHasEnded(t *testing.T) {
	for _, phase := range []api.Phase{api.PhaseCompleted, api.PhaseFailed, api.PhaseStopped} {
		tk := task(phase, 1, 1)
		code := 1
		tk.Status.FinishedAt, tk.Status.ExitCode, tk.Status.Failure = &now, &code, &api.ReplicaFailure{}
		s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: rewound(tk, now)}}, origins: save.Origins{Durable: true}, archiveAfter: time.Nanosecond}
		p := decide(s, now.Add(time.Hour))
		if p.archive || p.status.Phase != api.PhasePending || p.status.FinishedAt != nil || p.status.ExitCode != nil || p.status.Failure != nil || !p.commit {
			t.Fatalf("%s: %+v", phase, p.status)
		}
		s.Task.Spec.Stop = true
		if p := decide(s, now.Add(time.Hour)); !p.archive {
			t.Errorf("%s: stopped again, and yet %+v", phase, p.status)
		}
		s.Task.Spec.Stop, s.Task.Status.Attempt = false, 2
		if p := decide(s, now.Add(time.Hour)); !p.archive {
			t.Errorf("%s: a wish is for once, and yet %+v", phase, p.status)
		}
	}
}

// TestWhoWasToldWhereToBeginNeverBeginsAtNothing: the checkpoint was refused, and there is no older one.
func TestWhoWasToldWhereToBeginNeverBeginsAtNothing(t *testing.T) {
	s := gathered(nil)
	s.origins.Durable = true
	s.Task.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: past()[0].Name, Step: 3}
	s.Members[1].Said.Refused = &link.Origin{TaskID: "task-0", Name: past()[0].Name}
	p := decide(s, now)
	if len(p.stop) != 2 || p.status.Rendezvous != nil || p.status.Reason != "CheckpointLost" {
		t.Fatalf("%+v", p.status)
	}
	for i := range s.Members {
		s.Members[i].State, s.Members[i].Exit = engine.StateDone, exit(engine.ReasonStopped, 143)
	}
	s.Task.Status = p.status
	if p = decide(s, now); p.status.Phase != api.PhaseFailed || p.status.Reason != "CheckpointLost" || *p.status.ExitCode != 1 {
		t.Errorf("%+v", p.status)
	}
	away := gathered(nil)
	away.origins.Durable, away.origins.Away, away.Task.Status.From = true, true, s.Task.Status.From
	if p = decide(away, now); len(p.stop) > 0 || p.status.Reason != "CheckpointsAway" {
		t.Error("a store that is away is no loss")
	}
}
