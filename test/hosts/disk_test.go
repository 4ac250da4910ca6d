package hosts

import (
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestDiskFills: on a machine whose disk a task fills that task is ended by name; where others filled it the node says so, takes no new work and is not
// away, also over the death of its agent and of the server, what runs there goes on, and a stop is obeyed. With room again it is a node as before.
func TestDiskFills(t *testing.T) {
	l := newLab(t, 2)
	h := l.w.Host("a2")
	on := func(script string) {
		t.Helper()
		if out, err := h.Command("/bin/sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", script, err, out)
		}
	}
	data := filepath.Join(h.Disk(), "agent")
	on("mkdir -p " + data + " && mount -t tmpfs -o size=600m,mode=0700 tmpfs " + data)
	l.join("a2")
	l.only("a2")
	room := func(task *api.TrainingTask) { task.Spec.Roles[0].Resources.Memory = 2 << 30 } // what lies in memory counts as the task's
	l.submit("calm", 1, nil, "/bin/sh", "-c", `echo "pid $$"; sleep 10000`)
	l.phase("calm", api.PhaseRunning)
	l.submit("runaway", 1, room, "/bin/sh", "-c", `i=0; while :; do head -c 33554432 /dev/zero > f$i || sleep 0.05; i=$((i+1)); done`)
	failed := l.phase("runaway", api.PhaseFailed)
	if failed.Status.Failure == nil || failed.Status.Failure.Reason != "DiskLimitExceeded" {
		t.Errorf("%+v", failed.Status)
	}
	l.until("a2", "well again", func(n *api.Node) bool { return n.Status.Ready })

	on("head -c 2000000000 /dev/zero > " + data + "/junk || true")
	full := func(n *api.Node) bool {
		return !n.Status.Ready && n.Status.Reason == "DiskFull" && strings.Contains(n.Status.Message.EN, "almost full")
	}
	l.until("a2", "full", full)
	l.kill(l.agents["a2"])
	l.kill(l.server)
	l.serve()
	l.until("a2", "silent", func(n *api.Node) bool { return n.Status.Reason == "AgentSilent" })
	l.agent("a2", "")
	l.until("a2", "full, and not away", full)
	o, err := l.cl.Get(t.Context(), api.KindTrainingTask, "default", "calm")
	if err != nil {
		t.Fatal(err)
	}
	if task := o.(*api.TrainingTask); task.Status.Phase != api.PhaseRunning || task.Status.Attempt > 1 || strings.Count(l.logs("calm"), "pid ") != 1 {
		t.Errorf("it was touched: %+v", task.Status)
	}
	if err := l.cl.Stop(t.Context(), "default", "calm"); err != nil {
		t.Fatal(err)
	}
	l.phase("calm", api.PhaseStopped)
	on("rm " + data + "/junk")
	l.until("a2", "well again", func(n *api.Node) bool { return n.Status.Ready && n.Status.Reason == "" })
	l.submit("after", 1, nil, "/bin/sh", "-c", "echo well")
	l.phase("after", api.PhaseCompleted)
	harness.Eventually(t, "its log is there", func() bool { return strings.Contains(l.logs("after"), "well") })
}
