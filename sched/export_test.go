package sched

import "time"

// SetPast is of a workload whose past is known before it is added.
func (q *Queues) SetPast(id string, ran time.Duration, evicted int) {
	p := q.history(id)
	p.ran, p.evicted = ran, evicted
}
