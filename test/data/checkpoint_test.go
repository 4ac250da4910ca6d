package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// saver reads a data set and saves a model of its own, in a folder for each step.
const saver = `
kind: TrainingTask
metadata: {name: saver}
spec:
  datasets: [{name: points}]
  checkpoint: {folder: ckpt}
  roles:
  - {replicas: 1, resources: {cpu: 100m, memory: 256Mi}, command: [sh, -ec, "fermi sample train --steps 50; mkdir -p ckpt step-50; cp $FERMI_OUTPUT/model.json step-50/; mv step-50 ckpt/; sleep 2"]}
---
kind: TrainingTask
metadata: {name: ranks}
spec:
  checkpoint: {local: {disabled: true}, shared: {everySteps: 20}}
  roles:
  - {replicas: 1, ranks: 2, resources: {cpu: 100m, memory: 256Mi}, command: [fermi, sample, train, --steps, "60", --step-time, 20ms]}
`

// TestModelOfCheckpoint: a version of a model is made of a checkpoint, of files as they are and of ranks' states a slot each; it says of which task
// and step, what that task read knows of it, and a service answers with it.
func TestModelOfCheckpoint(t *testing.T) {
	w := newWorld(t, "--checkpoints-store", t.TempDir())
	w.points(3, 100)
	wish := filepath.Join(t.TempDir(), "tasks.yaml")
	w.must(os.WriteFile(wish, []byte(saver), 0o600))
	w.fermi("apply", "-f", wish)
	saved := func(task string) (steps []int64) {
		var list struct{ Items []api.Checkpoint }
		w.get("training-tasks/"+task+"/checkpoints?project=lab", &list)
		for _, c := range list.Items {
			if c.In("shared") {
				steps = append(steps, c.Step)
			}
		}
		return steps
	}
	for _, task := range []string{"saver", "ranks"} {
		w.until(task+" completes", func() bool { return w.task(task).Status.Phase.Finished() && len(saved(task)) > 0 })
	}
	if out := w.fermi("model", "create", "net", "--checkpoint", "saver@50", "-m", "best so far"); out != "net@1\n" {
		t.Errorf("%q", out)
	}
	if out := w.fermi("model", "create", "net", "--checkpoint", "saver"); out != "net@1\n" { // the newest, which it is already
		t.Errorf("%q", out)
	}
	got := w.fermi("model", "show", "net@1")
	for _, want := range []string{"checkpoint saver@50", "points@1", "json", "best so far"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := w.fermi("data", "show", "points@1"); !strings.Contains(got, "net@1") {
		t.Errorf("%s", got)
	}
	left := w.fermi("model", "cat", "net@1", "model.json")
	if len(left) < 10 || left[0] != '{' {
		t.Errorf("%.80q", left)
	}
	w.fermi("service", "create", "arms", "--engine", "sample", "--model", "net")
	if out := w.fermi("chat", "arms", "1.5 -0.5"); strings.TrimSpace(out) == "" {
		t.Error("no answer")
	}
	w.refused(w.lab, "50", "model", "create", "net", "--checkpoint", "saver@51")
	w.refused(w.lab, "no task", "model", "create", "net", "--checkpoint", "nobody")
	w.refused(w.lab, "TASK@STEP", "model", "create", "net", "--checkpoint", "saver@first")
	w.refused(w.stranger, "no task", "model", "create", "mine", "--checkpoint", "saver@50", "--project", "other")
	if out := w.fermi("model", "create", "states", "--checkpoint", "ranks"); out != "states@1\n" {
		t.Errorf("%q", out)
	}
	if out := w.fermi("model", "ls", "states"); !strings.Contains(out, "rank-0.slot") || !strings.Contains(out, "rank-1.slot") {
		t.Errorf("%s", out)
	}
}
