package sched

import (
	"slices"
	"time"
)

// Policy is how to decide. The zero value is priority, FIFO, gang, first fit.
type Policy struct {
	// MaxDecisions bounds one call, so that the caller can commit in between; 0 is 256.
	MaxDecisions int
}

// Decision places one gang.
type Decision struct {
	Workload *Workload
	At       Assignment
}

// Result is what Plan decided. More says that MaxDecisions cut it short.
type Result struct {
	Decisions []Decision
	More      bool
}

// Plan decides who starts now. Its decisions are already applied: the gangs are held and no
// longer wait. If one can't be committed, give it to Undo.
func Plan(_ time.Time, c *Cluster, q *Queues, p Policy) Result {
	limit := p.MaxDecisions
	if limit <= 0 {
		limit = 256
	}
	var res Result
	work := q.candidates(c.freed)
	failed := map[string]bool{} // shapes refused in this call: the cluster only gets fuller
	for len(work) > 0 {
		cl := work[0]
		w := cl.head()
		if w == nil {
			work = work[1:]
			continue
		}
		if len(res.Decisions) == limit {
			res.More = true
			return res
		}
		at, ok := Assignment(nil), false
		if !failed[cl.shape] {
			at, ok = place(c, w)
		}
		if !ok {
			failed[cl.shape] = true
			cl.triedAt = max(c.freed, 1)
			work = work[1:]
			continue
		}
		if err := c.Hold(w.ID, w.Roles, at); err != nil {
			panic("sched: placed what can't be held: " + err.Error())
		}
		q.Remove(w.ID)
		res.Decisions = append(res.Decisions, Decision{w, at})
		work = reorder(work)
	}
	return res
}

// reorder puts the first class, whose head just left, back where its next head belongs.
func reorder(work []*class) []*class {
	cl := work[0]
	rest := work[1:]
	if cl.head() == nil {
		return rest
	}
	at, _ := slices.BinarySearchFunc(rest, cl, before)
	copy(work, rest[:at])
	work[at] = cl
	return work
}

// Undo takes a decision back: the gang waits again.
func Undo(c *Cluster, q *Queues, d Decision) {
	c.Release(d.Workload.ID)
	q.Add(d.Workload)
}
