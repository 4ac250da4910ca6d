package placement

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Away reserves a place without a node that is at fault and asks the task to go there, in one write.
// Where there is none nothing changes: fault Conflict. Fault Unavailable when this server does not
// lead. Safe for concurrent use.
func (c *Controller) Away(ctx context.Context, t *api.TrainingTask, node string) error {
	done, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	p, err := c.gather(ctx, t)
	if err != nil {
		return err
	}
	w := workload(p.task)
	for number, n := range p.nodes {
		if n.Meta.Name == node {
			w.Avoid = append(w.Avoid, number)
		}
	}
	m, err := p.move(w, MoveWish{Nodes: []string{node}}) // by nodes: it may stay in its zone
	if err != nil {
		return err
	}
	if m.to == nil {
		return fault.New(fault.Conflict, m.why.Reason, m.why.Message)
	}
	return c.evict(ctx, m.epoch, m.stands, api.Eviction{
		Reason: "NodeAtFault", Grace: api.Duration(saveGrace), To: assigned(w.Roles, m.to),
		Message: fault.T("Node %s is at fault; it goes on elsewhere.", "节点 %s 有故障，任务将在别处继续。", node),
	})
}
