package pods

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/s3/s3test"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// learner is a task on k1 that saves; from is where it begins.
func (w *world) learner(name, pause, from string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), name+".yaml")
	manifest := `kind: TrainingTask
metadata: {name: ` + name + `}
spec:
  zones: {allow: [k1]}
  roles:
    - {name: worker, replicas: 2, ranks: 2, resources: {cpu: 1, memory: 256Mi}, command: [fermi, sample, train, --steps, "600", --step-time, ` + pause + `]}
  restartPolicy: {maxRestarts: 5}
  timeouts: {stopGrace: 1m}
  checkpoint:
    local: {disabled: true}
    shared: {everySteps: 20, keep: {last: 100}}
    ` + from + `
`
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.must("apply", "-f", file)
}

// model is what a task learned.
func (w *world) model(name string) []byte {
	w.t.Helper()
	dir := w.t.TempDir()
	w.must("train", "outputs", name, "--get", dir)
	raw, err := os.ReadFile(filepath.Join(dir, "worker-0", "model.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

// TestCheckpoints: what pods save reaches a bucket of which they have no credentials; a task that lost all its pods goes on from there, and another one
// begins from it, to the very bits of a run that nobody interrupted.
func TestCheckpoints(t *testing.T) {
	id, secret := "AK"+rand.Text(), rand.Text()
	dir, keys := t.TempDir(), filepath.Join(t.TempDir(), "keys.json")
	if err := os.Mkdir(filepath.Join(dir, "ckpt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"accessKeyId":%q,"secretAccessKey":%q}`, id, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w := up(t, "--checkpoints-store", "s3://ckpt/fermi", "--checkpoints-endpoint", s3test.Start(t, dir, id, secret), "--checkpoints-region", s3test.Region, "--checkpoints-credentials-file", keys)
	w.learner("whole", "0s", "")
	w.phase("whole", api.PhaseCompleted)
	want := w.model("whole")

	w.learner("lost", "20ms", "")
	var first int64
	harness.Eventually(t, "a checkpoint in the bucket", func() bool {
		list, err := w.cl.Checkpoints(t.Context(), "default", "lost")
		i := slices.IndexFunc(list, func(c api.Checkpoint) bool { return c.Tiers[0].Tier == "shared" && c.Size > 0 && c.Ranks == 4 })
		if err == nil && i >= 0 {
			first = list[i].Step
		}
		return first > 0
	})
	for _, pod := range w.pods() {
		if bytes.Contains(fmt.Appendf(nil, "%+v", pod), []byte(secret)) {
			t.Error("a pod has the credentials of the bucket")
		}
		if pod.Annotations["fermi.io/task-name"] == "lost" {
			w.s.Must(t, "DELETE", "/api/v1/namespaces/"+w.namespace+"/pods/"+pod.Name, kubetest.Object{"gracePeriodSeconds": 0}, nil)
		}
	}
	harness.Eventually(t, "lost goes on from the bucket", func() bool {
		r := harness.Task(t, w.cl, "lost").Status.Rendezvous
		return r != nil && r.Origin != nil && r.Restore >= first
	})
	w.phase("lost", api.PhaseCompleted)

	w.learner("next", "0s", "from: {task: lost}")
	if got := w.phase("next", api.PhaseCompleted).Status; got.Rendezvous.Origin == nil || got.From == nil {
		t.Errorf("it began at nothing: %+v", got.Rendezvous)
	}
	for _, name := range []string{"lost", "next"} {
		if !bytes.Equal(w.model(name), want) {
			t.Errorf("%s: other weights than without the interruption", name)
		}
	}
	w.must("delete", "task", "whole", "lost", "next")
	w.noPods()
}
