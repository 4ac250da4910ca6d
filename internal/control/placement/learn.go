package placement

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// Past is what a new leader learns from.
type Past interface {
	NewestRuns(ctx context.Context, limit int) ([]history.Run, error)
	UsageOf(ctx context.Context, taskID string) ([]history.UsageRow, error)
	ListEvents(ctx context.Context, q history.EventQuery) ([]history.Event, error)
}

// Bounds of learning: how many tasks that ran before are looked up one by one, and how much is done
// before the planner gets its lock back.
const (
	maxRemembered = 2000
	learnChunk    = 500
	learnAgain    = 30 * time.Second
)

// lessons are what a new leader learns from the past.
type lessons struct{ c *Controller }

// learn reads history beside the planner's work, until it could: decisions don't wait for it.
func (l *lessons) learn(ctx context.Context) {
	if l.c.cfg.Past == nil {
		return
	}
	for ctx.Err() == nil {
		err := l.learnOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.c.cfg.Log.Warn("what finished tasks showed can't be read; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-l.c.cfg.Clock.After(learnAgain):
		}
	}
}

func (l *lessons) learnOnce(ctx context.Context) error {
	runs, err := l.c.cfg.Past.NewestRuns(ctx, history.MaxRuns)
	if err != nil {
		return err
	}
	before := l.startedBefore()
	past := make([]remembered, len(before))
	for i, id := range before {
		if past[i], err = l.remember(ctx, id); err != nil {
			return err
		}
	}
	l.inChunks(len(runs), func(m *model, i int) { m.learnRun(&runs[len(runs)-1-i]) }) // oldest first
	l.inChunks(len(past), func(m *model, i int) { m.queues.Remember(before[i], past[i].ran, past[i].evicted) })
	waiting := l.waiting()
	l.inChunks(len(waiting), func(m *model, i int) { m.queues.Refile(waiting[i]) })
	l.c.cfg.Log.Info("learned from finished tasks", "runs", len(runs), "remembered", len(past))
	return nil
}

// inChunks works on the model a little at a time.
func (l *lessons) inChunks(n int, work func(m *model, i int)) {
	for i := 0; i < n; {
		l.c.mu.Lock()
		for end := min(i+learnChunk, n); i < end; i++ {
			work(l.c.m, i)
		}
		l.c.mu.Unlock()
	}
}

// startedBefore are tasks that wait or stand and had a place before.
func (l *lessons) startedBefore() (ids []string) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for id, t := range l.c.m.tasks {
		if t.Attempt > 0 && len(ids) < maxRemembered {
			ids = append(ids, id)
		}
	}
	for id, p := range l.c.m.stands {
		if p.Spec.Attempt > 1 && len(ids) < maxRemembered {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l *lessons) waiting() (ids []string) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for id := range l.c.m.tasks {
		ids = append(ids, id)
	}
	return ids
}

type remembered struct {
	ran     time.Duration
	evicted int
}

// remember adds up a task's stays that are over, and how often it had to give way.
func (l *lessons) remember(ctx context.Context, id string) (out remembered, err error) {
	rows, err := l.c.cfg.Past.UsageOf(ctx, id)
	if err != nil {
		return out, err
	}
	out.ran = history.Together(rows)
	events, err := l.c.cfg.Past.ListEvents(ctx, history.EventQuery{ObjectID: id, Newest: true, Limit: 1000})
	for _, e := range events {
		if e.Reason == reasonPreempted {
			out.evicted++
		}
	}
	return out, err
}

// learnRun takes up what a finished task of the past showed.
func (m *model) learnRun(r *history.Run) {
	m.queues.LearnRun(r.Owner, r.Name, r.Devices, r.Ran, r.Declared)
	m.try(r)
}

// showed takes up what a task that ends now shows; it still stands. How long it ran is learned with
// its placement.
func (m *model) showed(t api.Work) {
	p := m.stands[t.GetMeta().ID]
	if p == nil {
		return
	}
	nodes := map[uint32]bool{}
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			nodes[s.Node] = true
		}
	}
	run := history.RunOf(t, len(nodes), 0)
	m.try(&run)
}

func (m *model) try(r *history.Run) {
	if r.Succeeded && r.Last > 0 {
		m.trials.Add(recipeOf(r), cost.Trial{Work: r.Work, Nodes: r.Nodes, Class: m.classOf(r.Zones), Took: r.Last})
	}
}

func recipeOf(r *history.Run) cost.Recipe { return cost.RecipeOf(r.Owner, r.Framework, r.Name) }

// classOf is the class of latency between zones, as it is known now.
func (m *model) classOf(zones []string) string {
	if len(zones) < 2 {
		return cost.ClassOf(0).Name
	}
	var list []*api.Zone
	for _, name := range zones {
		if z := m.zones[name]; z != nil {
			list = append(list, z)
		}
	}
	var now time.Time
	if m.now != nil {
		now = m.now()
	}
	return cost.ClassOf(cost.ZonesOf(list, now).Farthest(zones).P50).Name
}

// samples are what runs of a task's recipe showed.
func (c *Controller) samples(t api.Work) []cost.Sample {
	run := history.RunOf(t, 0, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil
	}
	return c.m.trials.Samples(recipeOf(&run))
}
