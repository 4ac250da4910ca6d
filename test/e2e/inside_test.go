package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// guestOf is a task inside environments, as many ranks in each as it has devices.
func guestOf(name, script string, environments ...string) *api.TrainingTask {
	task := shell(name, len(environments), script)
	task.Spec.Inside, task.Spec.Framework, task.Spec.Roles[0].Resources = environments, "pytorch-ddp", api.Resources{}
	return task
}

// TestInside: tasks train inside running tasks, in their folders, groups and devices, one at a time; they
// end with them, say so, and are not charged for them.
func TestInside(t *testing.T) {
	w := up(t, "--demo")
	const still = `while :; do sleep 0.05; done`
	devices := map[string]int{"env-a": 2, "env-b": 1}
	for name, n := range devices {
		task := shell(name, 1, `echo "folder of $FERMI_TASK" > here; echo "visible $CUDA_VISIBLE_DEVICES"; `+still)
		task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: n}
		w.submit(task)
		w.phase(name, api.PhaseRunning)
	}
	ids := map[string]string{}
	submit := func(task *api.TrainingTask, phase api.Phase) *api.TrainingTask {
		w.submit(task)
		ids[task.Meta.Name] = w.task(task.Meta.Name).Meta.ID
		return w.phase(task.Meta.Name, phase)
	}
	first := submit(guestOf("first", `echo "rank $RANK of $WORLD_SIZE in $(cat here), visible $CUDA_VISIBLE_DEVICES"; `+still, "env-b", "env-a"), api.PhaseRunning)
	if first.Status.Rendezvous.World != 3 {
		t.Errorf("%+v", first.Status.Rendezvous)
	}
	logs := ""
	w.until("first", "three ranks spoke", func(*api.TrainingTask) bool {
		logs = w.must("logs", "first")
		return strings.Count(logs, " of 3 in ") == 3
	})
	for rank, env := range map[string]string{"0": "env-b", "1": "env-a", "2": "env-a"} {
		_, visible, _ := strings.Cut(w.must("logs", env), "visible ")
		contains(t, logs, "rank "+rank+" of 3 in folder of "+env+", visible "+strings.TrimSpace(visible))
	}
	w.until("env-a", "in use", func(t *api.TrainingTask) bool { return t.Status.InUseBy == "first" })
	grouped(t, marked(ids["first"]), w.task("env-a").Meta.ID, w.task("env-b").Meta.ID)
	for _, args := range [][]string{{"train", "stop", "env-a"}, {"delete", "task", "env-a"}} {
		if r := w.fermi(args...); r.code == 0 || !strings.Contains(r.err, "first") {
			t.Errorf("%v: %+v", args, r)
		}
	}

	second := guestOf("second", "", "env-a", "env-b")
	second.Spec.Framework, second.Spec.Roles[0].Ranks = "plain", 2
	second.Spec.Roles[0].Command = []string{"fermi", "sample", "train", "--steps", "30"}
	submit(second, api.PhasePending)
	w.until("second", "known for whom it waits", func(t *api.TrainingTask) bool {
		e, err := w.api.Why(w.t.Context(), "default", "second")
		return err == nil && e.Reason == "EnvironmentInUse" && strings.Contains(e.Message.EN, "first")
	})
	w.must("train", "stop", "first")
	w.phase("first", api.PhaseStopped)
	if done := w.phase("second", api.PhaseCompleted); done.Status.Rendezvous.World != 4 {
		t.Errorf("%+v", done.Status.Rendezvous)
	}

	submit(guestOf("third", still, "env-a", "env-b"), api.PhaseRunning)
	w.must("train", "fault", "env-a", "--rank", "0", "--kind", "kill")
	if got := w.phase("third", api.PhaseFailed); got.Status.Reason != "EnvironmentLost" || !strings.Contains(got.Status.Message.EN, "env-a") {
		t.Errorf("%+v", got.Status)
	}
	w.phase("env-a", api.PhaseFailed)
	submit(guestOf("fourth", still, "env-b"), api.PhaseRunning)
	w.until("env-b", "in use", func(t *api.TrainingTask) bool { return t.Status.InUseBy == "fourth" })
	w.must("train", "stop", "--yes", "env-b")
	if got := w.phase("fourth", api.PhaseStopped); got.Status.Reason != "EnvironmentStopped" || !strings.Contains(got.Status.Message.EN, "env-b") {
		t.Errorf("%+v", got.Status)
	}
	w.phase("env-b", api.PhaseStopped)
	for name, id := range ids {
		gone(t, name, id)
		charged(t, w, name, 0)
	}
	for name, n := range devices {
		gone(t, name, w.task(name).Meta.ID)
		charged(t, w, name, n)
	}
}

// grouped: where there are cgroups, a guest's processes are in those of its environments.
func grouped(t *testing.T, processes []string, hosts ...string) {
	t.Helper()
	if len(processes) < 3 {
		t.Errorf("only %d processes are marked", len(processes))
	}
	for _, p := range processes {
		pid, _, _ := strings.Cut(p, " ")
		text, err := os.ReadFile("/proc/" + pid + "/cgroup")
		if err != nil || !strings.Contains(string(text), "/fermi/") {
			continue // it has ended, or there are none
		}
		if !slices.ContainsFunc(hosts, func(id string) bool { return strings.Contains(string(text), "/fermi/"+id+"-worker-0-1/guests/") }) {
			t.Errorf("%s is in\n%s", p, text)
		}
	}
}

func gone(t *testing.T, name, id string) {
	t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(20 * time.Millisecond) {
		left := marked(id)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s left %v", name, left)
		}
	}
}

func charged(t *testing.T, w *world, name string, devices int) {
	t.Helper()
	rows, err := w.api.Replicas(t.Context(), "default", name)
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s has %d rows: %v", name, len(rows), err)
	}
	for _, r := range rows {
		if r.Devices != devices {
			t.Errorf("%s is charged for %d devices, not %d", name, r.Devices, devices)
		}
	}
}
