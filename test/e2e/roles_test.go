package e2e

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// TestCheckpointsBesideARoleOfItsOwn: what the roles that restart with a task save is kept on disk though another, which
// saves too, restarts by itself: their launchers are lost, they go on from there to the very bits, and the other is left alone.
func TestCheckpointsBesideARoleOfItsOwn(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	w.submit(learner("whole", "0s", nil))
	w.phase("whole", api.PhaseCompleted)

	often := &api.CheckpointTier{EverySteps: 40, Keep: &api.CheckpointKeep{Last: 100}}
	task := learner("both", "10ms", &api.Checkpoints{Local: often, Shared: &api.CheckpointTier{Disabled: true}})
	own := task.Spec.Roles[0]
	own.Name, own.Replicas, own.Ranks, own.Restart = "reward", 1, 3, api.RestartRole
	task.Spec.Roles = append(task.Spec.Roles, own)
	w.submit(task)
	first := w.checkpointed("both", "local", 0)
	for name, pid := range w.launchers(w.task("both")) {
		if strings.Contains(name, "-reward-") {
			continue
		}
		signal(t, pid, syscall.SIGKILL)
		if err := os.RemoveAll(record.SharedMemory(engine.Name(name))); err != nil {
			t.Fatal(err)
		}
	}
	back := w.until("both", "back from a checkpoint", func(t *api.TrainingTask) bool {
		return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil
	})
	role := back.Status.Role("reward")
	if o := back.Status.Rendezvous.Origin; o.Step < first || role == nil || role.Attempt != 1 || role.Rendezvous != nil && role.Rendezvous.Origin != nil {
		t.Errorf("from %+v, though step %d was there; the other role: %+v", o, first, role)
	}
	w.phase("both", api.PhaseCompleted)
	if !bytes.Equal(w.model("both"), w.model("whole")) {
		t.Error("it did not learn what it learns undisturbed")
	}
	list, err := w.api.Checkpoints(t.Context(), "default", "both")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, c := range list {
		if c.Ranks != 4 {
			t.Errorf("not of the four ranks that restart together: %+v", c)
		}
	}
}
