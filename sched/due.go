package sched

import (
	"cmp"
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/order"
)

// Who has waited for the longest wait is overdue. It keeps its place in the order of its queue, and
// stands in a second line besides, by age alone.
//
// The simple story: the line of the overdue goes first. When a queue gets more work than it can do,
// everybody is overdue sooner or later, and a queue that then went by age alone would serve nobody
// well: the short would wait for the long. So the overdue have a share of what the queue holds, now
// and in the last hours. It is nearly all of it while the overdue could be served in a small part of
// the longest wait, and falls as they become more: with L the longest wait and T the time in which
// the whole queue would do all that is overdue, L / (L + overdueWeight × T). Within the share an
// overdue workload goes before everybody and keeps its place; beyond it it has its place in the
// order like everybody.
//
// So a load that the queue can bear keeps the promise of the longest wait, and an overload degrades:
// nobody is forgotten, since the share never falls to nothing and the oldest has it; nobody who is new
// waits for a whole backlog, since the others have the rest.
const (
	// overdueWeight: work for a quarter of the longest wait halves the share.
	overdueWeight = 4
	// overdueHalfLife is how fast it is forgotten how much the overdue held. A gang that is larger
	// than their share gets it in turns of hours.
	overdueHalfLife = 12 * time.Hour
)

// dueLine is what a lane knows of its overdue.
type dueLine struct {
	due    order.Shelf[dueClass] // the classes that are overdue
	ageing order.Heap[ageing]    // who is not overdue yet, by when its waiting began
	// heldDue is how many devices those hold that went first because they were overdue; recent is their
	// share in the last hours, as of faded.
	heldDue int
	recent  float64
	faded   time.Time
	// overdueWork is what the overdue that wait are expected to take, in device seconds.
	overdueWork int64
}

// begin counts an entry that waits from now on.
func (l *lane) begin(q *Queues, e *entry) {
	e.work = int64(q.estimate(e.w).Mean(q.ran(e.w.ID))/time.Second) * int64(max(devicesOf(e.w), 1))
	l.ageing.Push(ageing{e})
	l.dates.add(e)
}

// forget is for one that waits no more.
func (l *lane) forget(e *entry) {
	if e.work == 0 {
		return
	}
	l.dates.drop(e)
	if e.age >= 0 {
		l.ageing.Remove(ageing{e})
	} else {
		l.overdueWork -= e.work
	}
	e.work = 0
}

// age moves those that have waited for too long into the overdue classes.
func (l *lane) age(q *Queues) {
	for l.ageing.Len() > 0 && !q.now.IsZero() { // without a time nobody ages
		e := l.ageing.Top().entry
		if e.since.IsZero() { // came before the first turn and did not say when
			e.since = q.now
			l.ageing.Fix(ageing{e})
			continue
		}
		if q.now.Sub(e.since) < q.longest {
			return
		}
		l.ageing.Remove(ageing{e})
		l.overdueWork += e.work
		l.dates.drop(e)
		if e.claim == nil {
			q.leave(e)
			q.file(e, true)
		}
	}
}

// ageing is an entry among those that are not overdue.
type ageing struct{ *entry }

// Before is by when waiting began.
func (e ageing) Before(other ageing) bool {
	return cmp.Or(e.since.Compare(other.since), cmp.Compare(e.w.ID, other.w.ID)) < 0
}

// Lies is where it is among them.
func (e ageing) Lies() *int { return &e.age }

// dueClass is a class in the line of the overdue.
type dueClass struct{ *class }

// Rank goes by age.
func (c dueClass) Rank() order.Rank {
	return order.Rank{Priority: c.priority, Overdue: true, Age: c.entries.Top().w.ID}
}

// Where is for the line of the overdue.
func (c dueClass) Where() *order.Spot { return &c.dueSpot }

// put makes a class ready, park lays it aside, drop takes it away and fix finds its place again.
func (l *lane) put(c *class) {
	l.shelf.Put(c)
	if c.overdue {
		l.due.Put(dueClass{c})
	}
}

func (l *lane) park(c *class) {
	l.shelf.Park(c)
	if c.overdue {
		l.due.Park(dueClass{c})
	}
}

func (l *lane) drop(c *class) {
	l.shelf.Drop(c)
	if c.overdue {
		l.due.Drop(dueClass{c})
	}
}

func (l *lane) fix(c *class) {
	l.shelf.Fix(c)
	if c.overdue {
		l.due.Fix(dueClass{c})
	}
}

func (l *lane) unpark() {
	l.shelf.Unpark()
	l.due.Unpark()
}

// best is the class to serve, and whether it goes first because it is overdue.
func (l *lane) best(q *Queues) (c *class, urgent, ok bool) {
	c, ok = l.shelf.Best()
	if !ok {
		return nil, false, false
	}
	if d, some := l.due.Best(); some && d.priority >= c.priority && l.goesFirst(q, d.entries.Top()) {
		return d.class, true, true
	}
	return c, false, true
}

// goesFirst says that an overdue workload goes before those that are not: it and those before it hold no more than the
// overdue may now. That is their share, less what they held beyond it in the last hours: so one that was passed is made up for
// bit by bit, and it is not that all of them start at once when it is, and none until then.
func (l *lane) goesFirst(q *Queues, e *entry) bool {
	share := l.overdueShare(q.longest)
	may := share - max(l.recent-share, 0)
	due := l.heldDue
	for _, c := range q.claims {
		if c.entry.urgent && c.queue == l.name {
			due += c.devices
		}
	}
	for _, r := range q.reserved {
		if r.rank.Overdue && r.queue == l.name && r.rank.Age < e.w.ID {
			due += r.devices
		}
	}
	return float64(due) <= may*float64(l.held)
}

// overdueShare is the share of what a queue holds that its overdue may have.
func (l *lane) overdueShare(longestWait time.Duration) float64 {
	longest := longestWait.Seconds()
	if longest <= 0 || l.overdueWork <= 0 {
		return 1
	}
	return longest / (longest + overdueWeight*float64(l.overdueWork)/float64(max(l.held, 1)))
}

// keepsPlace says that no equal may take a run's place: it was overdue, and those have no more than
// their share.
func (r *run) keepsPlace(q *Queues) bool {
	if !r.overdue {
		return false
	}
	return r.lane.recent <= r.lane.overdueShare(q.longest)
}

// fade brings what the overdue held lately up to now.
func (l *lane) fade(now time.Time) {
	if dt := now.Sub(l.faded); dt > 0 {
		if !l.faded.IsZero() {
			keep := math.Exp2(-float64(dt) / float64(overdueHalfLife))
			l.recent = l.recent*keep + float64(l.heldDue)/float64(max(l.held, 1))*(1-keep)
		}
		l.faded = now
	}
}

// weigh counts what a run holds for its lane.
func (l *lane) weigh(r *run, sign int, now time.Time) {
	l.fade(now)
	l.held += sign * r.devices
	if r.overdue {
		l.heldDue += sign * r.devices
	}
}

// overdueEvidence says how an overdue workload stands: it goes first, or shares with the others.
func (q *Queues) overdueEvidence(e *entry) []Evidence {
	if e.class == nil || !e.class.overdue {
		return nil
	}
	l := q.lane(e.w.Queue)
	if l.goesFirst(q, e) {
		return []Evidence{{
			Fact: "OverdueFirst", Text: api.T("hours it has waited: it is overdue and goes before all others of its priority in its queue", "小时：已超过最长等待时间，在本队列同优先级中最先调度"),
			Count: int(q.now.Sub(e.since).Hours()),
		}}
	}
	return []Evidence{{
		Fact: "OverdueShare", Text: api.T("percent of its queue's devices go to the overdue by age; there is more overdue work than the queue can do in time, so beyond that share it waits for its place in the order", "百分比：超期任务过多，只有这一份额的加速卡按等待时长分配，其余按正常次序"),
		Count: int(100 * l.overdueShare(q.longest)),
	}}
}
