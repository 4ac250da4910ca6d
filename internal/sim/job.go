package sim

import (
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Job is one line of a trace: a task, when it came, and how long it truly runs with all of its
// replicas. The planner sees the task alone.
type Job struct {
	Task   *api.TrainingTask
	At     time.Duration // since the trace's begin; before it when it waits or runs at the begin
	Length time.Duration
	// Due is the deadline since the begin; 0: none.
	Due time.Duration
	// Stands is where the job runs already when the trace begins, since Began, which is not after it.
	Stands *api.Placement
	Began  time.Duration
}

// Trace is the jobs in the order they came.
type Trace struct {
	Name string
	Jobs []Job
}

// own is a copy whose task may be changed, but for what its roles hold.
func (j Job) own() *Job {
	t := *j.Task
	t.Spec.Roles = slices.Clone(t.Spec.Roles)
	j.Task = &t
	return &j
}

// Devices is how many accelerators the job asks for, in thousandths of one.
func (j *Job) Devices() int {
	n := 0
	for _, r := range j.Task.Spec.Roles {
		n += r.Replicas * r.Resources.Accelerators.Count * int(r.Resources.Accelerators.Share.Of())
	}
	return n
}

// newTask is a task as the server would have made it. Ids sort by the order of arrival.
func newTask(serial int, name, user, queue string, roles ...api.Role) *api.TrainingTask {
	priority := api.PriorityClasses["training"]
	return &api.TrainingTask{
		Meta:   api.Meta{ID: fmt.Sprintf("task-%09d", serial), Name: name, Project: api.DefaultProject, Owner: user},
		Spec:   api.TrainingTaskSpec{Framework: api.FrameworkPlain, Roles: roles, Queue: queue, Priority: &priority},
		Status: api.TrainingTaskStatus{Phase: api.PhasePending},
	}
}

// Nodes makes count equal nodes of eight-device machines' usual shape in one zone: racks of 4,
// leaves of 8.
func Nodes(zone string, first, count, devices int, deviceType string) []*api.Node {
	out := make([]*api.Node, count)
	for i := range out {
		out[i] = newNode(zone, first+i, devices, deviceType)
		out[i].Spec.Rack, out[i].Spec.Leaf = fmt.Sprintf("%s-r%d", zone, i/4), fmt.Sprintf("%s-l%d", zone, i/8)
	}
	return out
}

func newNode(zone string, number, devices int, deviceType string) *api.Node {
	n := &api.Node{
		Meta: api.Meta{ID: fmt.Sprintf("node-%06d", number), Name: fmt.Sprintf("%s-%05d", zone, number)},
		Spec: api.NodeSpec{
			Number: uint32(number), Zone: zone, CPU: api.MilliCPU(16000 * max(devices, 1)), Memory: api.Bytes(max(devices, 1)) << 37, Virtual: true,
		},
		Status: api.NodeStatus{Ready: true},
	}
	for d := range devices {
		n.Spec.Devices = append(n.Spec.Devices, api.Device{Index: d, Type: deviceType, Virtual: true})
	}
	return n
}
