package train

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
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
func checkRewind(t *rapid.T, s seen, p plan) {
	r := s.task.Spec.Restore
	if r == nil || p.status.Generation == s.task.Status.Generation {
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
	s := seen{task: rewound(task(api.PhaseRunning, 1, 1), now), placement: placed(), durable: true}
	s.members = []member{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}
	s.table()
	for i := range s.members {
		s.members[i].said.Held = []int64{9} // newer, and given up
	}
	p := decide(s, now)
	if len(p.stop) != 2 || p.status.Attempt != 1 || p.status.Reason != "Restoring" {
		t.Fatalf("%+v", p)
	}
	for i := range s.members {
		s.members[i].state, s.members[i].exit = engine.StateDone, exit(engine.ReasonStopped, 143)
	}
	s.task.Status = p.status
	s.task.Status.Restarts = []time.Time{now}
	p = decide(s, now)
	if p.status.Phase != api.PhaseRecovering || p.status.Attempt != 2 || p.status.Rendezvous != nil || len(p.status.Restarts) != 0 || p.dropPlace {
		t.Fatalf("%+v", p.status)
	}
	next := gathered(nil)
	next.task.Spec.Restore, next.durable = s.task.Spec.Restore, true
	next.origins = unrefused(&next)
	if r := decide(next, now).status.Rendezvous; r == nil || r.Origin == nil || r.Origin.Name != s.task.Spec.Restore.Name {
		t.Errorf("it begins from %+v", r)
	}
}

func TestARestoreRevivesWhatHasEnded(t *testing.T) {
	for _, phase := range []api.Phase{api.PhaseCompleted, api.PhaseFailed, api.PhaseStopped} {
		tk := task(phase, 1, 1)
		code := 1
		tk.Status.FinishedAt, tk.Status.ExitCode, tk.Status.Failure = &now, &code, &api.ReplicaFailure{}
		s := seen{task: rewound(tk, now), archiveAfter: time.Nanosecond, durable: true}
		p := decide(s, now.Add(time.Hour))
		if p.archive || p.status.Phase != api.PhasePending || p.status.FinishedAt != nil || p.status.ExitCode != nil || p.status.Failure != nil || !p.commit {
			t.Fatalf("%s: %+v", phase, p.status)
		}
		s.task.Spec.Stop = true
		if p := decide(s, now.Add(time.Hour)); !p.archive {
			t.Errorf("%s: stopped again, and yet %+v", phase, p.status)
		}
		s.task.Spec.Stop, s.task.Status.Attempt = false, 2
		if p := decide(s, now.Add(time.Hour)); !p.archive {
			t.Errorf("%s: a wish is for once, and yet %+v", phase, p.status)
		}
	}
}

// TestWhoWasToldWhereToBeginNeverBeginsAtNothing: the checkpoint was refused, and there is no older one.
func TestWhoWasToldWhereToBeginNeverBeginsAtNothing(t *testing.T) {
	s := gathered(nil)
	s.durable = true
	s.task.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: past()[0].Name, Step: 3}
	s.members[1].said.Refused = &link.Origin{TaskID: "task-0", Name: past()[0].Name}
	p := decide(s, now)
	if len(p.stop) != 2 || p.status.Rendezvous != nil || p.status.Reason != "CheckpointLost" {
		t.Fatalf("%+v", p.status)
	}
	for i := range s.members {
		s.members[i].state, s.members[i].exit = engine.StateDone, exit(engine.ReasonStopped, 143)
	}
	s.task.Status = p.status
	if p = decide(s, now); p.status.Phase != api.PhaseFailed || p.status.Reason != "CheckpointLost" || *p.status.ExitCode != 1 {
		t.Errorf("%+v", p.status)
	}
	away := gathered(nil)
	away.durable, away.unread, away.task.Status.From = true, true, s.task.Status.From
	if p = decide(away, now); len(p.stop) > 0 || p.status.Reason != "CheckpointsAway" {
		t.Error("a store that is away is no loss")
	}
}

// TestOriginsOfATaskThatWasToldWhereToBegin: its own first, what was given up not at all, the other task's last.
func TestOriginsOfATaskThatWasToldWhereToBegin(t *testing.T) {
	c := New(Config{Repo: func(string, string) (*ckpt.Repo, error) { return nil, nil }})
	tk := rewound(task(api.PhaseInitializing, 2, 1), now)
	tk.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: past()[1].Name, Step: 2}
	known := &checkpoints{list: past(), attempt: -1}
	known.add("task-1", "0000000000000000002-0000000000000000001", 1) // after the wish, though of a smaller step
	c.durable = map[string]*checkpoints{"task-1": known}
	s := &seen{task: tk, members: []member{at(0, 2, engine.StateCreated, true, nil)}}
	c.origins(t.Context(), s)
	var got []string
	for _, o := range s.origins {
		got = append(got, o.TaskID+" "+itoa(int(o.Step)))
	}
	if want := "[task-1 1 task-1 2 task-1 1 task-0 2]"; s.unread || fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	s.members[0].said.Refused = &link.Origin{TaskID: "task-0", Name: past()[1].Name}
	if c.origins(t.Context(), s); len(s.origins) != 3 || s.origins[1].Step != 2 {
		t.Errorf("a refusal of another task's is not one of its own: %v", s.origins)
	}
}

func TestWhatOthersBeginFromIsHeld(t *testing.T) {
	c := New(Config{})
	c.held = map[string]api.CheckpointOrigin{}
	tk := task(api.PhasePending, 0, 0)
	tk.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: "a"}
	c.noteHeld(tk)
	if held := c.heldOf("task-0"); !held("a") || held("b") || c.heldOf("task-9")("a") {
		t.Error("only what it begins from is held")
	}
	tk.Status.Phase = api.PhaseCompleted
	if c.noteHeld(tk); c.heldOf("task-0")("a") {
		t.Error("it has ended")
	}
}
