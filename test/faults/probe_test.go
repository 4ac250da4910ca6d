package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// long is more steps than any of these tests waits for.
const long = 1_000_000

// torch starts scripts/train.py with four ranks, of Debian's PyTorch.
func (w *world) torch(name string, steps int, env ...api.EnvVar) {
	w.t.Helper()
	if _, err := w.cl.Submit(w.t.Context(), &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 5}, Code: &api.Code{Folder: w.folder("train.py")},
			Roles: []api.Role{{
				Name: "worker", Ranks: 4, Resources: api.Resources{CPU: 1000, Memory: 2 << 30}, Standby: &api.Standby{Disabled: true},
				Command: []string{"/usr/bin/python3", "train.py"},
				Env:     append(env, api.EnvVar{Name: "OMP_NUM_THREADS", Value: "1"}, api.EnvVar{Name: "STEPS", Value: strconv.Itoa(steps)}),
			}},
		},
	}, false); err != nil {
		w.t.Fatal(err)
	}
}

// sample starts the ring of `fermi sample train`: two replicas with two ranks each.
func (w *world) sample(name string, steps int) {
	w.submit(name, 5, "fermi", "sample", "train", "--steps", strconv.Itoa(steps), "--step-time", "20ms")
}

// rank is the process of a running rank.
func (w *world) rank(name string, rank int) (p record.Process) {
	w.t.Helper()
	id := w.task(name).Meta.ID
	harness.Eventually(w.t, fmt.Sprintf("a process of rank %d of %s", rank, name), func() bool {
		for _, pid := range harness.Processes("FERMI_TASK_ID="+id, "RANK="+strconv.Itoa(rank)) {
			var err error
			if p, err = record.Describe(pid); err == nil {
				return true
			}
		}
		return false
	})
	return p
}

// paused waits until a process is seen stopped, or running.
func (w *world) paused(p record.Process, want bool) {
	w.t.Helper()
	harness.Eventually(w.t, fmt.Sprintf("process %d stopped: %v", p.PID, want), func() bool {
		st, err := record.ReadStat(p.PID)
		return err == nil && (st.State == 'T') == want
	})
}

// done waits for a good end and gives it.
func (w *world) done(name string) api.TrainingTaskStatus {
	w.t.Helper()
	st := w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() }).Status
	if st.Phase != api.PhaseCompleted {
		w.t.Errorf("%s ended %s: %s %+v", name, st.Phase, st.Message, st.Failure)
	}
	return st
}

func (w *world) hurtRank(name string, rank int, kind string) {
	w.t.Helper()
	if _, err := w.cl.Fault(w.t.Context(), "default", name, rank, kind); err != nil {
		w.t.Fatal(name, err)
	}
}

// goesOn waits until a training makes steps again, and more than it had made; then it stops it. It gives how
// the task was before that.
func (w *world) goesOn(name string) api.TrainingTaskStatus {
	w.t.Helper()
	from := w.step(name)
	st := w.until(name, "goes on", func(t *api.TrainingTask) bool {
		return t.Status.Phase.Finished() || t.Status.Phase == api.PhaseRunning && w.step(name) >= from+20
	}).Status
	if st.Phase.Finished() {
		w.t.Errorf("%s ended %s: %s %+v", name, st.Phase, st.Message, st.Failure)
	} else if err := w.cl.Stop(w.t.Context(), "default", name); err != nil {
		w.t.Error(err)
	}
	w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
	return st
}

// trainings are the two ways to train that are hurt.
func (w *world) trainings() map[string]func(name string) {
	return map[string]func(string){
		"ring": func(name string) { w.sample(name, long) },
		"ddp":  func(name string) { w.torch(name, long) },
	}
}

// TestSlow: a rank that is made slow goes on, slowly; nobody takes it for stopped, and nothing starts again.
func TestSlow(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	for name, begin := range w.trainings() {
		begin(name)
		w.steps(name)
		p := w.rank(name, 1)
		w.hurtRank(name, 1, "slow")
		for range 3 {
			w.paused(p, true)
			w.paused(p, false)
		}
		if st := w.goesOn(name); st.Generation != 1 || st.Attempt != 1 || st.Failure != nil {
			t.Errorf("%s: generation %d, attempt %d, %+v", name, st.Generation, st.Attempt, st.Failure)
		}
	}
}

// TestSlowAndLost: where the launcher is killed while its slow rank is stopped, that rank is gone with it.
func TestSlowAndLost(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	w.sample("ring", long)
	w.steps("ring")
	p := w.rank("ring", 1)
	w.hurtRank("ring", 1, "slow")
	w.paused(p, true)
	w.hurtRank("ring", 0, "node") // of the same launcher
	next := w.until("ring", "its next attempt", func(t *api.TrainingTask) bool { return t.Status.Attempt > 1 })
	if f := next.Status.Failure; f == nil || f.Cause != "launcher-killed" {
		t.Errorf("%+v", f)
	}
	if p.Alive() {
		t.Errorf("process %d is left behind", p.PID)
	}
	w.goesOn("ring")
}

// TestOutOfMemory: the kernel kills the rank; cause and advice are those of a limit, and the training goes
// on. On a node of the demo, which limits nobody, the whole machine would run out; that is refused, as is to
// cut the connections of one that has none.
func TestOutOfMemory(t *testing.T) {
	asked(t)
	demo := newWorld(t, "--demo")
	demo.submit("free", 0, "sleep", "1000")
	demo.until("free", "runs", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning })
	for _, kind := range []string{"oom", "net"} {
		if _, err := demo.cl.Fault(t.Context(), "default", "free", 0, kind); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if s := cgroup.Detect(); !s.Limited("memory") {
		t.Skipf("no memory limits here: %s", s.Reason.EN)
	}
	w := newWorld(t)
	for name, begin := range w.trainings() {
		begin(name)
		w.steps(name)
		w.hurtRank(name, 1, "oom")
		f := w.until(name, "failed", func(t *api.TrainingTask) bool { return t.Status.Failure != nil || t.Status.Phase.Finished() }).Status.Failure
		if f == nil || f.Cause != "memory-limit" || f.Action != "restart" || f.Rank == nil || *f.Rank != 1 || !strings.Contains(f.Advice.EN, "resources.memory") {
			t.Errorf("%s: %+v", name, f)
		}
		if st := w.goesOn(name); st.Attempt != 1 || st.Generation < 2 {
			t.Errorf("%s: attempt %d, generation %d", name, st.Attempt, st.Generation)
		}
	}
}

// TestSevered: a rank whose connections are cut goes on with the others, in the next generation; what is said of
// it is the network, and nobody is told to leave a node.
func TestSevered(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	for name, begin := range w.trainings() {
		begin(name)
		w.steps(name)
		w.hurtRank(name, 1, "net")
		f := w.until(name, "failed", func(t *api.TrainingTask) bool { return t.Status.Failure != nil || t.Status.Phase.Finished() }).Status.Failure
		if f == nil || f.Cause != "peer-lost" || f.Action != "restart" {
			t.Errorf("%s: %+v", name, f)
		}
		if st := w.goesOn(name); st.Attempt != 1 || st.Generation < 2 {
			t.Errorf("%s: attempt %d, generation %d", name, st.Attempt, st.Generation)
		}
	}
}

// TestProfile: the stacks of a Python rank with the SDK; of any other what the kernel knows, and no signal
// that would end it.
func TestProfile(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	w.torch("ddp", long)
	w.submit("plain", 0, "sleep", "1000")
	w.until("plain", "runs", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning })
	w.steps("ddp")
	harness.Eventually(t, "the stacks of rank 2", func() bool { // a busy machine may be too slow for the launcher's patience
		p := w.profile("ddp", 2)
		missing := func(want string) bool { return !strings.Contains(p, want) }
		return !slices.ContainsFunc([]string{"rank 2 pid", "(most recent call first)", `train.py", line `, "in main"}, missing)
	})
	before := w.rank("plain", 3)
	if p := w.profile("plain", 3); !strings.Contains(p, "rank 3 pid "+strconv.Itoa(before.PID)+" state S") || !strings.Contains(p, "system call") || strings.Contains(p, "most recent") {
		t.Errorf("%s", p)
	}
	if !before.Alive() {
		t.Error("to be looked at was its end")
	}
}

func (w *world) profile(name string, rank int) string {
	w.t.Helper()
	p, err := w.cl.Profile(w.t.Context(), "default", name, rank)
	if err != nil {
		w.t.Fatal(name, err)
	}
	return p.Text
}

// TestHang: a rank that falls asleep while the others wait in their collective is named, its stack is in the
// log, and the training goes on; one that evaluates and saves for long is left alone.
func TestHang(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	w.torch("hangs", 60, api.EnvVar{Name: "HANGS", Value: "1"})
	f := w.until("hangs", "found", func(t *api.TrainingTask) bool { return t.Status.Failure != nil || t.Status.Phase.Finished() }).Status.Failure
	if f == nil || f.Cause != "hang" || f.Rank == nil || *f.Rank != 1 || f.Step != 20 {
		t.Errorf("%+v", f)
	}
	if st := w.done("hangs"); st.Attempt != 1 || st.Generation != 2 {
		t.Errorf("attempt %d, generation %d", st.Attempt, st.Generation)
	}
	log := w.log("hangs")
	for _, want := range []string{"in asleep", "rank 1: system call", "rank 1: kernel stack:"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q:\n%s", want, log)
		}
	}
	_, after, _ := strings.Cut(log, "rank 1: ")
	said, _, _ := strings.Cut(after, "\n")
	t.Log(said)
	w.torch("pauses", 40, api.EnvVar{Name: "PAUSE", Value: "8"}, api.EnvVar{Name: "BREAK", Value: "0.2"})
	if st := w.done("pauses"); st.Generation != 1 || st.Failure != nil || len(st.Stragglers) > 0 {
		t.Errorf("generation %d, %+v, %+v", st.Generation, st.Failure, st.Stragglers)
	}
}

func (w *world) log(name string) string {
	w.t.Helper()
	var b strings.Builder
	if err := w.cl.Logs(w.t.Context(), "default", name, client.LogOptions{}, func(l client.LogLine) error {
		b.WriteString(l.Text + "\n")
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}
