package placement

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Away reserves a place without a node that is at fault, or without the whole rack, leaf or zone it is in as kind says, and asks the
// task to go there, in one write.
// Where there is none nothing changes: fault Conflict. Fault Unavailable when this server does not
// lead. Safe for concurrent use.
func (c *Controller) Away(ctx context.Context, t api.Work, node, kind string) error {
	done, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	p, err := c.gather(ctx, t)
	if err != nil {
		return err
	}
	w := demand(p.task, p.queues)
	for _, at := range p.nodes {
		if at.Meta.Name == node {
			w.Avoid = append(w.Avoid, around(p.nodes, at, kind)...)
		}
	}
	m, err := p.move(w, MoveWish{Away: []string{node}}) // by nodes: it may stay in its zone
	if err != nil {
		return err
	}
	if m.to == nil {
		return fault.New(fault.Conflict, m.why.Reason, m.why.Message)
	}
	return c.evict(ctx, m.epoch, m.stands, api.Eviction{
		Reason: "NodeAtFault", Grace: api.Duration(saveGrace), To: assigned(w.Roles, m.to),
		Message: awayText(node, kind),
	})
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
