package sched

import (
	"time"

	"github.com/fermi-cluster/fermi/sched/predict"
)

// Learn says how long a workload ran that has finished.
func (q *Queues) Learn(w *Workload, ran time.Duration) {
	q.LearnRun(w.User, w.Name, devicesOf(w), ran, declared(w))
}

// LearnRun counts a run of which only this is known: a new leader reads it from history.
func (q *Queues) LearnRun(user, name string, devices int, ran, declared time.Duration) {
	q.learned.Learn(predict.Key{User: user, Name: name, Devices: devices}, ran, declared)
}

// Remember says what a workload that waits or runs did before this process knew it. What is known already counts more.
func (q *Queues) Remember(id string, ran time.Duration, evicted int) {
	if r, ok := q.running[id]; ok {
		if r.before == 0 && r.evicted == 0 {
			r.before, r.evicted = ran, evicted
		}
		return
	}
	if _, waits := q.waiting[id]; waits && q.past[id] == nil {
		q.past[id] = &past{ran: ran, evicted: evicted}
		q.Refile(id)
	}
}

// Refile puts a waiting workload where it belongs by what is known now. One that is overdue, or for
// which others were asked to go, stays where it is.
func (q *Queues) Refile(id string) {
	e, ok := q.waiting[id]
	if !ok || e.claim != nil || e.at < 0 || e.class.overdue {
		return
	}
	if e.age >= 0 && !e.w.Submitted.IsZero() {
		e.since = e.w.Submitted.Add(q.ran(id))
		q.lane(e.w.Queue).ageing.Fix(ageing{e})
	}
	if q.level(e.w, q.ran(id)) != e.class.level {
		q.leave(e)
		q.file(e, false)
	}
}
