package e2e

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// waiter runs until it is told to stop, on so many V100 of beijing-1, of which there are 32.
func waiter(name string, replicas, devices, priority int) *api.TrainingTask {
	task := shell(name, replicas, `trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.02; done`)
	task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: devices}
	task.Spec.Priority = &priority
	return task
}

// TestLimitOfAQueue: a limit holds and is the reason that is told; raising it lets the task in.
func TestLimitOfAQueue(t *testing.T) {
	w := up(t, "--demo")
	w.must("queue", "set", "default", "--limit", "V100=8")
	w.submit(waiter("first", 1, 8, 500))
	w.phase("first", api.PhaseRunning)
	w.submit(waiter("second", 1, 1, 500))
	w.explained("second", "QueueLimit")
	contains(t, w.must("top"), "V100")
	w.must("queue", "set", "default", "--limit", "V100=9")
	w.phase("second", api.PhaseRunning)
	if bad := w.fermi("queue", "set", "default", "--parent", "default"); bad.code == 0 {
		t.Error("a queue became its own parent")
	}
	w.must("train", "stop", "first", "second")
	w.phase("first", api.PhaseStopped)
	w.phase("second", api.PhaseStopped)
}

// TestPreemption: a more important task takes the place of a preemptible one, which saves, waits and
// comes back when there is room; one that is not preemptible keeps its place.
func TestPreemption(t *testing.T) {
	w := up(t, "--demo")
	w.must("project", "set", "default", "--max-priority", "1000")
	low := waiter("low", 4, 8, 100)
	low.Spec.Preemptible = true
	w.submit(low)
	w.phase("low", api.PhaseRunning)
	w.submit(waiter("high", 1, 8, 900))
	w.phase("high", api.PhaseRunning)
	left := w.until("low", "waiting again", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhasePending })
	if left.Status.Reason != "Preempted" || len(left.Status.Restarts) != 0 {
		t.Errorf("%+v", left.Status)
	}
	contains(t, w.must("logs", "low"), "saved")
	w.submit(waiter("higher", 4, 8, 950))
	if why := w.must("why", "higher"); w.task("high").Status.Attempt != 1 {
		t.Errorf("one that is not preemptible lost its place: %s", why)
	}
	w.must("train", "stop", "higher", "high")
	w.phase("high", api.PhaseStopped)
	w.until("low", "running again", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 })
	w.must("train", "stop", "low")
	w.phase("low", api.PhaseStopped)
}
