package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestCheckpointsInABucket: the server's store is a bucket. A task that lost its launchers with their memory goes on from it,
// and a new one with another number of ranks begins from it, to the very bits of a run that nobody interrupted.
func TestCheckpointsInABucket(t *testing.T) {
	id, secret := "AK"+rand.Text(), rand.Text()
	dir := t.TempDir()
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.Mkdir(filepath.Join(dir, "ckpt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"accessKeyId":%q,"secretAccessKey":%q}`, id, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w := up(t, "--demo", "--checkpoints-store", "s3://ckpt/fermi", "--checkpoints-endpoint", s3test.Start(t, dir, id, secret),
		"--checkpoints-region", s3test.Region, "--checkpoints-credentials-file", keys)
	work := func(name, pause string, keep *api.Checkpoints) *api.TrainingTask {
		task := learner(name, pause, keep)
		task.Spec.Roles[0].Command = append(task.Spec.Roles[0].Command, "--shards", "4")
		return task
	}
	w.submit(work("whole", "0s", nil))
	w.phase("whole", api.PhaseCompleted)
	want := w.model("whole")
	w.submit(work("lost", "20ms", &api.Checkpoints{
		Local: &api.CheckpointTier{Disabled: true}, Shared: &api.CheckpointTier{EverySteps: 20, Keep: &api.CheckpointKeep{Last: 100}},
	}))
	first := w.checkpointed("lost", "shared", 0)
	w.killLaunchers(w.task("lost"))
	w.until("lost", "back from the bucket", func(t *api.TrainingTask) bool {
		return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil && t.Status.Rendezvous.Restore >= first
	})
	w.phase("lost", api.PhaseCompleted)
	w.storedOnce(w.checkpoints("lost"), filepath.Join(dir, "ckpt", "fermi", w.task("lost").Meta.ID, "packs", "*", "*"))
	next := work("next", "0s", &api.Checkpoints{From: &api.CheckpointFrom{Task: "lost"}})
	next.Spec.Roles[0].Ranks = 1
	w.submit(next)
	if got := w.phase("next", api.PhaseCompleted).Status.Rendezvous; got.Origin == nil || got.World != 2 {
		t.Errorf("it began from %+v", got)
	}
	for _, name := range []string{"lost", "next"} {
		if !bytes.Equal(w.model(name), want) {
			t.Errorf("%s: other weights than without the interruption", name)
		}
	}
	w.must("delete", "task", "whole", "lost", "next") // those that completed left their last step
	harness.Eventually(t, "the checkpoints of deleted tasks to go", func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "ckpt", "fermi", "task-*", "packs", "*", "*"))
		return len(left) == 0
	})
}
