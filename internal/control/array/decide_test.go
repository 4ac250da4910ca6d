package array

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/array"
)

// world plays an array through turns: what a plan says is done, and tasks end as the test says.
type world struct {
	array *kind.TaskArray
	tasks map[int]*api.TrainingTask
	past  map[int]api.Phase
	made  map[int]int
	room  int
	now   time.Time
	gone  bool
}

func newWorld(indexes string, atOnce int) *world {
	a := &kind.TaskArray{Meta: api.Meta{ID: "arr-1", Name: "sweep", Project: "lab"}, Spec: kind.TaskArraySpec{Indexes: indexes, AtOnce: atOnce, TrainingTaskSpec: api.TrainingTaskSpec{Roles: []api.Role{{Command: []string{"true"}}}}}}
	a.Status.Phase = api.PhaseRunning
	return &world{array: a, tasks: map[int]*api.TrainingTask{}, past: map[int]api.Phase{}, made: map[int]int{}, room: 1000, now: time.Unix(1000, 0).UTC()}
}

func (w *world) see() *seen {
	s := &seen{array: w.array, taken: map[int]bool{}, room: w.room - len(w.tasks)}
	for _, i := range living(w.array) {
		m := member{index: i, task: w.tasks[i], phase: w.past[i]}
		if m.task != nil {
			m.phase = m.task.Status.Phase
		}
		s.members = append(s.members, m)
	}
	for _, i := range next(w.array) {
		s.taken[i] = w.tasks[i] != nil
	}
	return s
}

// turn decides and carries out until nothing changes any more.
func (w *world) turn(t interface{ Fatalf(string, ...any) }) {
	for n := 0; !w.gone; n++ {
		before := w.array.Status
		p := decide(w.see(), w.now)
		if n > 2000 {
			t.Fatalf("no rest: %+v", p)
		}
		for _, task := range p.stop {
			task.Spec.Stop = true
		}
		for _, i := range p.make {
			w.made[i]++
			w.tasks[i] = &api.TrainingTask{Meta: api.Meta{Name: w.array.TaskName(i), Labels: map[string]string{kind.Label: "sweep"}}, Status: api.TrainingTaskStatus{Phase: api.PhasePending}}
		}
		w.array.Status, w.gone = p.status, p.erase
		if len(p.make)+len(p.stop) == 0 && p.status == before {
			return
		}
	}
}

func (w *world) count(phase api.Phase) (n int) {
	for _, t := range w.tasks {
		if t.Status.Phase == phase {
			n++
		}
	}
	return n
}

// TestAtOnce: so many exist at once, the others follow, and the end says how it went.
func TestAtOnce(t *testing.T) {
	w := newWorld("1-7", 3)
	w.turn(t)
	if len(w.tasks) != 3 || w.array.Status.Reason != "AtOnce" || w.array.Status.Count != (kind.ArrayCount{Total: 7, Held: 4, Pending: 3}) {
		t.Fatalf("%d tasks, %+v", len(w.tasks), w.array.Status)
	}
	w.tasks[2].Status.Phase = api.PhaseFailed
	w.turn(t)
	if w.tasks[4] == nil || w.tasks[5] != nil || w.array.Status.Ended.Failed != "2" {
		t.Fatalf("after one ended: %+v", w.array.Status)
	}
	delete(w.tasks, 1) // somebody deleted it
	w.past[3] = api.PhaseCompleted
	delete(w.tasks, 3) // it was archived while nobody looked
	w.turn(t)
	for _, task := range w.tasks {
		if !task.Status.Phase.Finished() {
			task.Status.Phase = api.PhaseCompleted
		}
	}
	w.turn(t)
	w.tasks[7].Status.Phase = api.PhaseCompleted
	w.turn(t)
	st := w.array.Status
	if st.Phase != api.PhaseFailed || st.Ended != (kind.ArrayEnded{Completed: "3-7", Failed: "2", Stopped: "1"}) || st.FinishedAt == nil || st.Message.ZH == "" {
		t.Fatalf("%+v", st)
	}
}

// TestStop: none is begun any more, those that run are told, and the array ends behind them.
func TestStop(t *testing.T) {
	w := newWorld("1-10", 2)
	w.turn(t)
	w.array.Spec.Stop = true
	w.turn(t)
	if len(w.tasks) != 2 || !w.tasks[1].Spec.Stop || !w.tasks[2].Spec.Stop || w.array.Status.Reason != "Stopping" {
		t.Fatalf("%d tasks, %+v", len(w.tasks), w.array.Status)
	}
	w.tasks[1].Status.Phase, w.tasks[2].Status.Phase = api.PhaseStopped, api.PhaseCompleted
	w.turn(t)
	if st := w.array.Status; st.Phase != api.PhaseStopped || st.Ended != (kind.ArrayEnded{Completed: "2", Stopped: "1,3-10"}) {
		t.Fatalf("%+v", st)
	}
	at := w.now
	w.array.Meta.DeletedAt = &at
	w.turn(t)
	if !w.gone {
		t.Error("it is still there")
	}
}

// TestTaken: a name that somebody else's task has costs its index, not the array.
func TestTaken(t *testing.T) {
	w := newWorld("1-3", 0)
	w.tasks[2] = &api.TrainingTask{}
	w.turn(t)
	if w.made[2] != 0 || w.made[3] != 1 || w.array.Status.Ended.Failed != "2" {
		t.Fatalf("%+v", w.array.Status)
	}
}

// TestProjectFull: an array waits for room in its project.
func TestProjectFull(t *testing.T) {
	w := newWorld("1-5", 0)
	w.room = 2
	w.turn(t)
	if len(w.tasks) != 2 || w.array.Status.Reason != "ProjectFull" {
		t.Fatalf("%d %+v", len(w.tasks), w.array.Status)
	}
}

// TestEachOnce: whatever happens, an index has one task, the bounds hold, and it comes to its end.
func TestEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 120).Draw(t, "indexes")
		w := newWorld("1-"+kind.Format([]int{total}), rapid.IntRange(0, 60).Draw(t, "at once"))
		for step := 0; !w.array.Status.Phase.Finished(); step++ {
			w.turn(t)
			alive := w.count(api.PhasePending) + w.count(api.PhaseRunning)
			if most := w.array.Spec.AtOnce; most > 0 && alive > most || w.count(api.PhasePending) > Ahead {
				t.Fatalf("%d exist, %d wait", alive, w.count(api.PhasePending))
			}
			if c := w.array.Status.Count; c.Held+c.Pending+c.Running+c.Completed+c.Failed+c.Stopped != total {
				t.Fatalf("%+v is not %d", c, total)
			}
			if step > 2000 {
				t.Fatalf("no end: %+v", w.array.Status)
			}
			if step == 15 && rapid.Bool().Draw(t, "stop") {
				w.array.Spec.Stop = true
			}
			for _, i := range living(w.array) {
				task := w.tasks[i]
				if task == nil {
					continue
				}
				switch rapid.SampledFrom([]string{"runs", "ends", "fails", "is deleted", "stays"}).Draw(t, "happens") {
				case "runs":
					task.Status.Phase = api.PhaseRunning
				case "ends":
					task.Status.Phase = api.PhaseCompleted
				case "fails":
					task.Status.Phase = api.PhaseFailed
				case "is deleted":
					delete(w.tasks, i)
				}
				if task.Spec.Stop {
					task.Status.Phase = api.PhaseStopped
				}
			}
		}
		for i, n := range w.made {
			if n != 1 {
				t.Fatalf("index %d had %d tasks", i, n)
			}
		}
		e := endedOf(&w.array.Status)
		all := slices.Concat(e[api.PhaseCompleted], e[api.PhaseFailed], e[api.PhaseStopped])
		slices.Sort(all)
		if len(all) != total || len(slices.Compact(all)) != total {
			t.Fatalf("%d of %d have ended", len(all), total)
		}
	})
}
