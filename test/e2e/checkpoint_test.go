package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// learner is the sample on four ranks of two replicas.
func learner(name, pause string, keep *api.Checkpoints) *api.TrainingTask {
	task := shell(name, 2, "")
	task.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "600", "--step-time", pause}
	task.Spec.Roles[0].Ranks, task.Spec.Checkpoint = 2, keep
	task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	return task
}

// TestCheckpointsOutliveLaunchers kills all launchers with all they hold in memory: the task goes on from what
// its nodes' disks have, or, where those are not used, from the store that all share, and ends with the very bits
// of a run that nobody interrupted.
func TestCheckpointsOutliveLaunchers(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	w.submit(learner("whole", "0s", nil))
	w.phase("whole", api.PhaseCompleted)
	want := w.model("whole")
	often := &api.CheckpointTier{EverySteps: 10}
	off := &api.CheckpointTier{Disabled: true}
	for name, keep := range map[string]*api.Checkpoints{"local": {Local: often, Shared: off}, "shared": {Local: off, Shared: often}} {
		w.submit(learner(name, "10ms", keep))
		first := w.checkpointed(name, name, 0)
		w.killLaunchers(w.task(name))
		back := w.until(name, "back from a checkpoint", func(t *api.TrainingTask) bool {
			return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil
		})
		if o := back.Status.Rendezvous.Origin; o.Step < first || o.TaskID != back.Meta.ID {
			t.Errorf("%s: from %+v, though step %d was there", name, o, first)
		}
		w.phase(name, api.PhaseCompleted)
		contains(t, w.must("logs", name), "goes on after step=")
		if got := w.model(name); !bytes.Equal(got, want) {
			t.Errorf("%s: other weights than without the interruption", name)
		}
		contains(t, w.must("train", "checkpoints", name), "STEP", name)
		w.must("delete", "task", name)
	}
	waitFor(t, "the checkpoints of deleted tasks to go", func() bool {
		left, _ := filepath.Glob(filepath.Join(store, "objects", "task-*", "packs", "*", "*"))
		disks, _ := filepath.Glob(filepath.Join(w.Dir, "checkpoints", "*", "objects", "task-*", "packs", "*", "*"))
		return len(left)+len(disks) == 0
	})
}

// TestACommitOutlivesItsServer kills the server again and again while checkpoints are made: launchers say what
// they wrote to the next one, and what it commits can be restored.
func TestACommitOutlivesItsServer(t *testing.T) {
	w := up(t, "--demo")
	task := learner("steady", "10ms", &api.Checkpoints{Local: &api.CheckpointTier{EverySteps: 1}})
	task.Spec.Roles[0].Command[4] = "3000"
	w.submit(task)
	newest := w.checkpointed("steady", "local", 0)
	for range 3 {
		w.Kill()
		w.start()
		newest = w.checkpointed("steady", "local", newest)
	}
	w.killLaunchers(w.task("steady"))
	back := w.until("steady", "back from a checkpoint", func(t *api.TrainingTask) bool {
		return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil && t.Status.Phase == api.PhaseRunning
	})
	if o := back.Status.Rendezvous.Origin; o.Step < newest {
		t.Errorf("from step %d, though %d was committed", o.Step, newest)
	}
	w.must("train", "stop", "steady")
	w.phase("steady", api.PhaseStopped)
}

// checkpointed waits for a checkpoint in a tier beyond a step, and gives its step.
func (w *world) checkpointed(name, tier string, beyond int64) (step int64) {
	w.t.Helper()
	waitFor(w.t, "a checkpoint of "+name, func() bool {
		list, err := w.api.Checkpoints(w.t.Context(), "default", name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range list {
			if c.Step > beyond && c.Tiers[0].Tier == tier && c.Size > 0 && c.Ranks == 4 {
				step = c.Step
			}
		}
		return step > 0
	})
	return step
}

// killLaunchers kills what is beside a task's replicas; what their ranks hold in memory goes too.
func (w *world) killLaunchers(task *api.TrainingTask) {
	w.t.Helper()
	found := w.launchers(task)
	if len(found) == 0 {
		w.t.Fatal("no launcher lives")
	}
	for name, pid := range found {
		if err := errors.Join(syscall.Kill(pid, syscall.SIGKILL), os.RemoveAll(record.SharedMemory(engine.Name(name)))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// model is what a task learned.
func (w *world) model(name string) []byte {
	w.t.Helper()
	var found client.Output
	waitFor(w.t, "a model of "+name, func() bool {
		outs, err := w.api.Outputs(w.t.Context(), "default", name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range outs {
			if strings.HasSuffix(o.Path, "worker-0/model.json") {
				found = o
			}
		}
		return found.Path != ""
	})
	return w.output(name, found)
}

func (w *world) output(name string, o client.Output) []byte {
	w.t.Helper()
	dir := w.t.TempDir()
	w.must("train", "outputs", name, "--get", dir)
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(o.Path)))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}
