package e2e

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// plainSaver is a script that knows nothing of the platform but one variable. It goes on until it was resumed.
const plainSaver = `
import os, time, torch
state, source = {"step": 0, "sum": torch.zeros(3)}, os.environ.get("FERMI_RESUME_FROM")
if source:
    state = torch.load(source)
    print("resumed after", state["step"], "from", os.path.basename(source), flush=True)
last = state["step"] + 3 if source else 10**9
os.makedirs("ckpt", exist_ok=True)
while state["step"] < last:
    state["step"] += 1
    state["sum"] += state["step"]
    name = "ckpt/step-%d.pt" % state["step"]
    torch.save(state, name + ".tmp")
    os.rename(name + ".tmp", name)
    time.sleep(0.2)
right = state["sum"][0].item() == state["step"] * (state["step"] + 1) / 2
print("right" if right else "wrong", flush=True)
`

// TestScriptsThatSaveThemselves kills the launcher of a plain PyTorch script with its working folder: the next one
// finds the newest file that was complete, and what it saved last is kept too.
func TestScriptsThatSaveThemselves(t *testing.T) {
	w := up(t, "--demo", "--checkpoints-store", t.TempDir())
	task := shell("plain", 1, "")
	task.Spec.Roles[0].Command = []string{"/usr/bin/python3", "-c", plainSaver}
	task.Spec.Checkpoint = &api.Checkpoints{Folder: "ckpt"}
	task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 5}
	w.submit(task)
	newest := func() (step int64) {
		list, err := w.api.Checkpoints(t.Context(), "default", "plain")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			step = max(step, c.Step)
		}
		return step
	}
	harness.Eventually(t, "a checkpoint of its files", func() bool { return newest() > 0 })
	w.killLaunchers(w.task("plain"))
	back := w.until("plain", "back from a checkpoint", func(t *api.TrainingTask) bool {
		return t.Status.Rendezvous != nil && t.Status.Rendezvous.Origin != nil
	})
	w.phase("plain", api.PhaseCompleted)
	logs := w.must("logs", "plain")
	contains(t, logs, "resumed after", "from step-", "right")
	if strings.Contains(logs, "wrong") {
		t.Error(logs)
	}
	if got, want := newest(), back.Status.Rendezvous.Origin.Step+3; got != want {
		t.Errorf("the last one is of step %d instead of %d", got, want)
	}
}
