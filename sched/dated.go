package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/order"
)

// Who says how long it takes and by when it has to be done is dated. Dated workloads of a queue have their
// places in its order like everybody, by what they have left to do. As long as all of them are in time so, that is
// all. Where they are not, they change places among each other: who can be in time goes by its deadline,
// and as few as possible are late (Moore's rule: of those up to the first that would be late the longest is
// given up, and so on). Nobody else goes earlier or later by it.
const (
	// maxDated is how many are arranged, the first by their deadlines; arrangeEvery is how often while nobody comes or goes.
	maxDated     = 64
	arrangeEvery = time.Minute
)

// dates are the dated of a lane that wait and are not overdue, the first deadline first.
type dates struct {
	list []*entry
	next time.Time // when they are arranged again
}

func isDated(w *Workload) bool { return !w.Deadline.IsZero() && w.Expected > 0 }

func byDeadline(a, b *entry) int {
	return cmp.Or(a.w.Deadline.Compare(b.w.Deadline), cmp.Compare(a.w.ID, b.w.ID))
}

func (d *dates) add(e *entry) {
	if isDated(e.w) {
		at, _ := slices.BinarySearchFunc(d.list, e, byDeadline)
		d.list, d.next = slices.Insert(d.list, at, e), time.Time{}
	}
}

func (d *dates) drop(e *entry) {
	if isDated(e.w) {
		if at, ok := slices.BinarySearchFunc(d.list, e, byDeadline); ok {
			d.list, d.next = slices.Delete(d.list, at, at+1), time.Time{}
		}
	}
}

// arrange gives the dated of a lane their places.
func (l *lane) arrange(q *Queues) {
	if len(l.dates.list) < 2 || q.now.Before(l.dates.next) {
		return
	}
	l.dates.next = q.now.Add(arrangeEvery)
	var some []*entry
	for _, e := range l.dates.list[:min(len(l.dates.list), maxDated)] {
		if e.at >= 0 && e.claim == nil {
			some = append(some, e)
		}
	}
	slices.SortStableFunc(some, func(a, b *entry) int { return cmp.Compare(b.w.Priority, a.w.Priority) })
	for len(some) > 0 {
		n := 1
		for n < len(some) && some[n].w.Priority == some[0].w.Priority {
			n++
		}
		l.settle(q, some[:n])
		some = some[n:]
	}
}

// settle arranges those of one priority, which come by their deadlines.
func (l *lane) settle(q *Queues, due []*entry) {
	width := l.held
	for _, e := range due {
		width = max(width, devicesOf(e.w))
	}
	jobs := make([]order.Job, len(due))
	for i, e := range due {
		// With the whole of what its queue holds it takes so long.
		share := float64(max(devicesOf(e.w), 1)) / float64(max(width, 1))
		jobs[i] = order.Job{Takes: time.Duration(float64(e.w.Expected) * share), Due: e.w.Deadline.Sub(q.now), Level: e.class.level}
	}
	for i, place := range order.Punctual(jobs) {
		due[i].move(q, place)
	}
}

// move puts an entry where it belongs now.
func (e *entry) move(q *Queues, to order.Place) {
	if e.class.rung == to {
		return
	}
	q.unreserve(e.w.ID)
	q.leave(e)
	e.rung = &to
	q.file(e, false)
}
