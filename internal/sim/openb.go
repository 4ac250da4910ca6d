package sim

import (
	"io"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// OpenBNode is a row of a node list of OpenB (Alibaba's cluster-trace-gpu-v2023).
type OpenBNode struct {
	Name    string
	CPU     int64 // milli-cores
	Memory  int64 // bytes
	Devices int
	Model   string
}

// OpenBPod is a row of a pod list. Share is of each device, in thousandths; Models are those it may
// have, none for any.
type OpenBPod struct {
	Name         string
	CPU, Memory  int64
	Devices      int
	Share        int
	Models       []string
	QoS          string
	Created      time.Duration // since the trace's begin
	Ran          time.Duration
	HasTimes     bool // a list without times is for packing alone
	NeverStarted bool // it was pending to its end
}

const (
	maxMilliCPU = 1 << 30
	maxMiB      = 1 << 34
	maxSeconds  = 1 << 32
)

// ReadOpenBNodes reads a node list in the order of the file.
func ReadOpenBNodes(r io.Reader) ([]OpenBNode, error) {
	var out []OpenBNode
	err := Table(r, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(row Row) error {
		out = append(out, OpenBNode{
			Name: row.Text("sn"), CPU: row.Count("cpu_milli", maxMilliCPU), Memory: row.Count("memory_mib", maxMiB) << 20,
			Devices: int(row.Count("gpu", 64)), Model: row.Text("model"),
		})
		return row.Err()
	})
	return out, err
}

// ReadOpenBPods reads a pod list in the order of the file.
func ReadOpenBPods(r io.Reader) ([]OpenBPod, error) {
	var out []OpenBPod
	err := Table(r, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(row Row) error {
		p := OpenBPod{
			Name: row.Text("name"), CPU: row.Count("cpu_milli", maxMilliCPU), Memory: row.Count("memory_mib", maxMiB) << 20,
			Devices: int(row.Count("num_gpu", 64)), Share: int(row.Count("gpu_milli", 1000)), QoS: row.Text("qos"), HasTimes: row.Has("creation_time"),
		}
		if spec := row.Text("gpu_spec"); spec != "" {
			p.Models = strings.Split(spec, "|")
		}
		if p.HasTimes {
			row.times(&p)
		}
		if p.Devices > 0 && p.Share == 0 || p.Devices > 1 && p.Share != 1000 {
			return row.bad("%d devices of %d thousandths", p.Devices, p.Share)
		}
		out = append(out, p)
		return row.Err()
	})
	return out, err
}

// times are when a pod came and how long it ran: from when it was scheduled to its deletion.
func (r *Row) times(p *OpenBPod) {
	seconds := func(name string) time.Duration { return time.Duration(r.Count(name, maxSeconds)) * time.Second }
	p.Created = seconds("creation_time")
	begin, end := p.Created, seconds("deletion_time")
	if r.Text("scheduled_time") == "" {
		p.NeverStarted = true
	} else {
		begin = seconds("scheduled_time")
	}
	if r.Err() == nil && (begin < p.Created || end < begin) {
		r.err = r.bad("it is over before it begins")
	}
	p.Ran = end - begin
}

// ReadOpenB reads a pod list as a trace. Best-effort pods (BE) are of the preemptible class; pods
// that never started there are left out, since nobody knows how long they would have run. byUser
// gives each class of service a queue: the trace names no users.
func ReadOpenB(r io.Reader, byUser bool) (Trace, error) {
	pods, err := ReadOpenBPods(r)
	if err != nil {
		return Trace{}, err
	}
	var jobs []Job
	for _, p := range pods {
		if !p.HasTimes {
			return Trace{}, fault.New(fault.Invalid, "NoTimes", fault.T("This pod list has no times: it says how pods pack, not when they came.", "该 Pod 列表没有时间列：只能用于装箱，无法回放。")).
				WithHint(fault.T("Replay a list with creation_time, deletion_time and scheduled_time, such as openb_pod_list_default.csv.", "请使用含 creation_time、deletion_time、scheduled_time 的列表，例如 openb_pod_list_default.csv。"))
		}
		if p.NeverStarted {
			continue
		}
		queue := "default"
		if byUser {
			queue = strings.ToLower(p.QoS)
		}
		jobs = append(jobs, Job{Task: p.task(queue), At: p.Created, Length: p.Ran})
	}
	return Trace{Name: "openb", Jobs: arrange(jobs)}, nil
}

func (p *OpenBPod) task(queue string) *api.TrainingTask {
	role := api.Role{Name: "worker", Replicas: 1, Resources: api.Resources{CPU: api.MilliCPU(p.CPU), Memory: api.Bytes(p.Memory)}}
	if p.Devices > 0 {
		role.Resources.Accelerators = api.Accelerators{Type: strings.Join(p.Models, "|"), Count: p.Devices}
		if p.Share < 1000 {
			role.Resources.Accelerators.Share = api.Share(p.Share)
		}
	}
	t := newTask(0, p.Name, p.QoS, queue, role)
	if p.QoS == "BE" {
		class := api.PriorityClasses["preemptible"]
		t.Spec.Priority = &class
	}
	return t
}

// OpenBNodes are the nodes of a list in one zone, numbered in its order.
func OpenBNodes(zone string, list []OpenBNode) []*api.Node {
	out := make([]*api.Node, len(list))
	for i, n := range list {
		out[i] = newNode(zone, i+1, n.Devices, n.Model)
		out[i].Meta.Name, out[i].Spec.CPU, out[i].Spec.Memory = n.Name, api.MilliCPU(n.CPU), api.Bytes(n.Memory)
	}
	return out
}
