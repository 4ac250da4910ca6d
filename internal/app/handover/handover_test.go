package handover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/keeper"
)

// TestGangOf: of a gang that stands in two zones each cluster hears of its own part, a set for each role at what one replica has.
func TestGangOf(t *testing.T) {
	node := func(number uint32) *api.Node {
		n := &api.Node{Spec: api.NodeSpec{Number: number}}
		for range 4 {
			n.Spec.Devices = append(n.Spec.Devices, api.Device{UUID: "nvidia.com/gpu#0"})
		}
		return n
	}
	here := map[uint32]*api.Node{1: node(1), 2: node(2)}
	w := &api.Workload{Meta: &api.Meta{ID: "task-1", Name: "llm", Owner: "li"}, Priority: 7, Roles: []api.Role{
		{Name: "worker", Replicas: 3, Resources: api.Resources{CPU: 2000}}, {Name: "ps", Replicas: 1, Resources: api.Resources{CPU: 500}}, {Name: "far", Replicas: 1},
	}}
	p := &api.Placement{Spec: api.PlacementSpec{Attempt: 3, Roles: []api.RoleAssignment{
		{Role: "worker", Slots: api.Slots{{Node: 1, Devices: 0b110}, {Node: 2, Devices: 0b11}, {Node: 9, Devices: 0b11}}},
		{Role: "ps", Slots: api.Slots{{Node: 2}}},
		{Role: "far", Slots: api.Slots{{Node: 9}}},
	}}}
	want := keeper.Gang{TaskID: "task-1", Task: "llm", Owner: "li", Since: 3, Priority: 7, Sets: []keeper.GangSet{
		{Role: "worker", Count: 2, Resources: api.Resources{CPU: 2000}, Devices: []string{"nvidia.com/gpu#0", "nvidia.com/gpu#0"}},
		{Role: "ps", Count: 1, Resources: api.Resources{CPU: 500}},
	}}
	if d := cmp.Diff(want, gangOf(w, p, here)); d != "" {
		t.Error(d)
	}
}
