package placement

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
)

// shares are the queues by name: what they say of tasks that say nothing themselves.
type shares map[string]*api.Queue

// prefers is what counts for a task between zones that have room: what it says itself, else what its queue says; nil: neither.
func (s shares) prefers(t *api.Workload) (w *where.Weights, ofQueue bool) {
	if z := t.Wish.Zones; z != nil && z.Prefer != nil {
		return z.Prefer, false
	}
	if q := s[t.Queue]; q != nil {
		return q.Spec.Prefer, true
	}
	return nil, false
}

func (s shares) weigh(t *api.Workload) where.Weights {
	if w, _ := s.prefers(t); w != nil {
		return *w
	}
	return where.Weights{}
}

// why says by what a place was chosen, where somebody said what counts.
func (s shares) why(t *api.Workload) api.Text {
	w, ofQueue := s.prefers(t)
	queue := ""
	if ofQueue {
		queue = t.Queue
	}
	return where.Chosen(t.Wish.Zones != nil && t.Wish.Zones.Balance, w, queue)
}

// weighAnew tells the planner of tasks that wait in a queue whose wish changed.
func (s shares) weighAnew(m *model, queue string) {
	var ids []string
	for id, t := range m.tasks {
		if _, waits := m.queues.Get(id); waits && t.Queue == queue {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		m.queues.Add(m.dates.demand(m.tasks[id], m.time()))
	}
}

// moves says that a gang may be moved so that others find room.
func (s shares) moves(w *sched.Workload) bool {
	q := s[w.Queue]
	return !w.Stay && (q == nil || !q.Spec.Stay)
}
