package e2e

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestACheckpointOfANewerFermi: lists show it and what is wrong with it, nobody begins from it, and a task that has nothing
// newer waits instead of beginning from something older, until a person says so. A torn one is shown and refused too.
func TestACheckpointOfANewerFermi(t *testing.T) {
	store := t.TempDir()
	w := up(t, "--demo", "--checkpoints-store", store)
	task := learner("ahead", "20ms", &api.Checkpoints{
		Local: &api.CheckpointTier{Disabled: true}, Shared: &api.CheckpointTier{EverySteps: 20, Keep: &api.CheckpointKeep{Last: 100}},
	})
	w.submit(task)
	w.checkpointed("ahead", "shared", w.checkpointed("ahead", "shared", w.checkpointed("ahead", "shared", 0)))
	lost := w.task("ahead")
	w.Kill()
	w.killLaunchers(lost)
	manifests, err := filepath.Glob(filepath.Join(store, "objects", lost.Meta.ID, "manifests", "*"))
	if err != nil || len(manifests) < 3 {
		t.Fatal(manifests, err)
	}
	slices.Sort(manifests)
	n := len(manifests)
	torn, newer, old := stepOf(t, manifests[n-1]), stepOf(t, manifests[n-2]), stepOf(t, manifests[n-3])
	rewrite(t, manifests[n-1], func(raw []byte) []byte { return raw[:len(raw)/2] })
	rewrite(t, manifests[n-2], func(raw []byte) []byte {
		body, _, _ := bytes.Cut(raw, []byte("\n"))
		body = bytes.Replace(body, []byte(`"version":1`), []byte(`"version":9`), 1)
		sum := blake3.Sum256(body)
		return append(body, "\n"+hex.EncodeToString(sum[:])+"\n"...)
	})
	w.start()
	w.until("ahead", "held up by what a newer Fermi wrote", func(t *api.TrainingTask) bool { return t.Status.Reason == "CheckpointNewer" })
	if r := w.task("ahead").Status.Rendezvous; r != nil && r.Origin != nil {
		t.Errorf("it began from %+v", r.Origin)
	}
	contains(t, w.must("events", "task/ahead"), "CheckpointNewer", "format 9 is newer")
	shown := w.fermi("train", "checkpoints", "ahead")
	contains(t, shown.out, torn, newer, "damaged")
	contains(t, shown.err, "Step "+newer+": Its format 9 is newer than this Fermi reads (up to 1).", "Step "+torn+": The checkpoint is damaged: a manifest is torn.")
	for step, why := range map[string]string{newer: "format 9", torn: "torn"} {
		if r := w.fermi("train", "restore", "ahead", "--step", step, "--stop"); r.code == 0 || !strings.Contains(r.err, why) {
			t.Errorf("restore of step %s: %d %s", step, r.code, r.err)
		}
		if r := w.fermi("train", "run", "--from", "ahead@"+step, "--", "true"); r.code == 0 || !strings.Contains(r.err, why) {
			t.Errorf("--from step %s: %d %s", step, r.code, r.err)
		}
	}
	w.must("train", "restore", "ahead", "--step", old, "--stop")
	w.phase("ahead", api.PhaseCompleted)
	contains(t, w.must("logs", "ahead"), "goes on after step="+old)
}

func stepOf(t *testing.T, manifest string) string {
	t.Helper()
	_, step, _ := strings.Cut(filepath.Base(manifest), "-")
	n, err := strconv.ParseInt(step, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(n, 10)
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(raw), 0o600); err != nil {
		t.Fatal(err)
	}
}
