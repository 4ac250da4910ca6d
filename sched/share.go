package sched

import (
	"cmp"
	"maps"

	"github.com/fermi-cluster/fermi/sched/fair"
	"github.com/fermi-cluster/fermi/sched/order"
)

// Share is how a queue stands, with those below it.
type Share struct {
	fair.View
	Waiting, Running int
	// Waits are the ids of those next in turn, Runs the largest that run.
	Waits []string
	Runs  []Running
}

// Shares are all queues, by name, without who waits and runs in them.
func (q *Queues) Shares() []Share {
	runs := q.runsByQueue()
	var out []Share
	for _, name := range q.tree.Names() {
		if s, ok := q.share(name, q.below(name), runs); ok {
			out = append(out, s)
		}
	}
	return out
}

// Share shows one queue with at most so many who wait and run; ok is false for one never heard of.
func (q *Queues) Share(queue string, most int) (Share, bool) {
	below := q.below(queue)
	s, ok := q.share(queue, below, q.runsByQueue())
	if !ok {
		return s, false
	}
	waits := func(yield func(*entry) bool) {
		for _, e := range q.waiting {
			if below[e.w.Queue] && !yield(e) {
				return
			}
		}
	}
	for _, e := range order.First(waits, most, func(a, b *entry) int { return cmp.Or(a.rank().Compare(b.rank()), cmp.Compare(a.w.ID, b.w.ID)) }) {
		s.Waits = append(s.Waits, e.w.ID)
	}
	runs := func(yield func(Running) bool) {
		for _, r := range q.runs {
			if below[r.Workload.Queue] && !yield(r.Running) {
				return
			}
		}
	}
	s.Runs = order.First(runs, most, func(a, b Running) int {
		return cmp.Or(cmp.Compare(devicesOf(b.Workload), devicesOf(a.Workload)), cmp.Compare(a.Workload.ID, b.Workload.ID))
	})
	return s, true
}

func (q *Queues) share(queue string, below map[string]bool, runs map[string]int) (s Share, ok bool) {
	if s.View, ok = q.tree.View(queue, func(name string) bool { return q.Waiting(name) > 0 }); !ok {
		return s, false
	}
	for name := range below {
		s.Waiting += q.Waiting(name)
		s.Running += runs[name]
	}
	return s, true
}

func (q *Queues) runsByQueue() map[string]int {
	out := map[string]int{}
	for _, r := range q.runs {
		out[r.Workload.Queue]++
	}
	return out
}

// below is a queue and all under it.
func (q *Queues) below(queue string) map[string]bool {
	out := map[string]bool{queue: true}
	v, _ := q.tree.View(queue, func(string) bool { return false })
	for _, child := range v.Children {
		maps.Copy(out, q.below(child))
	}
	return out
}
