package recovery

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// withSpare gives a task of fixed size spares.
func withSpare(task *api.TrainingTask, spares int) *api.TrainingTask {
	r := &task.Spec.Roles[0]
	r.MinReplicas, r.MaxReplicas, r.Spares = nil, nil, spares
	return task
}

// spare waits until the task trains and its one spare is so, and gives that.
func (w *world) spare(name string, state api.SpareState) api.SpareStatus {
	w.t.Helper()
	var found api.SpareStatus
	w.eventually("a spare that is "+string(state), func() bool {
		s := w.task(name).Status
		if s.Phase.Finished() {
			w.t.Fatalf("%s ended %s: %s %+v", name, s.Phase, s.Message, s.Failure)
		}
		if s.Phase != api.PhaseRunning || len(s.Spares) != 1 || s.Spares[0].State != state {
			return false
		}
		found = s.Spares[0]
		return true
	})
	return found
}

// listed checks that the list of replicas tells the spare from the others, and that it is charged.
func (w *world) listed(tr training, spare api.SpareStatus) {
	w.t.Helper()
	all, err := w.cl.Replicas(w.t.Context(), "default", tr.name)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if (r.Spare == string(spare.State)) != (r.Index == spare.Index) || r.Started == nil || r.Devices != 1 {
			w.t.Errorf("%+v beside spare %+v", r, spare)
		}
	}
}

// stands says that a replica has the ranks of one that was lost.
func (w *world) stands(name string, index int) bool {
	w.t.Helper()
	r := w.task(name).Status.Rendezvous
	return r != nil && slices.ContainsFunc(r.Stead, func(s api.Seat) bool { return s.Index == index })
}

// member is the index of a replica with ranks, counted from the last.
func (w *world) member(tr training, spare int) int {
	w.t.Helper()
	all, err := w.cl.Replicas(w.t.Context(), "default", tr.name)
	if err != nil {
		w.t.Fatal(err)
	}
	last := -1
	for _, r := range all {
		if r.Index != spare && r.State == "Running" {
			last = max(last, r.Index)
		}
	}
	return last
}

// TestSpareTaken: three train and one stands by. A spare that is killed is replaced and nobody hears of it; a
// launcher that is killed is followed by the spare, in the same attempt and with the same bits, also
// where its node takes no work any more.
func TestSpareTaken(t *testing.T) {
	w := elasticWorld(t)
	tr := w.create(withSpare(spirals("guarded", 1_000_000, "10ms", 3, 3), 1))
	w.grows(tr.name, 3, func() int { return w.last(tr) })
	first := w.spare(tr.name, api.SpareReady)
	w.listed(tr, first)
	w.killLauncher(tr, first.Index)
	w.eventually("another spare", func() bool { return w.spare(tr.name, api.SpareReady).Index != first.Index })
	if s := w.task(tr.name).Status; s.Generation != 1 || s.Failure != nil || len(s.Restarts) != 0 {
		t.Fatalf("the spare's end was heard: %+v", s)
	}
	for round := range 2 {
		spare := w.spare(tr.name, api.SpareReady)
		lost := w.member(tr, spare.Index)
		node := w.nodeOf(tr, lost)
		if round == 1 {
			w.verb("cordon", node)
		}
		before := w.task(tr.name).Status.Generation
		w.killLauncher(tr, lost)
		w.eventually("the spare has its place", func() bool {
			s := w.task(tr.name).Status
			return s.Generation > before && s.Phase == api.PhaseRunning && w.stands(tr.name, spare.Index)
		})
		w.grows(tr.name, 3, func() int { return w.last(tr) })
		if round == 1 {
			w.verb("uncordon", node)
		}
		w.spare(tr.name, api.SpareReady)
	}
	w.stop(tr.name)
	w.sameAs(tr.name)
	_, hangs := w.changes(tr.name)
	if s := w.task(tr.name).Status; s.Attempt != 1 || s.Generation != 3+hangs || len(s.Restarts) != 2+hangs || len(s.Spares) != 0 {
		t.Errorf("attempt %d, generation %d, %d restarts, spares %v", s.Attempt, s.Generation, len(s.Restarts), s.Spares)
	}
	w.charged(tr, 7)
}

// TestTorchSpare: real PyTorch; a launcher is killed and the ranks of the next generation are forked from the spare's
// warm interpreter, in the same attempt. It prints how long the next step takes without a spare, with one, and where the
// other rank keeps its process. make e2e-torch runs it.
func TestTorchSpare(t *testing.T) {
	killsWanted(t)
	w := elasticWorld(t)
	for _, c := range []struct {
		name   string
		spares int
		stays  bool
	}{{"none", 0, false}, {"spare", 1, false}, {"stays", 1, true}} {
		task := withSpare(virtual(c.name, 2, 2), c.spares)
		if role := &task.Spec.Roles[0]; c.stays {
			role.Command, role.Env = []string{torchPython, "train_ddp.py"}, []api.EnvVar{{Name: "PARTIAL", Value: "1"}, {Name: "PACE", Value: "0.02"}}
		}
		r := w.torchTask(task, 1_000_000)
		w.steps(r, 0)
		w.eventually("all have a standby", func() bool { return w.inLaunchersLog(r, "standby ready") >= 2+c.spares })
		lost, next := 1, 2
		if c.spares > 0 {
			next = w.spare(c.name, api.SpareWarm).Index
			lost = w.member(r.training, next)
		}
		before := w.task(c.name).Status.Generation
		w.killLauncher(r.training, lost)
		begin := time.Now()
		w.steps(r, before)
		t.Logf("%s: a launcher killed → the next step of all ranks: %s", c.name, time.Since(begin).Round(time.Millisecond))
		if c.spares > 0 {
			w.forked(r, next)
			w.eventually("the recovery is told", func() bool { in := w.task(c.name).Status.Interruptions; return in != nil && in.Recovered > 0 })
			last := w.task(c.name).Status.Interruptions.Newest()
			t.Logf("%s: %d ranks kept their process, %v", c.name, last.Kept, last.Phases())
		}
		w.stop(c.name)
		w.eventually(c.name+" has ended", func() bool { return w.task(c.name).Status.Phase.Finished() })
		if s := w.task(c.name).Status; c.spares > 0 && s.Attempt != 1 {
			t.Errorf("%s: attempt %d", c.name, s.Attempt)
		}
	}
}

// steps waits for a step of both ranks in a generation after this one.
func (w *world) steps(r torchRun, after int) {
	w.t.Helper()
	w.eventually("a step of the next generation", func() bool {
		for rank := range 2 {
			if g, step, _ := r.at(rank); g <= after || step == 0 {
				return false
			}
		}
		return true
	})
}

// forked checks that a replica's ranks were never fresh processes.
func (w *world) forked(r torchRun, index int) {
	w.t.Helper()
	files, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", r.id+"-worker-"+strconv.Itoa(index)+"-*", "launcher.log"))
	for _, file := range files {
		if raw, _ := os.ReadFile(file); bytes.Contains(raw, []byte("ranks forked from the standby")) {
			return
		}
	}
	w.t.Errorf("worker-%d was not forked", index)
}
