package placement

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// TestWhatThePlannerHears: types in order of preference, and how far zones are apart.
func TestWhatThePlannerHears(t *testing.T) {
	m := newModel("h", 100)
	for i, kind := range []string{"V100", "H800"} {
		zone := []string{"a", "b"}[i]
		m.setZone(&api.Zone{Meta: api.Meta{Name: zone}, Spec: api.ZoneSpec{Region: "r", LatencyMs: map[string]float64{"a": 8.5}}})
		m.setNode(&api.Node{
			Meta: api.Meta{Name: zone}, Status: api.NodeStatus{Ready: true},
			Spec: api.NodeSpec{Number: uint32(i + 1), Zone: zone, CPU: 8000, Memory: 8 << 30, Devices: []api.Device{{Type: kind, Island: "x"}}},
		})
	}
	ask := func(id, kinds string, replicas int) {
		m.setTask(&api.TrainingTask{Meta: api.Meta{ID: id, Name: id}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{
			Name: "w", Replicas: replicas, Resources: api.Resources{CPU: 1000, Accelerators: api.Accelerators{Type: kinds, Count: 1}},
		}}}})
	}
	ask("fallback", "A100|h-800|V100", 1)
	ask("far", "", 2) // one device in each zone, 8.5 ms apart
	ds := sched.Plan(time.Time{}, m.cluster, m.queues, sched.Policy{}).Decisions
	if len(ds) != 1 || ds[0].Workload.ID != "fallback" || !slices.Equal(ds[0].At[0], []api.Slot{{Node: 2, Devices: 1}}) {
		t.Fatalf("%+v", ds)
	}
	m.cluster.Release("fallback")
	if ds := sched.Plan(time.Time{}, m.cluster, m.queues, sched.Policy{}).Decisions; len(ds) != 0 {
		t.Fatalf("a gang was cut over zones that are far: %+v", ds)
	}
}

// TestATaskWaitsForItsCheckpoint: nothing is placed before that is there, neither on nodes nor inside another.
func TestATaskWaitsForItsCheckpoint(t *testing.T) {
	m := newModel("h", 100)
	m.setZone(&api.Zone{Meta: api.Meta{Name: "a"}, Spec: api.ZoneSpec{Region: "r"}})
	m.setNode(&api.Node{Meta: api.Meta{Name: "a"}, Status: api.NodeStatus{Ready: true}, Spec: api.NodeSpec{Number: 1, Zone: "a", CPU: 8000, Memory: 8 << 30}})
	task := &api.TrainingTask{Meta: api.Meta{ID: "t", Name: "t"}, Spec: api.TrainingTaskSpec{
		Roles:      []api.Role{{Name: "w", Replicas: 1, Resources: api.Resources{CPU: 1000}}},
		Checkpoint: &api.Checkpoints{From: &api.CheckpointFrom{Upload: true}},
	}}
	guest := &api.TrainingTask{Meta: api.Meta{ID: "g", Name: "g"}, Spec: task.Spec}
	guest.Spec.Inside = []string{"host"}
	for _, there := range []bool{false, true} {
		if there {
			task.Status.From = &api.CheckpointOrigin{TaskID: "t", Name: "x", Step: 1}
			guest.Status.From = task.Status.From
		}
		m.setTask(task)
		m.setTask(guest)
		if ds := sched.Plan(time.Time{}, m.cluster, m.queues, sched.Policy{}).Decisions; len(ds) == 1 != there {
			t.Errorf("there: %v, placed: %+v", there, ds)
		}
		if waits := m.guests.waiting["g"] != nil; waits != there {
			t.Errorf("there: %v, its guest waits for a place: %v", there, waits)
		}
	}
}
