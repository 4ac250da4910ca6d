package sched

import (
	"time"

	"github.com/fermi-cluster/fermi/sched/predict"
)

// run is a gang that stands, as the planner follows it.
type run struct {
	Running
	listed
	need     Vector        // charged to its queue
	devices  int           // it stands on
	before   time.Duration // it ran before this time
	evicted  int           // times it had to go
	since    time.Time     // its waiting began, had it never run
	overdue  bool          // it had waited for too long: its turn is not taken away again
	leaving  bool          // it was asked to go, or to shrink
	going    Vector        // noted as such while leaving
	hosts    []string      // in whose kept room it stands, see asGuest
	resized  time.Time
	estimate predict.Estimate
	outlook
}

// listed is where a run is kept.
type listed struct {
	at     int    // in runs; -1: it runs no more
	lane   *lane  // of its queue
	inLane int    // in those of its lane
	hunted uint64 // the last search that looked at it
}

// outlook is what was worked out of a run.
type outlook struct {
	level, left memo // see runLevel and hunt.left
	end         memo // when it is expected to end
}

// memo is a number that holds until a time.
type memo struct {
	value int64
	until time.Time
}

// at works it out anew for another time.
func (m *memo) at(now time.Time, work func() int64) int64 {
	if now.IsZero() || !m.until.Equal(now) {
		m.value, m.until = work(), now
	}
	return m.value
}

// Run says that a gang stands since a time: a placement found in the store. Plan does it for those
// it starts. One that runs already is left alone.
func (q *Queues) Run(now time.Time, c *Cluster, w *Workload, at Assignment, since time.Time) {
	if _, ok := q.running[w.ID]; ok {
		return
	}
	q.unwait(w.ID)
	q.run(q.notBefore(now), c, w, at, since, false)
}

// notBefore holds a clock that went back, or is not there, to the last turn.
func (q *Queues) notBefore(now time.Time) time.Time {
	if now.Before(q.now) {
		return q.now
	}
	return now
}

func (q *Queues) run(now time.Time, c *Cluster, w *Workload, at Assignment, since time.Time, overdue bool) {
	var p past
	if known := q.past[w.ID]; known != nil {
		p = *known
	}
	sized, l := resized(w, at), q.lane(w.Queue)
	r := &run{
		Running: Running{Workload: w, At: at, Since: since}, listed: listed{at: len(q.runs), lane: l}, need: sized.takes(c, at), devices: devicesOf(sized),
		before: p.ran, evicted: p.evicted, resized: since, estimate: q.estimate(w), overdue: overdue,
		since: w.Submitted.Add(p.ran),
	}
	q.running[w.ID] = r
	q.runs = append(q.runs, r)
	l.runs.Put(r, w.Priority)
	q.standing.Put(r, r.At.Stands())
	q.tree.Charge(now, w.Queue, r.need)
	l.weigh(r, +1, q.now)
	if elastic(w) {
		q.elastic++
	}
}

// Stop says that a gang no longer stands. A finished one is learned from and forgotten; any other
// may wait again. Unknown is fine.
func (q *Queues) Stop(now time.Time, id string, finished bool) {
	now = q.notBefore(now)
	r := q.unrun(now, id)
	if finished {
		delete(q.past, id)
		if r != nil {
			q.Learn(r.Workload, r.ran(now))
		}
	} else if r != nil {
		p := q.history(id)
		p.ran, p.evicted = r.ran(now), r.evicted
		if r.leaving {
			p.evicted++
		}
	}
}

// Expect is how much longer a workload runs on average, having run for a while already.
func (q *Queues) Expect(w *Workload, already time.Duration) time.Duration {
	return q.estimate(w).Mean(already)
}

// unrun takes a run out of the books.
func (q *Queues) unrun(now time.Time, id string) *run {
	r, ok := q.running[id]
	if !ok {
		return nil
	}
	delete(q.running, id)
	if elastic(r.Workload) {
		q.elastic--
	}
	last := len(q.runs) - 1
	q.runs[r.at] = q.runs[last]
	q.runs[r.at].at = r.at
	q.runs[last] = nil
	q.runs = q.runs[:last]
	r.at = -1
	q.standing.Take(r, r.At.Stands())
	r.lane.runs.Take(r, r.Workload.Priority)
	q.tree.Refund(now, r.Workload.Queue, r.need)
	r.lane.weigh(r, -1, q.now)
	q.gone(r)
	return r
}

// Lies is where it is among those of its lane.
func (r *run) Lies() *int { return &r.inLane }

// ran is how long it has run in all.
func (r *run) ran(now time.Time) time.Duration { return r.before + max(now.Sub(r.Since), 0) }

// Runs counts gangs that stand.
func (q *Queues) Runs() int { return len(q.runs) }

// resized is a workload with as many replicas as it stands on.
func resized(w *Workload, at Assignment) *Workload {
	same := true
	for i := range w.Roles {
		same = same && len(at[i]) == w.Roles[i].Replicas
	}
	if same {
		return w
	}
	return withReplicas(w, func(i int) int { return len(at[i]) })
}

func withReplicas(w *Workload, count func(role int) int) *Workload {
	out := *w
	out.Roles = make([]Role, len(w.Roles))
	for i, r := range w.Roles {
		r.Replicas = count(i)
		out.Roles[i] = r
	}
	return &out
}

// lift takes a held gang off the cluster for a look at what would be without it; put is its exact
// inverse. Neither is something that happened: nothing was freed.
func (c *Cluster) lift(id string) *hold {
	h := c.holds[id]
	if h != nil {
		delete(c.holds, id)
		c.move(h.roles, h.at, -1)
	}
	return h
}

func (c *Cluster) put(id string, h *hold) {
	if h != nil {
		c.holds[id] = h
		c.move(h.roles, h.at, +1)
	}
}
