package sched

import (
	"slices"
	"time"
)

// Policy is how to decide. Zero values are the defaults.
type Policy struct {
	// MaxDecisions bounds one call, so that the caller can commit in between; 0 is 256.
	MaxDecisions int
	// LongestWait is when a workload is overdue and goes before all others of its priority, as long as
	// the overdue have no more than their share; 0 is three days. It is not a promise of a start, only
	// of the first place.
	LongestWait time.Duration
	// Quantum is for how long a gang stands before its equals may ask for its place, and how often
	// victims are looked for when none were found; 0 is ten minutes.
	Quantum time.Duration
	// Grace is how long a victim has to write its checkpoint; 0 is two minutes.
	Grace time.Duration
	// Reservations bounds how many gangs have one at a time; 0 is 8, below 0 is none.
	Reservations int
	// NoPreemption takes nobody's place away; NoTurns takes it only for priority and guarantees.
	NoPreemption, NoTurns bool
	// Moves says which gangs may be asked to move so that another one starts; nil: none. See makeroom.go.
	Moves func(*Workload) bool
}

func (p Policy) withDefaults() Policy {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&p.LongestWait, 72*time.Hour)
	or(&p.Quantum, 10*time.Minute)
	or(&p.Grace, 2*time.Minute)
	if p.MaxDecisions <= 0 {
		p.MaxDecisions = 256
	}
	if p.Reservations == 0 {
		p.Reservations = 8
	}
	return p
}

const (
	// maxWork bounds what one call does for those that don't start, so that a long backlog can't hold up
	// who comes next: a refusal is one, and what looks at runs is one for every workRuns of them.
	// What is left over is done by the next call, which goes on where this one ended.
	// Of a run that may go its sets are sorted, and it is lifted: that is as much as a look at workSets.
	maxWork, workRuns, workSets = 160, 128, 4
	// maxSearches bounds how often one call looks for victims, maxForecasts how often for a time.
	maxSearches, maxForecasts = 16, 16
	// After idleSweeps sweeps over the refused that let nobody start, the next ones are at least
	// sweepPause apart: in a busy cluster something is freed all the time.
	idleSweeps = 16
	sweepPause = 100 * time.Millisecond
)

// Decision places one gang. A role that is elastic may have fewer slots than replicas.
type Decision struct {
	Workload *Workload
	At       Assignment
}

// Result is what Plan decided.
type Result struct {
	Decisions []Decision
	// Evictions asks gangs to go. They still stand: whoever they make room for starts in a later
	// call, once Stop was said for all of them.
	Evictions []Eviction
	// Resizes are elastic gangs that grow (already applied), or are asked to shrink for another.
	Resizes []Resize
	// Reservations are all there are now.
	Reservations []Reservation
	// More says that a bound cut the call short: call again.
	More bool
	// Wake is when to call again even if nothing happens; zero is never.
	Wake time.Time
	Held int // how many wait for better hours
}

// turn is one call of Plan.
type turn struct {
	now time.Time
	c   *Cluster
	q   *Queues
	p   Policy
	res Result
	// noRoom are shapes that fit nowhere: in one turn it only gets fuller. kept are shapes that fit
	// only where others are expected.
	noRoom, kept map[string]bool
	ends         *endings
	work         int // see maxWork
	searches     int
	forecasts    int
	useful       bool // somebody started who had been refused
}

// Plan decides who starts now. Its decisions are already applied: the gangs are held and run, and
// no longer wait. If one can't be committed, give it to Undo.
func Plan(now time.Time, c *Cluster, q *Queues, p Policy) Result {
	now = q.notBefore(now)
	q.now, c.market.now = now, now
	t := &turn{now: now, c: c, q: q, p: p.withDefaults(), noRoom: map[string]bool{}, kept: map[string]bool{}, ends: &q.ends}
	q.ends.stale = true
	q.tree.SetTotal(c.Total())
	q.letGo(now, c)
	q.longest = t.p.LongestWait
	for _, name := range q.names {
		l := q.lanes[name]
		l.fade(now)
		l.age(q)
		l.arrange(q)
	}
	q.reserved = slices.DeleteFunc(q.reserved, func(r *Reservation) bool {
		// Nothing is kept for who may not start, nor for one that others now go before: who comes to its
		// turn is looked at every quantum, and has its reservation worked out again.
		_, paused := q.tree.Paused(r.queue)
		return paused || now.After(r.replan.Add(2*t.p.Quantum))
	})
	t.serveClaims()
	// Who came and started is told at once; the others are served by the next call, which does only a part where more came.
	if t.serveArrivals() {
		if q.hurried < maxHurried {
			q.hurried++
			t.res.More = true
			t.finish()
			return t.res
		}
		t.work = maxWork - hurriedWork
	}
	q.hurried = 0
	swept := t.sweep()
	for t.bounded() {
		name, ok := q.tree.Next(now)
		if !ok {
			q.unfinished = false
			break
		}
		l := q.lanes[name]
		if cl, urgent, ok := l.best(q); ok {
			t.serve(l, cl, urgent)
		}
	}
	t.grow()
	q.moves.look(t)
	if swept {
		q.idle++
		if t.useful {
			q.idle = 0
		}
	}
	t.finish()
	return t.res
}

// bounded says whether the turn may go on.
func (t *turn) bounded() bool {
	if len(t.res.Decisions)+len(t.res.Evictions) < t.p.MaxDecisions && t.work < maxWork {
		return true
	}
	t.res.More = t.q.ready() > 0
	t.q.unfinished = t.res.More
	return false
}

// sweeps says that those that were refused are to be ready again: something was freed since, or time passed. Those that the last
// sweep did not come to, the ready, have their turn first.
func (r *rhythm) sweeps(now time.Time, freed uint64, ready int) bool {
	due := !now.Before(r.sweepAt) || !r.patience.IsZero() && !now.Before(r.patience)
	return (due || r.swept != freed && (r.idle < idleSweeps || !now.Before(r.pausedTo))) && !(r.unfinished && ready > 0)
}

// sweep makes them ready.
func (t *turn) sweep() bool {
	q := t.q
	if !q.sweeps(t.now, t.c.freed, q.ready()) {
		return false
	}
	q.swept, q.sweepAt, q.pausedTo = t.c.freed, t.now.Add(t.p.Quantum), t.now.Add(sweepPause)
	q.patience = time.Time{}
	q.unpark()
	return true
}

// maxArrivals is how many of those that came last are looked at before their turn, maxHurried how many calls in a row do nothing else,
// hurriedWork what the next one does besides.
const maxArrivals, maxHurried, hurriedWork = 16, 2, maxWork / 3

// serveArrivals starts those that came since the last turn and fit: they don't wait until all who can't
// start have been refused once more. It says whether one did that others would have been looked at before.
func (t *turn) serveArrivals() (hurried bool) {
	q := t.q
	others := q.unfinished || q.parked() > 0 && q.sweeps(t.now, t.c.freed, q.ready())
	for _, id := range q.arrived {
		if e := q.waiting[id]; others && e != nil && e.at >= 0 && e.mayHurry(q) {
			if at, ok := t.room(e); ok && t.staysAt(e, at) {
				if at, e.home = t.besideData(e, at); e.home == nil {
					t.start(e, at)
					hurried = true
				}
			}
		}
	}
	q.arrived = q.arrived[:0]
	return hurried
}

// mayHurry says that one that has just come may be looked at at once. Where the last turn did not come to
// everybody, whoever fits may; else nobody of its queue may be before it who could fit by now.
func (e *entry) mayHurry(q *Queues) bool {
	if _, paused := q.tree.Paused(e.w.Queue); paused || e.class.entries.Top() != e {
		return false
	}
	l := q.lane(e.w.Queue)
	first, _ := l.shelf.First()
	due, some := l.due.First()
	return q.unfinished || first == e.class && !(some && due.class != e.class && due.priority >= e.class.priority)
}

// serve tries the head of the best class.
func (t *turn) serve(l *lane, cl *class, urgent bool) {
	e := cl.entries.Top()
	e.urgent = urgent
	at, ok := t.room(e)
	if ok {
		if at, e.home = t.besideData(e, at); e.home == nil {
			t.start(e, at)
			return
		}
	}
	t.work++
	switch {
	case ok:
		t.stayHome(e)
	case t.preempt(e):
		return
	default:
		t.reserve(e, e.w)
	}
	cl.refused = true
	l.park(cl)
	t.q.count(l)
}

// start applies a decision.
func (t *turn) start(e *entry, at Assignment) {
	w := e.w
	if err := t.c.Hold(w.ID, w.Roles, at); err != nil {
		panic("sched: placed what can't be held: " + err.Error())
	}
	if !e.told.At.IsZero() {
		t.q.foresight.Add(e.told, t.now)
	}
	t.q.unwait(w.ID)
	t.q.run(t.now, t.c, w, at, t.now, e.urgent)
	t.q.running[w.ID].hosts = w.hosts(t, at)
	t.res.Decisions = append(t.res.Decisions, Decision{w, at})
	t.useful = t.useful || e.class.refused
	e.class.refused = false
}

// room looks for a place within the limits of the queue that takes nothing from those before it;
// for an elastic gang, at its full size and then at its smallest.
func (t *turn) room(e *entry) (Assignment, bool) {
	if at, ok := t.roomFor(e, e.w, e.class.shape); ok {
		return at, true
	}
	if least := smallest(e.w); least != e.w {
		return t.roomFor(e, least, e.class.shape+" least")
	}
	return nil, false
}

func (t *turn) roomFor(e *entry, w *Workload, shape string) (Assignment, bool) {
	held, _, ok := w.within(t.c, t.q.tree.Room, false)
	if held != w && ok {
		w, shape = held, shape+held.shape()
	}
	if !ok || t.noRoom[shape] {
		return nil, false
	}
	at, ok := place(t.c, w)
	if !ok {
		t.noRoom[shape] = true
		return nil, false
	}
	all := t.q.reservations()
	if !t.overlap(all, at) {
		return at, true
	}
	// Also who may stand in the way of a reservation stands elsewhere if there is room.
	if !t.kept[shape] {
		if beside, ok := t.placeBeside(w, all); ok {
			return beside, true
		}
		t.kept[shape] = true
	}
	blockers := t.blockers(e)
	if !t.overlap(blockers, at) {
		return at, true
	}
	if len(blockers) < len(all) {
		if beside, ok := t.placeBeside(w, blockers); ok {
			return beside, true
		}
	}
	return e.asGuest(t, w, at, blockers)
}

// finish leaves the books in order.
func (t *turn) finish() {
	q := t.q
	for _, r := range q.reserved {
		t.res.Reservations = append(t.res.Reservations, *r)
	}
	wake := func(at time.Time) {
		if t.res.Wake.IsZero() || at.Before(t.res.Wake) {
			t.res.Wake = at
		}
	}
	for _, name := range q.names {
		if l := q.lanes[name]; l.ageing.Len() > 0 {
			wake(l.ageing.Top().since.Add(q.longest))
		}
	}
	if t.res.Held = q.held.Len(); t.res.Held > 0 {
		wake(q.held.Top().window.Start)
	}
	if q.elastic > 0 && q.pressing() == 0 {
		wake(q.growAt)
	}
	if t.p.Moves != nil && len(q.reserved) > 0 {
		wake(q.moves.next)
	}
	if q.parked() > 0 {
		wake(q.sweepAt)
		if !q.patience.IsZero() {
			wake(q.patience)
		}
		if q.swept != t.c.freed { // a sweep is put off
			wake(q.pausedTo)
		}
	}
}

// Undo takes a decision back: the gang waits again, as if it had never stood.
func Undo(c *Cluster, q *Queues, d Decision) {
	c.Release(d.Workload.ID)
	if r, ok := q.running[d.Workload.ID]; ok {
		q.unrun(q.now, r.Workload.ID)
	}
	q.Add(d.Workload)
}
