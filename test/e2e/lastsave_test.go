package e2e

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestTheLastStepOutlivesItsTask: what was saved last is persisted though it was not due, at the end of a task
// that completed and of one that was stopped, on every tier.
func TestTheLastStepOutlivesItsTask(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	seldom := &api.CheckpointTier{Every: api.Duration(24 * time.Hour)}
	keep := &api.Checkpoints{Local: seldom, Shared: seldom}
	through := learner("through", "10ms", keep)
	through.Spec.Roles[0].Command[4] = "50"
	w.submit(through)
	w.phase("through", api.PhaseCompleted)
	w.lastSaved("through")

	w.submit(learner("halted", "10ms", keep))
	w.until("halted", "steps", func(t *api.TrainingTask) bool { return t.Status.Use != nil && t.Status.Use.Saves > 8 })
	w.must("train", "stop", "halted")
	w.phase("halted", api.PhaseStopped)
	w.lastSaved("halted")
}

// lastSaved wants one checkpoint of a task, in both tiers, and an event of it.
func (w *world) lastSaved(name string) {
	w.t.Helper()
	list, err := w.api.Checkpoints(w.t.Context(), "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(list) != 1 || list[0].Step < 1 || len(list[0].Tiers) != 2 {
		w.t.Errorf("%s: %+v\n%s", name, list, w.must("events", "task/"+name))
	}
	harness.Eventually(w.t, "an event of the last save", func() bool {
		return strings.Contains(w.must("events", "task/"+name), "LastStepSaved")
	})
}

// waiting saves with wait, in a tier that there is and in one that there is not.
const waiting = `
import fermi
fermi.init()
for step in range(1, 8):
    assert fermi.checkpoint.save(step, {"rank": fermi.rank(), "step": step}, wait=True)
print("committed", flush=True)
try:
    fermi.checkpoint.save(8, {"rank": fermi.rank(), "step": 8}, wait="shared")
except fermi.checkpoint.NotCommitted as err:
    print("refused:", err, flush=True)
`

// TestASaveThatWaits: all ranks of two replicas wait for every one of their saves, more of them than there are
// slots; each is a checkpoint when they go on, though none was due.
func TestASaveThatWaits(t *testing.T) {
	w := up(t, "--demo")
	task := shell("waits", 2, "")
	task.Spec.Roles[0].Command, task.Spec.Roles[0].Ranks = []string{"python3", "-c", waiting}, 2
	task.Spec.Checkpoint = &api.Checkpoints{Local: &api.CheckpointTier{Keep: &api.CheckpointKeep{Last: 100}}}
	task.Spec.Timeouts = patientEnd()
	w.submit(task)
	w.phase("waits", api.PhaseCompleted)
	list, err := w.api.Checkpoints(t.Context(), "default", "waits")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 7 || list[6].Ranks != 4 {
		t.Errorf("%+v", list)
	}
	contains(t, w.must("logs", "waits"), "committed", "refused: step 8: This task has no checkpoints in the tier shared")
}
