package e2e

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestMaintenance: what would run into a maintenance waits and says so, what ends in time starts, what stands there when it begins moves, and the
// end of it lets everybody in again.
func TestMaintenance(t *testing.T) {
	w := up(t, "--demo")
	contains(t, w.must("node", "maintenance", "--zone", "beijing-1", "--from", "+1h", "--for", "2h", "--name", "firmware", "--reason", "GPU firmware"), "firmware")
	submit := func(name string, change func(*api.TrainingTask)) {
		task := shell(name, 1, `trap 'exit 0' TERM; while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.02; done`)
		task.Spec.Zones = &api.ZoneRules{Allow: []string{"beijing-1", "beijing-2"}}
		change(task)
		w.submit(task)
	}
	submit("waits", func(t *api.TrainingTask) { t.Spec.Zones.Allow = []string{"beijing-1"} })
	submit("short", func(t *api.TrainingTask) {
		t.Spec.Zones.Allow, t.Spec.ExpectedTime = []string{"beijing-1"}, api.Duration(600e9)
	})
	submit("mover", func(t *api.TrainingTask) { t.Spec.Preemptible = true })
	w.phase("short", api.PhaseRunning)
	mover := w.phase("mover", api.PhaseRunning)
	w.explained("waits", "Booked", "GPU firmware", "expectedTime")
	if w.task("waits").Status.Phase != api.PhasePending {
		t.Error("it was placed")
	}
	if r := w.fermi("node", "maintenance", "nosuch", "--for", "1h"); r.code == 0 {
		t.Error("a node that is not there")
	}
	w.must("booking", "create", "mine", "--for-project", "default", "--zone", "shanghai-1", "--for", "1h")
	if r := w.fermi("booking", "create", "yours", "--for-project", "default", "--zone", "shanghai-1", "--for", "1h"); r.code == 0 {
		t.Error("the same nodes were booked twice")
	}
	// So many devices: nodes are chosen that nobody has then.
	contains(t, w.must("booking", "create", "cards", "--for-project", "default", "--devices", "12", "--for", "1h"), "cards")
	if r := w.fermi("booking", "create", "more", "--for-project", "default", "--devices", "90000", "--for", "1h"); r.code == 0 || !strings.Contains(r.err, "can be booked for that time") {
		t.Errorf("%+v", r)
	}
	w.must("booking", "end", "cards")
	if len(mover.Status.Zones) != 1 {
		t.Fatal(mover.Status.Zones)
	}
	here := mover.Status.Zones[0]
	w.must("node", "maintenance", "--zone", here, "--for", "1h", "--name", "now")
	w.until("mover", "moved", func(t *api.TrainingTask) bool {
		return t.Status.Phase == api.PhaseRunning && t.Status.Attempt == 2 && len(t.Status.Zones) == 1 && t.Status.Zones[0] != here
	})
	contains(t, w.must("events", "task/mover"), "maintenance now")
	contains(t, w.must("booking", "list"), "firmware", "Upcoming", "now", "Active")
	w.must("booking", "end", "now", "firmware")
	w.phase("waits", api.PhaseRunning)
}
