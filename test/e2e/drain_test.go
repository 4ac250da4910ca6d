package e2e

import (
	"fmt"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestDrain: what runs on a node, or on one of its devices, leaves with its grace, starts again
// elsewhere, and is charged for both stays; a neighbour is not touched.
func TestDrain(t *testing.T) {
	w := up(t, "--demo")
	wait := func(name string, devices int) *api.TrainingTask {
		task := shell(name, 1, `trap 'echo saved; exit 0' TERM; echo "on $FERMI_NODE"; while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.02; done`)
		task.Spec.Roles[0].Resources.Accelerators = api.Accelerators{Type: "V100", Count: devices}
		task.Spec.Zones = &api.ZoneRules{Allow: []string{"beijing-1"}}
		return task
	}
	w.submit(wait("one", 4))
	w.phase("one", api.PhaseRunning)
	w.submit(wait("two", 2))
	w.phase("two", api.PhaseRunning)
	place := func(name string) (node string, slot api.Slot) {
		p, err := harness.PlaceOf(t.Context(), w.api, name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := w.api.Replicas(t.Context(), "default", name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			node = r.Node
		}
		return node, p.Spec.Roles[0].Slots[0]
	}
	node, slot := place("two")
	if first, _ := place("one"); first != node {
		t.Fatalf("two small tasks stand on %s and %s: they were not packed", first, node)
	}
	device := 0
	for slot.Devices&(1<<device) == 0 {
		device++
	}
	contains(t, w.must("node", "drain", fmt.Sprintf("%s/%d", node, device)), "is empty")
	two := w.until("two", "running again", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 })
	if len(two.Status.Restarts) != 0 {
		t.Error("leaving was counted as a restart")
	}
	if _, now := place("two"); now.Node == slot.Node && now.Devices&(1<<device) != 0 {
		t.Error("the drained device was given again")
	}
	if one := w.task("one"); one.Status.Attempt != 1 {
		t.Errorf("a neighbour was touched: %+v", one.Status)
	}
	w.must("node", "drain", node)
	w.until("one", "running again", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 })
	if now, _ := place("one"); now == node {
		t.Error("it came back to the drained node")
	}
	contains(t, w.must("events", "task/one"), "Drained")
	contains(t, w.must("logs", "one"), "saved")
	w.must("node", "uncordon", node)
	w.must("train", "stop", "one", "two")
	w.phase("one", api.PhaseStopped)
	w.phase("two", api.PhaseStopped)
	rows, err := w.api.Replicas(t.Context(), "default", "one")
	if err != nil || len(rows) != 2 {
		t.Errorf("%d stays were charged, want 2: %v", len(rows), err)
	}
	if bad := w.fermi("node", "drain", node+"/99"); bad.code == 0 {
		t.Error("device 99 was drained")
	}
}
