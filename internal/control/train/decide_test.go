package train

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func task(phase api.Phase, attempt, generation int) *api.TrainingTask {
	out := &api.TrainingTask{
		Meta:   api.Meta{ID: "task-1", Name: "t", Project: "p", CreatedAt: now.Add(-time.Minute)},
		Spec:   api.TrainingTaskSpec{Roles: []api.Role{{Name: "worker", Replicas: 2}}},
		Status: api.TrainingTaskStatus{Phase: phase, Attempt: attempt, Generation: generation},
	}
	if generation == attempt && generation > 0 {
		out.Status.Rendezvous = &api.Rendezvous{Members: "m", Lead: "127.0.0.1:4000", World: 2}
	}
	return out
}

func placed() *api.Placement {
	return &api.Placement{Meta: api.Meta{Name: "task-1", DisplayName: "t", Project: "p"}, Spec: api.PlacementSpec{TaskID: "task-1", Attempt: 1}}
}

func at(i, attempt int, state engine.State, attached bool, exit *engine.Exit) gang.Member {
	m := gang.Member{
		Name: engine.NameOf("task-1", "worker", i, attempt), Role: "worker", Index: i, Stand: gang.Stand{Node: fmt.Sprintf("n%d", i)},
		Ranking: gang.Ranking{Ranks: 1, First: i}, State: state, Attached: attached, Exit: exit,
		Observed: engine.Observation{Started: now, Address: "127.0.0.1", LauncherAddress: "127.0.0.1"},
	}
	if attached {
		m.Said.Port = 4000 + i
	}
	if state == engine.StateRunning {
		m.Said.Generation = int64(attempt)
	}
	return m
}

func exit(reason string, code int) *engine.Exit {
	return &engine.Exit{Reason: reason, Code: code, At: now}
}

// want is what of a plan matters to a row.
type want struct {
	Phase      api.Phase
	Reason     string
	Attempt    int
	Generation int
	Commit     bool
	DropPlace  bool
	MoveOn     bool
	Usage      bool
	Start, Go  []int
	Stop       []engine.Name
	Remove     []engine.Name
	Archive    bool
	Erase      bool
	Wake       time.Duration
}

func summary(p plan) want {
	return want{
		p.status.Phase, p.status.Reason, p.status.Attempt, p.status.Generation, p.commit, p.dropPlace, p.moveOn, p.usage,
		p.start, p.goAhead, p.stop, p.remove, p.archive, p.erase, p.wake,
	}
}

func leaving() *api.Placement {
	p := placed()
	p.Spec.Evict = &api.Eviction{Reason: "Drained", Message: fault.T("It leaves.", "迁出。"), At: now}
	return p
}

func moving() *api.Placement {
	p := leaving()
	p.Spec.Evict.Reason, p.Spec.Evict.To = "Moved", []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 3}, {Node: 4}}}}
	return p
}

func TestDecide(t *testing.T) {
	ok, bad := exit(engine.ReasonSucceeded, 0), exit(engine.ReasonNonZero, 3)
	w0, w1 := engine.NameOf("task-1", "worker", 0, 1), engine.NameOf("task-1", "worker", 1, 1)
	stop := func(tk *api.TrainingTask) *api.TrainingTask { tk.Spec.Stop = true; return tk }
	deleted := func(tk *api.TrainingTask) *api.TrainingTask { tk.Meta.DeletedAt = &now; return tk }
	ended := func(phase api.Phase, ago time.Duration) *api.TrainingTask {
		tk := task(phase, 1, 1)
		f := now.Add(-ago)
		tk.Status.FinishedAt = &f
		return tk
	}
	retry := func(n int) *api.TrainingTask {
		tk := task(api.PhaseRunning, 1, 1)
		tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: n}
		return tk
	}
	used := func(tk *api.TrainingTask, ago ...time.Duration) *api.TrainingTask {
		for _, d := range ago {
			tk.Status.Restarts = append(tk.Status.Restarts, now.Add(-d))
		}
		return tk
	}
	pendingTimeout := func(d time.Duration) *api.TrainingTask {
		tk := task(api.PhasePending, 0, 0)
		tk.Spec.Timeouts = &api.Timeouts{Pending: api.Duration(d)}
		return tk
	}
	tests := map[string]struct {
		in   snapshot
		want want
	}{
		"a waiting task waits": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0)}}},
			want{Phase: api.PhasePending},
		},
		"a placed task begins its first attempt": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0), Placement: placed()}, Members: gang.Members{at(0, 0, "", false, nil), at(1, 0, "", false, nil)}}},
			want{Phase: api.PhaseInitializing, Reason: "Placed", Attempt: 1, Commit: true},
		},
		"a place where the framework can't start ends the task": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0), Placement: placed()}, Members: gang.Members{at(0, 0, "", false, nil), at(1, 0, "", false, nil)}}, unfit: fault.New(fault.Invalid, "BadRecipe", fault.T("No.", "不。"))},
			want{Phase: api.PhaseFailed, Reason: "BadRecipe", Commit: true, Usage: true, DropPlace: true},
		},
		"missing replicas are started": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 0), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateCreated, true, nil), at(1, 1, "", false, nil)}}},
			want{Phase: api.PhaseInitializing, Attempt: 1, Commit: true, Start: []int{1}},
		},
		"nobody goes before all are attached": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 0), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateCreated, true, nil), at(1, 1, engine.StateCreated, false, nil)}}},
			want{Phase: api.PhaseInitializing, Attempt: 1, Commit: true},
		},
		"all attached: the generation is written and all go": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 0), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateCreated, true, nil), at(1, 1, engine.StateCreated, true, nil)}}},
			want{Phase: api.PhaseInitializing, Attempt: 1, Generation: 1, Commit: true, Go: []int{0, 1}},
		},
		"a new leader tells again who had not heard": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateCreated, true, nil)}}},
			want{Phase: api.PhaseInitializing, Attempt: 1, Generation: 1, Commit: true, Go: []int{1}},
		},
		"all run": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateExited, true, ok)}}},
			want{Phase: api.PhaseRunning, Reason: "Started", Attempt: 1, Generation: 1, Commit: true, Usage: true},
		},
		"ended well but still handing over": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, true, ok), at(1, 1, engine.StateExited, true, ok)}}},
			want{Phase: api.PhaseRunning, Reason: "HandingOver", Attempt: 1, Generation: 1, Commit: true},
		},
		"told to leave: the processes end first": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: leaving()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateExited, true, exit(engine.ReasonStopped, 143))}}},
			want{Phase: api.PhaseRunning, Reason: "Drained", Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0}},
		},
		"told to leave and over: the place goes, the task waits": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: retry(0), Placement: leaving()}, Members: gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143)), at(1, 1, engine.StateDone, false, bad)}}},
			want{Phase: api.PhasePending, Reason: "Drained", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"told to leave before it began": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0), Placement: leaving()}, Members: gang.Members{at(0, 0, "", false, nil), at(1, 0, "", false, nil)}}},
			want{Phase: api.PhasePending, Reason: "Drained", Commit: true, DropPlace: true},
		},
		"told to move: the processes end first, both places stay": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: moving()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateExited, true, exit(engine.ReasonStopped, 143))}}},
			want{Phase: api.PhaseRunning, Reason: "Moved", Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0}},
		},
		"told to move and over: its next attempt has the new place": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: retry(0), Placement: moving()}, Members: gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143)), at(1, 1, engine.StateDone, false, bad)}}},
			want{Phase: api.PhaseRecovering, Reason: "Moved", Attempt: 2, Generation: 1, Commit: true, MoveOn: true, Usage: true},
		},
		"told to move before it began": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 0, 0), Placement: moving()}, Members: gang.Members{at(0, 0, "", false, nil), at(1, 0, "", false, nil)}}},
			want{Phase: api.PhasePending, Reason: "Moved", Commit: true, MoveOn: true},
		},
		"told to move and stopped meanwhile: both places go": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: stop(task(api.PhaseRunning, 1, 1)), Placement: moving()}, Members: gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143)), at(1, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143))}}},
			want{Phase: api.PhaseStopped, Reason: "Stopped", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"told to leave after it had ended well": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: leaving()}, Members: gang.Members{at(0, 1, engine.StateDone, false, ok), at(1, 1, engine.StateDone, false, ok)}}},
			want{Phase: api.PhaseCompleted, Reason: "Succeeded", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"all done": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, ok), at(1, 1, engine.StateDone, false, ok)}}},
			want{Phase: api.PhaseCompleted, Reason: "Succeeded", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"one failed: the others are stopped": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateExited, true, bad), at(1, 1, engine.StateRunning, true, nil)}}},
			want{Phase: api.PhaseRecovering, Reason: engine.ReasonNonZero, Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w1}},
		},
		"failed and no budget": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRecovering, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, bad), at(1, 1, engine.StateDone, false, exit(engine.ReasonStopped, 143))}}},
			want{Phase: api.PhaseFailed, Reason: engine.ReasonNonZero, Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"failed within the budget": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: retry(1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, bad), at(1, 1, engine.StateDone, false, bad)}}},
			want{Phase: api.PhaseRecovering, Reason: "Restarting", Attempt: 2, Generation: 1, Commit: true, Usage: true},
		},
		"the budget is used up": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: used(retry(1), time.Minute), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, bad), at(1, 1, engine.StateDone, false, bad)}}},
			want{Phase: api.PhaseFailed, Reason: engine.ReasonNonZero, Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"old restarts are forgotten": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: used(retry(1), 2*time.Hour), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, bad), at(1, 1, engine.StateDone, false, bad)}}},
			want{Phase: api.PhaseRecovering, Reason: "Restarting", Attempt: 2, Generation: 1, Commit: true, Usage: true},
		},
		"what can't be started is not tried again": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: retry(5), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonStartFailed, 127)), at(1, 1, engine.StateDone, false, ok)}}},
			want{Phase: api.PhaseFailed, Reason: engine.ReasonStartFailed, Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"a lost launcher is a failure": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, false, exit(engine.ReasonLauncherLost, -1)), at(1, 1, "", false, nil)}}},
			want{Phase: api.PhaseFailed, Reason: engine.ReasonLauncherLost, Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"stop before placement": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: stop(task(api.PhasePending, 0, 0))}}},
			want{Phase: api.PhaseStopped, Reason: "Stopped", Commit: true, Usage: true},
		},
		"stop while running": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: stop(task(api.PhaseRunning, 1, 1)), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateDone, true, ok)}}},
			want{Phase: api.PhaseRunning, Reason: "Stopping", Attempt: 1, Generation: 1, Commit: true, Stop: []engine.Name{w0}},
		},
		"stopped": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: stop(task(api.PhaseRunning, 1, 1)), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateDone, true, bad), at(1, 1, engine.StateDone, true, ok)}}},
			want{Phase: api.PhaseStopped, Reason: "Stopped", Attempt: 1, Generation: 1, Commit: true, DropPlace: true, Usage: true},
		},
		"a lost placement sends it back to wait": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1)}, Others: []engine.Observation{{Name: w0, State: engine.StateDone}}}},
			want{Phase: api.PhasePending, Reason: "PlacementLost", Attempt: 1, Generation: 1, Commit: true, Usage: true, Remove: []engine.Name{w0}},
		},
		"an old attempt still runs: end it before beginning": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhasePending, 1, 1), Placement: placed()}, Others: []engine.Observation{{Name: w0, State: engine.StateRunning}}}},
			want{Phase: api.PhasePending, Attempt: 1, Generation: 1, Stop: []engine.Name{w0}},
		},
		"waited too long": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: pendingTimeout(30 * time.Second)}}},
			want{Phase: api.PhaseFailed, Reason: "PendingTimeout", Commit: true, Usage: true},
		},
		"may wait a little more": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: pendingTimeout(90 * time.Second)}}},
			want{Phase: api.PhasePending, Wake: 30 * time.Second},
		},
		"finished: folders go": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: ended(api.PhaseCompleted, time.Minute)}, Others: []engine.Observation{{Name: w0, State: engine.StateDone}, {Name: w1, State: engine.StateExited}}}, archiveAfter: time.Hour},
			want{Phase: api.PhaseCompleted, Attempt: 1, Generation: 1, Remove: []engine.Name{w0}},
		},
		"finished: stays a while": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: ended(api.PhaseCompleted, time.Minute)}}, archiveAfter: time.Hour},
			want{Phase: api.PhaseCompleted, Attempt: 1, Generation: 1, Wake: 59 * time.Minute},
		},
		"finished: goes to history": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: ended(api.PhaseFailed, 2*time.Hour)}}, archiveAfter: time.Hour},
			want{Phase: api.PhaseFailed, Attempt: 1, Generation: 1, Archive: true},
		},
		"deleted: erased when nothing is left": {
			snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: deleted(ended(api.PhaseStopped, time.Second))}}, archiveAfter: time.Hour},
			want{Phase: api.PhaseStopped, Attempt: 1, Generation: 1, Erase: true},
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

func TestTheFirstCauseIsNamedNotItsVictims(t *testing.T) {
	early, late := exit(engine.ReasonStopped, 143), exit(engine.ReasonSignaled, 137)
	early.At = now.Add(-time.Second)
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: placed()}, Members: gang.Members{at(0, 1, engine.StateExited, true, early), at(1, 1, engine.StateExited, true, late)}}}
	p := decide(s, now)
	if p.status.Failure == nil || p.status.Failure.Index != 1 {
		t.Errorf("got %+v", p.status.Failure)
	}
}

// TestEveryLifeEnds plays random engines against decide until the task has finished: no illegal
// move (it would panic), the attempt never goes back, nobody is told to go before the generation
// is written, and a fair engine always brings it to an end.
func TestEveryLifeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tk := task(api.PhasePending, 0, 0)
		tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: rapid.IntRange(0, 3).Draw(t, "budget")}
		tk.Spec.Stragglers = rapid.SampledFrom([]api.StragglerRule{"", api.StragglersReplace}).Draw(t, "stragglers")
		pl, size := placed(), 2
		if rapid.Bool().Draw(t, "a role by itself") {
			tk.Spec.Roles = append(tk.Spec.Roles, api.Role{Name: "reward", Replicas: 2, Restart: api.RestartRole})
			size = 4
		}
		world := map[engine.Name]*gang.Member{}
		restores := rapid.IntRange(0, 2).Draw(t, "restores")
		for turn := range 1200 {
			if turn == 20 && rapid.Bool().Draw(t, "stop") {
				tk.Spec.Stop = true
			}
			over := tk.Status.Phase.Finished() && len(world) == 0
			if restores > 0 && size == 2 && (over || rapid.IntRange(0, 9).Draw(t, "restore") == 0) {
				restores--
				tk = rewound(tk, now.Add(time.Duration(turn)*time.Second))
			}
			if pl == nil && tk.Status.Phase == api.PhasePending {
				pl = placed() // the scheduler's part
			}
			s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: pl}}, origins: save.Origins{Durable: true}, archiveAfter: time.Hour, stay: turn%2 == 0}
			s.fillFrom(world, size)
			if size == 2 {
				s.origins.List = unrefused(&s)
			}
			p := decide(s, now.Add(time.Duration(turn)*time.Second))
			if p.status.Attempt < tk.Status.Attempt || p.status.Generation < tk.Status.Generation {
				t.Fatal("attempt or generation went back")
			}
			checkRoles(t, s, p)
			if p.moveOn && p.status.Rendezvous != nil {
				t.Fatal("the next place would go on with the rendezvous of the last")
			}
			checkInterruptions(t, p.status)
			checkUsed(t, s.Task.Status, p)
			checkWatch(t, s, p)
			checkRewind(t, s, p)
			if r := p.status.Rendezvous; r != nil && r.Origin != nil && (r.Restore != r.Origin.Step || p.status.Generation > tk.Status.Generation && !slices.Contains(s.origins.List, *r.Origin)) {
				t.Fatalf("it begins from a checkpoint that is none: %+v of %v", r.Origin, s.origins.List)
			}
			tk, pl = s.committed(p)
			play(t, world, s, p)
			if tk.Status.Phase.Finished() && len(world) == 0 && (restores == 0 || size > 2) && (tk.Spec.Stop || !tk.Spec.Restore.Due(tk.Status.Attempt)) {
				return
			}
		}
		t.Fatalf("still %s after 1200 turns: %+v", tk.Status.Phase, world)
	})
}

// fillFrom are the members as the played engine has them, two of each role, and what else it has.
func (s *snapshot) fillFrom(world map[engine.Name]*gang.Member, size int) {
	current := map[engine.Name]bool{}
	for i := range size {
		if s.Placement == nil {
			break
		}
		m := at(i%2, s.Task.Status.Attempt, "", false, nil)
		if i >= 2 {
			m.Role, m.Attempt = "reward", s.Task.Status.AttemptOf("reward")
			m.Name = engine.NameOf("task-1", "reward", i%2, m.Attempt)
		}
		if known := world[m.Name]; known != nil {
			m = *known
		}
		current[m.Name] = true
		s.Members = append(s.Members, m)
	}
	s.Rank()
	for _, name := range sortedNames(world) {
		if !current[name] {
			s.Others = append(s.Others, engine.Observation{Name: name, State: world[name].State})
		}
	}
}

// checkInterruptions: every failure has a cause, and nothing is under way in what is over.
func checkInterruptions(t *rapid.T, status api.TrainingTaskStatus) {
	in := status.Interruptions
	if in == nil {
		return
	}
	causes := 0
	for _, n := range in.Causes {
		causes += n
	}
	if causes != in.Count || in.Recovered > in.Count || in.LostTime < 0 || in.LostSteps < 0 || len(in.Last) > api.MaxRecoveries {
		t.Fatalf("%+v", in)
	}
	for i := range in.Last {
		if in.Last[i].EndedAt == nil && (i < len(in.Last)-1 || status.Phase.Finished()) {
			t.Fatalf("a recovery has no end: %+v", in.Last)
		}
	}
}

// checkWatch: what is remembered and named is bounded, and nobody is replaced beyond the budget, or in a task that ends.
func checkWatch(t *rapid.T, s snapshot, p plan) {
	if len(p.status.Faults) > api.MaxPastFaults || len(p.status.Stragglers) > api.MaxStragglers {
		t.Fatalf("%d faults, %d stragglers", len(p.status.Faults), len(p.status.Stragglers))
	}
	if len(p.status.Restarts) > s.Task.Spec.Restart.MaxRestarts {
		t.Fatalf("%d restarts of %d", len(p.status.Restarts), s.Task.Spec.Restart.MaxRestarts)
	}
	if p.swap.node != "" && (s.Task.Spec.Stop || p.status.Phase.Finished() || s.stay) {
		t.Fatalf("away from %s in a task that is %s", p.swap.node, p.status.Phase)
	}
}

// committed are task and placement after a plan.
func (s *snapshot) committed(p plan) (*api.TrainingTask, *api.Placement) {
	if !p.commit {
		return s.Task, s.Placement
	}
	task, place := &api.TrainingTask{Meta: s.Task.Meta, Spec: s.Task.Spec, Status: p.status}, s.Placement
	if p.dropPlace {
		place = nil
	}
	return task, place
}

// play lets the engine do what the plan asked, and then something of its own.
func play(t *rapid.T, world map[engine.Name]*gang.Member, s snapshot, p plan) {
	for _, i := range p.start {
		m := s.Members[i]
		m.State = engine.StateCreated
		world[m.Name] = &m
	}
	_, table := s.Addresses()
	for _, i := range p.goAhead {
		number := s.orderFor(i, &p.status, true).Number
		m := world[s.Members[i].Name]
		if m == nil || m.Ended() {
			continue
		}
		m.Said.RoleTable = table
		if o := s.orderFor(i, &p.status, true).Origin; o != nil && m.Said.Generation < number && rapid.Bool().Draw(t, "refuses") {
			m.Said.Refused = o
			continue
		}
		if m.Said.Generation < number {
			m.State = engine.StateRunning
			m.Said.Generation, m.Said.Failed, m.Said.Hung, m.Said.Frozen = number, nil, nil, false
		}
	}
	for _, name := range p.stop {
		if m := world[name]; m != nil && m.State != engine.StateExited && m.State != engine.StateDone {
			m.State, m.Exit = engine.StateExited, exit(engine.ReasonStopped, 143)
		}
	}
	for _, name := range p.remove {
		delete(world, name)
	}
	for _, name := range sortedNames(world) {
		m := world[name]
		switch m.State {
		case engine.StateCreated:
			m.Attached = true
			m.Said.Port, m.Said.Serve = 4000, 5000+m.Attempt
		case engine.StateRunning:
			m.Said.Step += int64(rapid.IntRange(0, 2).Draw(t, "steps"))
			m.Said.Use, m.Said.Saves = link.Use{CPU: 1, Seconds: 2, Busy: 1, Watched: 2}, link.Saves{Begun: 3, Whole: 2}
			m.Said.Own = []link.RankOwn{{Rank: m.First, Seconds: rapid.SampledFrom([]float64{.1, .2, .3}).Draw(t, "own"), Steps: 16}}
			if m.Said.Failed == nil && rapid.Bool().Draw(t, "rank fails") {
				m.Said.Failed = &link.RankExit{
					Rank: m.First, Code: 137, Reason: engine.ReasonSignaled, At: now.Add(time.Duration(m.Said.Generation)),
					Diagnosis: engine.Diagnosis{Cause: rapid.SampledFrom([]string{"", "killed", "python-error", "peer-lost", "device-lost", "no such"}).Draw(t, "cause"), Fingerprint: "f"},
				}
			} else if m.Said.Hung == nil && rapid.Bool().Draw(t, "hangs") {
				m.Said.Watched, m.Said.HungAt = true, now.Add(time.Duration(m.Said.Generation))
				m.Said.Hung = []link.RankState{{Rank: m.First, State: rapid.SampledFrom([]byte("TSD")).Draw(t, "state")}}
			} else if rapid.Bool().Draw(t, "ends") {
				m.State = engine.StateExited
				m.Exit = rapid.SampledFrom([]*engine.Exit{exit(engine.ReasonSucceeded, 0), exit(engine.ReasonNonZero, 1), exit(engine.ReasonLauncherLost, -1)}).Draw(t, "how")
			}
		case engine.StateExited:
			m.State = engine.StateDone
		}
	}
}

func sortedNames(world map[engine.Name]*gang.Member) []engine.Name {
	var out []engine.Name
	for n := range world {
		out = append(out, n)
	}
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// TestGrace: who has to leave has time to save, unless the task says itself how long it needs, and
// not when it is stopped.
func TestGrace(t *testing.T) {
	for name, c := range map[string]struct {
		own    time.Duration
		evict  bool
		stop   bool
		wanted time.Duration
	}{
		"nothing said":              {0, false, false, 30 * time.Second},
		"leaves":                    {0, true, false, 2 * time.Minute},
		"leaves, default filled in": {30 * time.Second, true, false, 2 * time.Minute},
		"leaves, its own is longer": {time.Hour, true, false, time.Hour},
		"leaves, its own is short":  {time.Second, true, false, time.Second},
		"leaves and is stopped":     {0, true, true, 30 * time.Second},
	} {
		tk, p := task(api.PhaseRunning, 1, 1), placed()
		tk.Spec.Timeouts, tk.Spec.Stop = &api.Timeouts{StopGrace: api.Duration(c.own)}, c.stop
		if c.evict {
			p.Spec.Evict = &api.Eviction{Grace: api.Duration(2 * time.Minute)}
		}
		if got := stopGrace(tk, p); got != c.wanted {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestMovedOn: the placement of a task that moved is whole, and a task read before it is told apart.
func TestMovedOn(t *testing.T) {
	tk := task(api.PhaseRecovering, 2, 1)
	p := moving()
	next := movedOn(p, tk)
	if next.Spec.Evict != nil || next.Spec.Attempt != 2 || next.Spec.Roles[0].Slots[0].Node != 3 || p.Spec.Evict == nil {
		t.Errorf("%+v", next.Spec)
	}
	if s := (&snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: next}}}); s.torn() {
		t.Error("both are of one moment")
	}
	if s := (&snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseRunning, 1, 1), Placement: next}}}); !s.torn() {
		t.Error("the task is older than its placement")
	}
}
