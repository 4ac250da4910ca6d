package sched

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
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

// place looks for room: in one zone, then in the zones of one region, then anywhere allowed;
// healthy zones before degraded ones. Within a set of zones it is first fit by node number.
func place(c *Cluster, w *Workload) (Assignment, bool) {
	zones := allowed(c, w)
	for _, z := range zones {
		if at, ok := firstFit(c, w, []*zone{z}); ok {
			return at, true
		}
	}
	if w.Replicas() == 1 {
		return nil, false
	}
	tried := map[string]bool{}
	for _, z := range zones {
		if z.Region == "" || tried[z.Region] {
			continue
		}
		tried[z.Region] = true
		var same []*zone
		for _, other := range zones {
			if other.Region == z.Region {
				same = append(same, other)
			}
		}
		if len(same) > 1 {
			if at, ok := firstFit(c, w, same); ok {
				return at, true
			}
		}
	}
	if len(zones) > 1 {
		return firstFit(c, w, zones)
	}
	return nil, false
}

func allowed(c *Cluster, w *Workload) []*zone {
	var out []*zone
	for _, z := range c.order {
		if (len(w.Allow) == 0 || slices.Contains(w.Allow, z.Name)) && !slices.Contains(w.Deny, z.Name) {
			out = append(out, z)
		}
	}
	return out
}

// firstFit tries the gang on these zones' nodes in order. The cluster is as before on return.
func firstFit(c *Cluster, w *Workload, zones []*zone) (Assignment, bool) {
	at := make(Assignment, len(w.Roles))
	defer func() {
		for i, slots := range at {
			for _, s := range slots {
				c.take(s, w.Roles[i].Need, -1)
			}
		}
	}()
	for i, role := range w.Roles {
		left := role.Replicas
		for _, z := range zones {
			for _, n := range z.nodes {
				for left > 0 {
					mask, why := c.fit(n, role.Need)
					if why != fits {
						break
					}
					slot := api.Slot{Node: n.Number, Devices: mask}
					c.take(slot, role.Need, +1)
					at[i] = append(at[i], slot)
					left--
				}
				if left == 0 {
					break
				}
			}
		}
		if left > 0 {
			return nil, false
		}
	}
	return clone(at), true
}

// clone keeps the result apart from what firstFit gives back.
func clone(at Assignment) Assignment {
	out := make(Assignment, len(at))
	for i := range at {
		out[i] = slices.Clone(at[i])
	}
	return out
}
