package placement

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
)

// awayFrom is the task's workload without a node that is at fault, and without what is around it as kind says.
func (p *preview) awayFrom(node, kind string) *sched.Workload {
	w := demand(p.task, p.queues)
	for _, at := range p.nodes {
		if at.Meta.Name == node {
			w.Avoid = append(w.Avoid, around(p.nodes, at, kind)...)
		}
	}
	return w
}

func awayBy(w *sched.Workload, m planned, node, kind string) api.Eviction {
	return api.Eviction{Reason: "NodeAtFault", Grace: api.Duration(saveGrace), To: assigned(w.Roles, m.to), Message: awayText(node, kind)}
}

// around are the nodes that share a place with a node, itself among them.
func around(nodes map[uint32]*api.Node, at *api.Node, kind string) (out []uint32) {
	for number, n := range nodes {
		if together(at, n, kind) {
			out = append(out, number)
		}
	}
	slices.Sort(out)
	return out
}

func together(a, b *api.Node, kind string) bool {
	switch zone := a.Spec.Zone == b.Spec.Zone; kind {
	case "rack":
		return zone && a.Spec.Rack == b.Spec.Rack
	case "leaf":
		return zone && a.Spec.Leaf == b.Spec.Leaf
	case "zone":
		return zone
	}
	return a.Meta.Name == b.Meta.Name
}

func awayText(node, kind string) fault.Text {
	if kind == "node" {
		return fault.T("Node %s is at fault; it goes on elsewhere.", "节点 %s 有故障，任务将在别处继续。", node)
	}
	return fault.T("The %[2]s of node %[1]s had two faults; it goes on elsewhere.", "节点 %[1]s 所在的 %[2]s 已发生两次故障，任务将在别处继续。", node, kind)
}
