package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
)

// TestDevicesAreTheSameForAll has tasks of two projects on three nodes: everybody, also who may see
// neither task, is told the same of the devices, and nothing of the tasks.
func TestDevicesAreTheSameForAll(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{"lin"}}})
	w.put(&api.Project{Meta: api.Meta{Name: "den"}})
	for i, name := range []string{"n1", "n2", "n3"} {
		w.put(&api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "z", Devices: make([]api.Device, 8)}})
	}
	place := func(project, name string, to []api.RoleAssignment, slots ...api.Slot) {
		p := &api.Placement{Meta: api.Meta{Name: name, Project: project}, Spec: api.PlacementSpec{
			TaskID: "task-" + name, Attempt: 1, Roles: []api.RoleAssignment{{Role: "secret-role", Slots: slots}},
		}}
		if to != nil {
			p.Spec.Evict = &api.Eviction{Reason: "Moved", To: to}
		}
		w.put(p)
	}
	place("lab", "mine", nil, api.Slot{Node: 1, Devices: 0b11})
	place("den", "theirs", []api.RoleAssignment{{Slots: api.Slots{{Node: 3, Devices: 1 << 7}}}}, api.Slot{Node: 1, Devices: 0b100})
	want := []cluster.NodeUse{{Node: "n1", Used: []int{0, 1, 2}}, {Node: "n3", Used: []int{7}}}
	for name, token := range map[string]string{
		"admin": w.admin, "operator": w.user("op", api.RoleOperator), "member": w.user("lin", api.RoleMember),
		"a member of nothing": w.user("wu", api.RoleMember), "viewer": w.user("eve", api.RoleViewer),
	} {
		a := w.do("GET", "/api/v1/devices", token, nil)
		var got struct{ Items []cluster.NodeUse }
		must(t, json.Unmarshal(a.Data, &got))
		if diff := cmp.Diff(want, got.Items); diff != "" {
			t.Errorf("as %s (-want +got):\n%s", name, diff)
		}
		for _, word := range []string{"mine", "theirs", "lab", "den", "secret-role"} {
			if strings.Contains(string(a.raw), word) {
				t.Errorf("as %s the answer says %q: %s", name, word, a.raw)
			}
		}
	}
}
