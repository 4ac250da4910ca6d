package placement

import (
	"log/slog"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// Planner is the controller's own view of the cluster with no store behind it: the simulator feeds
// it the same objects and gets the same decisions. Not safe for concurrent use.
type Planner struct{ m *model }

// NewPlanner is an empty one. Virtual nodes run as many processes as they have room for.
func NewPlanner(log *slog.Logger) *Planner {
	return &Planner{newModel(log, "sim", 1<<30)}
}

// Zone adds or changes a zone.
func (p *Planner) Zone(z *api.Zone) { p.m.setZone(z) }

// Node adds or changes a node.
func (p *Planner) Node(n *api.Node) { p.m.setNode(n) }

// Queue adds or changes a queue.
func (p *Planner) Queue(q *api.Queue) { p.m.queues.SetPaused(q.Meta.Name, q.Spec.Paused) }

// Submit lets a task wait.
func (p *Planner) Submit(t *api.TrainingTask) { p.m.setTask(t) }

// Plan decides who starts now.
func (p *Planner) Plan(now time.Time) sched.Result {
	return sched.Plan(now, p.m.cluster, p.m.queues, sched.Policy{})
}

// End takes a task away for good.
func (p *Planner) End(t *api.TrainingTask) {
	p.m.cluster.Release(t.Meta.ID)
	p.m.dropTask(t.Meta.ID)
}

// Requeue takes a task off its nodes and lets it wait again.
func (p *Planner) Requeue(t *api.TrainingTask) {
	p.m.cluster.Release(t.Meta.ID)
	p.m.setTask(t)
}

// Waiting counts the tasks that wait.
func (p *Planner) Waiting() int { return p.m.queues.Len() }
