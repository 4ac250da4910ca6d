package placement

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/sched"
)

// TestToWhereItsDataIs: of equal nodes work goes to the one where the same version was read before; that node is told of. What was placed and never ran,
// another version and a folder of the machines count for nothing.
func TestToWhereItsDataIs(t *testing.T) {
	m := newModel("h", 100)
	m.now = func() time.Time { return time.Time{} }
	m.setZone(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}})
	for i, name := range []string{"n1", "n2", "n3"} {
		m.setNode(&api.Node{Meta: api.Meta{Name: name}, Status: api.NodeStatus{Ready: true}, Spec: api.NodeSpec{Number: uint32(i + 1), Zone: "z", CPU: 8000, Memory: 8 << 30}})
	}
	ref := func(digest string, from *mount.Source) api.AssetRef {
		return api.AssetRef{Name: "faces", Version: "3", Settled: mount.Settled{Digest: digest, Size: 1 << 30, Source: from}}
	}
	work := func(id string, r ...api.AssetRef) *api.TrainingTask {
		return &api.TrainingTask{Meta: api.Meta{ID: id, Name: id}, Spec: api.TrainingTaskSpec{
			Datasets: r, Roles: []api.Role{{Name: "w", Replicas: 1, Resources: api.Resources{CPU: 1000}}},
		}}
	}
	// goes places a task, on a node or where the planner wants it, and says where that was. Its phase follows, then it ends.
	goes := func(task *api.TrainingTask, node uint32, phase api.Phase) (at uint32, had string) {
		t.Helper()
		m.setTask(task)
		if at = node; node == 0 {
			ds := sched.Plan(time.Time{}, m.cluster, m.queues, sched.Policy{}).Decisions
			if len(ds) != 1 {
				t.Fatalf("%s: %+v", task.Meta.ID, ds)
			}
			at = ds[0].At[0][0].Node
			m.cluster.Release(task.Meta.ID)
		}
		p := &api.Placement{Meta: api.Meta{ID: "p-" + task.Meta.ID, Name: task.Meta.ID}, Spec: api.PlacementSpec{
			TaskID: task.Meta.ID, Attempt: 1, Roles: []api.RoleAssignment{{Role: "w", Slots: []api.Slot{{Node: at}}}},
		}}
		m.setPlacement(p, workload(task, m.shares))
		for _, task.Status.Phase = range []api.Phase{api.PhaseInitializing, phase} {
			m.setTask(task)
		}
		if text, ok := m.had.Had(task.Meta.ID); ok {
			had = text.EN
		}
		m.dropTask(task.Meta.ID)
		m.dropPlacement(p)
		if len(m.had) > 0 {
			t.Errorf("%s is remembered: %v", task.Meta.ID, m.had)
		}
		return at, had
	}
	goes(work("a", ref("d", nil)), 3, api.PhaseInitializing) // it never ran
	goes(work("b", ref("d", nil)), 2, api.PhaseRunning)
	goes(work("c", ref("e", &mount.Source{Folder: "pool"})), 3, api.PhaseRunning)
	for _, c := range []struct {
		task *api.TrainingTask
		node uint32
	}{{work("nothing"), 1}, {work("another", ref("x", nil)), 1}, {work("folder", ref("e", &mount.Source{Folder: "pool"})), 1}, {work("same", ref("d", nil)), 2}} {
		at, had := goes(c.task, 0, api.PhaseInitializing)
		if at != c.node || strings.Contains(had, "n2: faces@3") != (at == 2) {
			t.Errorf("%s goes to node %d, not %d; %q", c.task.Meta.ID, at, c.node, had)
		}
	}
}
