package placement

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// Planner is the controller's own view of the cluster with no store behind it: the simulator feeds
// it the same objects and gets the same decisions. Not safe for concurrent use.
type Planner struct {
	m     *model
	now   time.Time
	moves func(*sched.Workload) bool
}

// NewPlanner is an empty one. Virtual nodes run as many processes as they have room for.
func NewPlanner() *Planner {
	p := &Planner{m: newModel("sim", 1<<30)}
	p.m.now = func() time.Time { return p.now }
	return p
}

// Zone adds or changes a zone.
func (p *Planner) Zone(z *api.Zone) { p.m.setZone(z) }

// Node adds or changes a node.
func (p *Planner) Node(n *api.Node) { p.m.setNode(n) }

// Queue adds or changes a queue.
func (p *Planner) Queue(q *api.Queue) {
	p.m.setQueue(q)
	p.m.tree.heed()
}

// Submit lets a task wait.
func (p *Planner) Submit(t api.Work) { p.m.setTask(t) }

// Stand says that a task has this placement since before the planner was made.
func (p *Planner) Stand(t api.Work, at *api.Placement) {
	p.m.setPlacement(at, workload(t, p.m.shares))
}

// Learn says how long a task ran that has ended before the planner was made.
func (p *Planner) Learn(t api.Work, ran time.Duration) { p.m.queues.Learn(workload(t, nil), ran) }

// Expect is how much longer a task runs, by what is known, having run for a while already.
func (p *Planner) Expect(t api.Work, already time.Duration) time.Duration {
	return p.m.queues.Expect(workload(t, nil), already)
}

// At says what time it is.
func (p *Planner) At(now time.Time) { p.now = now }

// Plan decides who starts now.
func (p *Planner) Plan() sched.Result {
	return sched.Plan(p.now, p.m.cluster, p.m.queues, sched.Policy{Moves: p.moves})
}

// AllowMoves lets it move gangs so that others find room, as a cluster that is served does.
func (p *Planner) AllowMoves() { p.moves = p.m.shares.moves }

// Saved says when a task that stands saved last.
func (p *Planner) Saved(t api.Work, at time.Time) {
	sched.Know(p.m.queues, t.GetMeta().ID, at, restartCost)
}

// Moved says that a task went where it was asked to.
func (p *Planner) Moved(t api.Work, at sched.Assignment) error {
	return sched.Moved(p.now, p.m.cluster, p.m.queues, t.GetMeta().ID, at, p.now)
}

// Resized says that a gang stands on more or fewer replicas now.
func (p *Planner) Resized(t api.Work, at sched.Assignment) error {
	return sched.Resized(p.now, p.m.cluster, p.m.queues, t.GetMeta().ID, at)
}

// End takes a task away for good.
func (p *Planner) End(t api.Work) {
	p.m.stop(t.GetMeta().ID, true)
	p.m.dropTask(t.GetMeta().ID)
}

// Requeue takes a task off its nodes and lets it wait again.
func (p *Planner) Requeue(t api.Work) {
	p.m.stop(t.GetMeta().ID, false)
	p.m.setTask(t)
}
