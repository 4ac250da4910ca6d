package placement

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestCardsAtFault: the planner keeps work away from a device at fault and has what stands there leave, with the fault in its
// message; an operator's cordon without a drain still leaves work alone.
func TestCardsAtFault(t *testing.T) {
	node := &api.Node{
		Meta: api.Meta{Name: "n1"}, Status: api.NodeStatus{Ready: true},
		Spec: api.NodeSpec{Number: 1, Zone: "z", CPU: 64_000, Memory: 1 << 40, Devices: make([]api.Device, 4), CordonedDevices: []int{0}},
	}
	for i := range node.Spec.Devices {
		node.Spec.Devices[i] = api.Device{Index: i, Type: "A100", Virtual: true}
	}
	at := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	node.Status.Devices = []card.DeviceHealth{
		{Device: 1, State: card.DeviceOpen, Since: at}, {Device: 2, State: card.DeviceTesting, Since: at, Reason: "ecc"}, {Device: 3, State: card.DeviceOut, Since: at, Reason: "xid-79"},
	}
	m := newModel("this", 100)
	m.setNode(node)
	if got := m.drains[1]; got != 0b1100 {
		t.Errorf("what leaves: %b", got)
	}
	place := func(devices uint64) *api.Placement {
		return &api.Placement{Spec: api.PlacementSpec{TaskID: "t", Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1, Devices: devices}}}}}}
	}
	for devices, closed := range map[uint64]bool{0b0001: false, 0b0010: false, 0b0100: true, 0b1010: true} {
		if got := shut(place(devices).Spec.Roles, m.in); got != closed {
			t.Errorf("devices %b: shut %v", devices, got)
		}
	}
	e := api.Eviction{Message: fault.T("as it was", "原样")}
	if got := illText(place(0b0010), m.in, e); got != e.Message {
		t.Errorf("%+v", got)
	}
	if got := illText(place(0b1000), m.in, e); !strings.Contains(got.EN, "Device 3 of node n1 is at fault (xid-79)") || !strings.Contains(got.ZH, "加速卡 3 有故障") {
		t.Errorf("%+v", got)
	}
	node.Status.Devices = nil
	if m.setNode(node); m.drains[1] != 0 {
		t.Errorf("what leaves a node whose devices are well: %b", m.drains[1])
	}
	node.Status.Ready, node.Status.Reason = false, "KubeletNotReady"
	if m.setNode(node); m.drains[1] != 0 {
		t.Errorf("what leaves a node that is not ready: %b", m.drains[1])
	}
	for _, reason := range []string{engine.NodeReclaimed, engine.NodeUnwell} {
		node.Status.Reason = reason
		if m.setNode(node); m.drains[1] != everything {
			t.Errorf("what leaves a node that is %s: %b", reason, m.drains[1])
		}
	}
}
