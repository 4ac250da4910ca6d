package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

const (
	torchPython = "/usr/bin/python3"
	torchRanks  = 4
	killsARun   = 10
)

// torchRun is a training of the SDK's own DDP script, in a folder that its project may write.
type torchRun struct {
	training
	dir string
}

func (w *world) torch(name string, steps int, env ...api.EnvVar) torchRun {
	w.t.Helper()
	return w.torchTask(&api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 1000},
			Roles: []api.Role{{
				Name: "worker", Ranks: torchRanks, Resources: api.Resources{CPU: 1000, Memory: 4 << 30}, Standby: &api.Standby{Preload: []string{"torch"}},
				Command: []string{torchPython, "train_ddp.py"}, Env: env,
			}},
		},
	}, steps)
}

// torchTask submits a task with the SDK's scripts as its code.
func (w *world) torchTask(task *api.TrainingTask, steps int) torchRun {
	w.t.Helper()
	dir, err := harness.Folder(w.t), error(nil)
	for _, name := range []string{"train_ddp.py", "train_virtual.py", "train_unchanged.py"} {
		script, missing := os.ReadFile("../../sdk/python/tests/" + name)
		err = errors.Join(err, missing, os.WriteFile(filepath.Join(dir, name), script, 0o644))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	task.Spec.Code = &api.Code{Folder: dir}
	task.Spec.Roles[0].Env = append(task.Spec.Roles[0].Env, []api.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}, {Name: "STEPS", Value: strconv.Itoa(steps)}, {Name: "OUT", Value: "out"}, {Name: "TRACE", Value: "trace"}}...)
	return torchRun{w.create(task), dir}
}

// at is where a rank is: its generation, step and own pid; zero before its first step.
func (r torchRun) at(rank int) (generation, step, pid int) {
	raw, _ := os.ReadFile(filepath.Join(r.dir, "trace."+strconv.Itoa(rank)))
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	_, _ = fmt.Sscanf(string(raw[bytes.LastIndexByte(raw, '\n')+1:]), "%d %d %d", &generation, &step, &pid)
	return generation, step, pid
}

// interruptTorch kills a rank once it is so many steps into a generation after this one; it gives the
// generation that it killed. false: the training has ended.
func (w *world) interruptTorch(r torchRun, rank, after, steps int) (killed int, ok bool) {
	w.t.Helper()
	var first, pid int
	w.eventually(fmt.Sprintf("%d steps of generation %d", steps, after+1), func() bool {
		g, step, p := r.at(rank)
		if g > after && (g != killed || first == 0) {
			killed, first = g, step
		}
		pid = p
		return killed > after && step >= first+steps || w.task(r.name).Status.Phase.Finished()
	})
	outer, err := harness.ProcessInside("FERMI_TASK_ID="+r.id, pid)
	return killed, err == nil && syscall.Kill(outer, syscall.SIGKILL) == nil
}

// digests waits for the end and gives every rank's: weights, optimizer, random numbers and next samples.
func (w *world) digests(r torchRun) string {
	w.t.Helper()
	return w.digestsIn(r, 1)
}

// digestsIn is digests of a run that ends in another attempt.
func (w *world) digestsIn(r torchRun, attempt int) string {
	w.t.Helper()
	w.eventually(r.name+" has ended", func() bool { return w.task(r.name).Status.Phase.Finished() })
	if s := w.task(r.name).Status; s.Phase == api.PhaseFailed || s.Attempt != attempt {
		w.t.Fatalf("%s ended %s in attempt %d: %s %+v", r.name, s.Phase, s.Attempt, s.Message, s.Failure)
	}
	var all strings.Builder
	for rank := range torchRanks {
		raw, err := os.ReadFile(filepath.Join(r.dir, "out."+strconv.Itoa(rank)))
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&all, "%d %s", rank, raw)
	}
	return all.String()
}

// killsWanted is how many ranks of real PyTorch are to be killed.
func killsWanted(t *testing.T) int {
	t.Helper()
	kills := harness.EnvInt("FERMI_KILLS", 0)
	if kills == 0 {
		t.Skip("FERMI_KILLS is not set; make e2e-torch sets it")
	}
	return kills
}

// TestTorchKilled: real PyTorch under a real server; FERMI_KILLS ranks are killed at random moments, and
// every run ends with the bits of the one that was not interrupted. make e2e-torch runs it.
func TestTorchKilled(t *testing.T) {
	kills := killsWanted(t)
	seed := uint64(harness.EnvInt("FERMI_RECOVERY_SEED", 1))
	rnd := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t)
	steps := 40 + 8*min(kills, killsARun)
	want := w.digests(w.torch("whole", steps))
	done := 0
	for run := 0; done < kills; run++ {
		r := w.torch(fmt.Sprintf("cut-%d", run), steps)
		generation, here := 0, 0
		for here < killsARun && done+here < kills {
			g, ok := w.interruptTorch(r, rnd.IntN(torchRanks), generation, rnd.IntN(6))
			if !ok {
				break
			}
			generation = g
			here++
		}
		if here == 0 {
			t.Fatalf("%s ended before a rank could be killed", r.name)
		}
		if got := w.digests(r); got != want {
			t.Fatalf("seed %d: after %d kills\n%sinstead of\n%s", seed, here, got, want)
		}
		done += here
		t.Logf("%d kills, the same bits in generation %d", done, w.task(r.name).Status.Generation)
	}
}
