package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Probed is where a probe went and what came of it.
type Probed struct {
	Replica    engine.Name
	Node       string
	Generation int
	link.Probed
}

// Probe has something done to a rank of a running task, or has it looked at, by its launcher. Fault
// NotFound where there is no such rank, Conflict where the launcher refuses, Unavailable where it is not
// there or this server does not lead. Safe for concurrent use.
func (c *Controller) Probe(ctx context.Context, task *api.TrainingTask, rank int, kind string) (Probed, error) {
	s, err := c.observe(ctx, api.KeyOf(task))
	if err != nil {
		return Probed{}, err
	}
	if s.task.Status.Rendezvous == nil {
		return Probed{}, fault.New(fault.Conflict, "NotRunning", fault.T("The task does not run yet.", "任务尚未运行。"))
	}
	for i := range s.members {
		m := &s.members[i]
		if rank < m.first || rank >= m.first+m.ranks {
			continue
		}
		out := Probed{Replica: m.name, Node: m.node, Generation: s.task.Status.Generation}
		out.Probed, err = c.cfg.Hub.AskRank(ctx, m.name, link.Probe{Generation: int64(out.Generation), Rank: rank, Kind: kind})
		if err == nil && out.Refused != (fault.Text{}) {
			err = fault.New(fault.Conflict, "Refused", out.Refused)
		}
		return out, err
	}
	return Probed{}, fault.New(fault.NotFound, "NoSuchRank", fault.T("The task has no rank %d; its ranks are 0 to %d.", "任务没有 rank %d；其 rank 为 0 至 %d。", rank, s.world-1))
}
