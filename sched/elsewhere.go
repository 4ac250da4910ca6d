package sched

import (
	"fmt"
	"time"
)

// Elsewhere looks for a second place for a gang that stands, with it where it is: w is the gang as
// it stands, with the rules for the new place. Nothing is taken that is kept for others if there is
// any other room, and never what others were asked to leave for somebody. The cluster is unchanged.
func Elsewhere(c *Cluster, q *Queues, w *Workload) (Assignment, bool) {
	t := newExplainer(q.now, c, q, w).turn()
	if at, ok := t.placeBeside(w, q.reservations()); ok {
		return at, true
	}
	return t.placeBeside(w, t.firm())
}

// ExplainElsewhere says why Elsewhere found nothing. The limits of its queue are not asked: the gang
// uses no more there than here.
func ExplainElsewhere(c *Cluster, q *Queues, w *Workload) Explanation {
	x := newExplainer(q.now, c, q, w)
	var ex Explanation
	switch {
	case len(x.zones) == 0:
		ex = x.noZone()
	case !x.anyNode():
		ex = x.noNodes()
	case fitsOn(c, w):
		ex = x.reserved(x.entry(w))
	default:
		ex = x.noRoom()
	}
	ex.Change, ex.Action = Change{}, Change{}.Text() // changes are for those that wait
	return ex
}

// Loss is what a gang loses if it has to start anew and saves nothing before.
type Loss struct {
	Since   time.Duration // since its last checkpoint, or since it stands
	Restart time.Duration
	Devices int
	// Total is device time: one device for a gang that has none.
	Total time.Duration
}

// Loss says what a gang that stands would lose now; ok is false when it does not stand.
func (q *Queues) Loss(now time.Time, id string) (Loss, bool) {
	r, ok := q.running[id]
	if !ok {
		return Loss{}, false
	}
	return r.loss(q.notBefore(now)), true
}

func (r *run) loss(now time.Time) Loss {
	since := r.Since
	if r.Workload.LastCheckpoint.After(since) {
		since = r.Workload.LastCheckpoint
	}
	l := Loss{Since: max(now.Sub(since), 0), Restart: r.Workload.RestartCost, Devices: r.devices}
	l.Total = time.Duration(r.times(l.Since+l.Restart)) * time.Millisecond
	return l
}

// Know says what was measured of a gang that stands: when it last saved, and what a start costs it.
func Know(q *Queues, id string, saved time.Time, restart time.Duration) {
	r, ok := q.running[id]
	if !ok || r.Workload.LastCheckpoint.Equal(saved) && r.Workload.RestartCost == restart {
		return
	}
	w := *r.Workload // others may look at the old one
	w.LastCheckpoint, w.RestartCost = saved, restart
	r.Workload = &w
}

// Leaving says that a gang was asked to go for a reason that the planner did not give: it is nobody's
// victim any more, and is not proposed to move.
func (q *Queues) Leaving(id string) {
	if r, ok := q.running[id]; ok {
		r.leaving = true
	}
}

// second names the place that a gang that stands has reserved elsewhere.
func second(id string) string { return id + "\x00second" }

// Reserve gives a gang that stands a second place. Its queue pays for one.
func (c *Cluster) Reserve(id string, at Assignment) error {
	h, ok := c.holds[id]
	if !ok {
		return fmt.Errorf("%s does not stand", id)
	}
	return c.Hold(second(id), h.roles, at)
}

// Unreserve gives a second place back; none is fine.
func (c *Cluster) Unreserve(id string) { c.Release(second(id)) }

// Reserved says where a gang has its second place.
func (c *Cluster) Reserved(id string) (Assignment, bool) { return c.Held(second(id)) }

// Moved says that a gang stands elsewhere since a time: as a rule at its second place, which is given
// back first. What it did before counts as having run.
func Moved(now time.Time, c *Cluster, q *Queues, id string, at Assignment, since time.Time) error {
	r, ok := q.running[id]
	if !ok {
		return fmt.Errorf("%s does not run", id)
	}
	c.Unreserve(id)
	old := c.lift(id)
	if err := c.Hold(id, r.Workload.Roles, at); err != nil {
		c.put(id, old)
		return err
	}
	c.freed++
	r.leaving = false // it did not have to wait
	q.Stop(now, id, false)
	q.Run(now, c, r.Workload, at, since)
	return nil
}

// Running finds a gang that stands.
func (q *Queues) Running(id string) (*Workload, bool) {
	r, ok := q.running[id]
	if !ok {
		return nil, false
	}
	return r.Workload, true
}
