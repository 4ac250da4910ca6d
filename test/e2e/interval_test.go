package e2e

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// asking saves when the platform says so, and waits until it is on disk.
const asking = `
import time, fermi
fermi.init()
step = 0
while not fermi.should_stop():
    step += 1
    time.sleep(0.01)
    fermi.report(step=step)
    if fermi.should_checkpoint():
        print("asked at", step, bool(fermi.checkpoint.save(step, {"step": step}, wait=True)), flush=True)
`

// TestTheIntervalIsTuned: from what a save costs, what failed and how long writing takes, and told with the reason; ranks go by it.
func TestTheIntervalIsTuned(t *testing.T) {
	w := up(t, "--demo")
	task := shell("asks", 1, "")
	task.Spec.Roles[0].Command, task.Spec.Checkpoint = []string{"python3", "-c", asking}, &api.Checkpoints{Auto: true}
	w.submit(task)
	task = learner("tuned", "10ms", &api.Checkpoints{Auto: true})
	task.Spec.Roles[0].Command[4] = "1000000"
	w.submit(task)

	calm := w.until("tuned", "an interval", func(t *api.TrainingTask) bool {
		i := t.Status.Interval(api.MemoryTier)
		return i != nil && i.Lost > 0
	}).Status.Interval(api.MemoryTier)
	w.must("train", "fault", "tuned", "--rank", "1", "--kind", "kill")
	failed := w.until("tuned", "an interval that knows of the failure", func(t *api.TrainingTask) bool {
		i := t.Status.Interval(api.MemoryTier)
		return i != nil && strings.Contains(i.Why.EN, "(1 seen in ")
	}).Status.Interval(api.MemoryTier)
	if calm.Steps < 3 || failed.Steps < 3 || !strings.Contains(calm.Why.EN, "(0 seen in ") || !strings.Contains(failed.Why.EN, "coming back takes ") {
		t.Errorf("%+v, then %+v", calm, failed)
	}
	contains(t, w.must("describe", "task", "tuned"), "Saves in memory:", "a save stalls training for ")
	contains(t, w.must("train", "checkpoints", "tuned", "--lang", "zh"), "内存保存", "由此损失")

	disk := w.until("asks", "an interval of its disk", func(t *api.TrainingTask) bool { return t.Status.Interval("local") != nil }).Status.Interval("local")
	if disk.Every <= 0 || !strings.Contains(disk.Why.EN, "writing one takes ") {
		t.Errorf("%+v", disk)
	}
	w.must("train", "stop", "asks")
	w.phase("asks", api.PhaseStopped)
	contains(t, w.must("logs", "asks"), "asked at ", " True")
}
