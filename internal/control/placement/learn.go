package placement

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// remembered is what is known of a task that had a place before: for how long, and how often it had to give way.
type remembered struct {
	ran     time.Duration
	evicted int
}

func rememberedOf(rows []history.UsageRow, events []history.Event) remembered {
	out := remembered{ran: history.Together(rows)}
	for _, e := range events {
		if e.Reason == reasonPreempted {
			out.evicted++
		}
	}
	return out
}

// startedBefore are tasks that wait or stand and had a place before.
func (m *model) startedBefore(most int) (ids []string) {
	for id, t := range m.tasks {
		if t.Attempt > 0 && len(ids) < most {
			ids = append(ids, id)
		}
	}
	for id, p := range m.stands {
		if p.Spec.Attempt > 1 && len(ids) < most {
			ids = append(ids, id)
		}
	}
	return ids
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
