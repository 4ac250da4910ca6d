package kubeengine

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxDevices are as many as a placement's mask has bits.
const maxDevices = 64

// Labels of a node that say where it stands.
var (
	rackLabels = []string{"fermi.io/rack", "topology.kubernetes.io/rack", "topology.fermi.io/rack"}
	leafLabels = []string{"fermi.io/leaf", "network.topology.nvidia.com/leaf", "topology.kubernetes.io/leaf"}
)

// nodeNameOf is a node of the cluster as Fermi calls it: names are unique over all zones.
func nodeNameOf(zone, node string) string {
	name := strings.ReplaceAll(strings.ToLower(node), ".", "-")
	if !strings.HasPrefix(name, zone+"-") {
		name = zone + "-" + name
	}
	if len(name) > 63 {
		name = PodName(name)
	}
	return name
}

// cutUUID takes the id that a device of a cluster has apart: RESOURCE#NUMBER. The kubelet alone knows which card it is.
func cutUUID(id string) (resource string, number int, ok bool) {
	resource, tail, ok := strings.Cut(id, "#")
	number, err := strconv.Atoi(tail)
	return resource, number, ok && err == nil && resource != ""
}

func uuid(resource string, n int) string { return resource + "#" + strconv.Itoa(n) }

// use is what pods that are not ours use of a node.
type use struct {
	cpu     int64 // thousandths
	memory  int64
	devices map[string]int64 // by resource
}

func (u *use) add(o use, sign int64) {
	u.cpu += sign * o.cpu
	u.memory += sign * o.memory
	for name, n := range o.devices {
		if u.devices == nil {
			u.devices = map[string]int64{}
		}
		u.devices[name] += sign * n
	}
}

// requests is what the scheduler of the cluster counts for a pod: the larger of its containers together and its largest init Container, each with those
// that run beside it.
func requests(pod *corev1.Pod, table []Resource) use {
	of := func(c *corev1.Container) use {
		u := use{cpu: c.Resources.Requests.Cpu().MilliValue(), memory: c.Resources.Requests.Memory().Value()}
		for _, r := range table {
			if n, ok := c.Resources.Limits[corev1.ResourceName(r.Name)]; ok && n.Value() > 0 {
				if u.devices == nil {
					u.devices = map[string]int64{}
				}
				u.devices[r.Name] += n.Value()
			}
		}
		return u
	}
	var total, beside, most use
	for i := range pod.Spec.Containers {
		total.add(of(&pod.Spec.Containers[i]), 1)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		one := of(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			beside.add(one, 1) // it runs beside all that come later
			continue
		}
		one.add(beside, 1)
		most.raise(one)
	}
	total.add(beside, 1)
	total.raise(most)
	return total
}

// raise makes each amount at least the other's.
func (u *use) raise(o use) {
	u.cpu, u.memory = max(u.cpu, o.cpu), max(u.memory, o.memory)
	for name, n := range o.devices {
		if u.devices == nil {
			u.devices = map[string]int64{}
		}
		u.devices[name] = max(u.devices[name], n)
	}
}

// report makes a node of the cluster one of Fermi's. others is what pods use that are not ours, held the devices that ours have.
func report(zone string, n *corev1.Node, others use, held uint64, table []Resource) api.Node {
	out := api.Node{
		Meta: api.Meta{Name: nodeNameOf(zone, n.Name), DisplayName: n.Name},
		Spec: api.NodeSpec{
			Zone: zone, Rack: anyLabel(n, rackLabels), Leaf: anyLabel(n, leafLabels), Spec: joined.Spec{Spot: isSpot(n)},
			CPU: api.MilliCPU(n.Status.Allocatable.Cpu().MilliValue()), Memory: api.Bytes(n.Status.Allocatable.Memory().Value()),
			Disk: api.Bytes(n.Status.Allocatable.StorageEphemeral().Value()),
		},
		Status: api.NodeStatus{
			BootID: n.Status.NodeInfo.BootID, OS: system(n), Limits: "kubelet", Tenancy: "isolated",
		},
	}
	var closed uint64 // devices that are there and can't be had
	for _, r := range table {
		capacity, allocatable := quantity(n.Status.Capacity, r.Name), quantity(n.Status.Allocatable, r.Name)
		first := len(out.Spec.Devices)
		for i := range int(max(capacity, allocatable)) {
			if len(out.Spec.Devices) == maxDevices {
				break
			}
			out.Spec.Devices = append(out.Spec.Devices, api.Device{
				Index: len(out.Spec.Devices), UUID: uuid(r.Name, i), Vendor: r.Vendor, Type: typeOf(n, r), Memory: memoryOf(n, r),
			})
		}
		away := max(capacity-allocatable, 0) + others.devices[r.Name]
		for i := len(out.Spec.Devices) - 1; i >= first && away > 0; i-- { // from the last: placements fill from the first
			if held&(1<<i) == 0 {
				closed |= 1 << i
				away--
			}
		}
	}
	if others.cpu > 0 || others.memory > 0 || closed != 0 {
		out.Status.Others = &api.OtherUse{CPU: api.MilliCPU(max(others.cpu, 0)), Memory: api.Bytes(max(others.memory, 0)), Devices: indexes(closed)}
	}
	out.Status.Ready, out.Status.Reason, out.Status.Message = ready(n, table)
	return out
}

func indexes(mask uint64) (out []int) {
	for ; mask != 0; mask &= mask - 1 {
		out = append(out, bits.TrailingZeros64(mask))
	}
	return out
}

func quantity(list corev1.ResourceList, name string) int64 {
	q, ok := list[corev1.ResourceName(name)]
	if !ok {
		return 0
	}
	return q.Value()
}

func anyLabel(n *corev1.Node, names []string) string {
	for _, name := range names {
		if v := n.Labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// isSpot says that the machine may be taken away at short notice, in the words of the clouds.
func isSpot(n *corev1.Node) bool {
	for name, value := range spots {
		if strings.EqualFold(n.Labels[name], value) {
			return true
		}
	}
	return false
}

func typeOf(n *corev1.Node, r Resource) string {
	whole := cmp.Or(model(anyLabel(n, append([]string{deviceLabel}, r.TypeLabels...))), r.Type)
	if r.Part == "" || strings.HasSuffix(whole, " "+r.Part) {
		return whole
	}
	return whole + " " + r.Part
}

func memoryOf(n *corev1.Node, r Resource) api.Bytes {
	if r.MemoryLabel == "" {
		return 0
	}
	mib, err := strconv.ParseInt(n.Labels[r.MemoryLabel], 10, 64)
	if err != nil || mib < 0 || mib > 1<<24 {
		return 0
	}
	return api.Bytes(mib) << 20
}

func system(n *corev1.Node) string {
	i := n.Status.NodeInfo
	parts := slices.DeleteFunc([]string{i.OSImage, strings.TrimSpace("Linux " + i.KernelVersion), i.Architecture, i.KubeletVersion}, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}

// ready says whether a node takes new work, and if not, why.
func ready(n *corev1.Node, table []Resource) (bool, string, fault.Text) {
	up := false
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if up = c.Status == corev1.ConditionTrue; !up {
			return false, "KubeletNotReady", fault.T("The kubelet is not ready (%s): %s", "kubelet 未就绪（%s）：%s", c.Reason, Short(c.Message))
		}
	}
	if !up {
		return false, "KubeletNotReady", fault.T("The kubelet has not reported yet.", "kubelet 尚未上报。")
	}
	if i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(reclaims, t.Key) }); i >= 0 {
		return false, engine.NodeReclaimed, fault.T("The node is about to be taken away (taint %s): what runs there saves and moves.", "节点即将被回收（污点 %s）：其上的任务将保存并迁移。", n.Spec.Taints[i].Key)
	}
	if i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { s, ok := unwell[c.Type]; return ok && c.Status == s }); i >= 0 {
		c := n.Status.Conditions[i]
		return false, engine.NodeUnwell, fault.T("Its devices are at fault, its cluster says (%s, %s): %s What runs there saves and moves.", "集群报告其加速卡有故障（%s，%s）：%s 其上的任务将保存并迁移。", c.Type, c.Reason, Short(c.Message))
	}
	if n.Spec.Unschedulable {
		return false, "Unschedulable", fault.T("The node is cordoned in its cluster (kubectl uncordon %s opens it).", "节点在集群中被标记为不可调度（可用 kubectl uncordon %s 恢复）。", n.Name)
	}
	for _, t := range n.Spec.Taints {
		if _, spot := spots[t.Key]; spot { // who does not want such a node says so: zones.spot
			continue
		}
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(table, func(r Resource) bool { return r.Part == "" && r.Name == t.Key }) {
			return false, "Tainted", fault.T("The node has the taint %s, which keeps new pods away.", "节点带有污点 %s，不接收新的 Pod。", strings.TrimSuffix(t.Key+"="+t.Value, "=")+":"+string(t.Effect))
		}
	}
	return true, "", fault.Text{}
}

// unreachable is nodes as they are told while their cluster does not answer: they take no new work, and nothing else is known to have changed.
func unreachable(nodes map[string]api.Node, why fault.Text) []api.Node {
	out := make([]api.Node, 0, len(nodes))
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		n.Status.Ready, n.Status.Reason, n.Status.Message = false, "ClusterUnreachable", why
		out = append(out, n)
	}
	return out
}
