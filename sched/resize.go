package sched

import (
	"fmt"
	"slices"
	"time"
)

// Resize changes how many replicas of an elastic gang there are. One that grows is applied already;
// Resized with Was takes it back. One that shrinks for another is a wish: say Resized when it was done.
type Resize struct {
	ID      string
	At, Was Assignment
	For     string // "": it grows
}

func atLeast(r *Role) int {
	if r.Min > 0 && r.Min < r.Replicas {
		return r.Min
	}
	return r.Replicas
}

func atMost(r *Role) int { return max(r.Max, r.Replicas) }

// fixed says that a gang keeps the size that it asked for: another would not fit what it says of zones.
func fixed(w *Workload) bool { return w.Survive || len(w.Split) > 0 }

// smallest is a gang at its least size: itself when it is not elastic.
func smallest(w *Workload) *Workload {
	if fixed(w) {
		return w
	}
	for i := range w.Roles {
		if atLeast(&w.Roles[i]) < w.Roles[i].Replicas {
			return withReplicas(w, func(i int) int { return atLeast(&w.Roles[i]) })
		}
	}
	return w
}

// elastic says that a gang may have more or fewer replicas than it asks for.
func elastic(w *Workload) bool {
	return !fixed(w) && slices.ContainsFunc(w.Roles, func(r Role) bool { return atLeast(&r) < r.Replicas || atMost(&r) > r.Replicas })
}

// spare says that a run stands on more than its least size.
func spare(r *run) bool {
	if fixed(r.Workload) {
		return false
	}
	for i := range r.At {
		if len(r.At[i]) > atLeast(&r.Workload.Roles[i]) {
			return true
		}
	}
	return false
}

// least is where a run would stand at its least size: its last replicas go.
func least(r *run) Assignment {
	out := make(Assignment, len(r.At))
	for i, slots := range r.At {
		out[i] = slots[:min(len(slots), atLeast(&r.Workload.Roles[i]))]
	}
	return out
}

// Resized says that a gang stands elsewhere or on more or fewer replicas now.
func Resized(now time.Time, c *Cluster, q *Queues, id string, at Assignment) error {
	r, ok := q.running[id]
	if !ok {
		return fmt.Errorf("%s does not run", id)
	}
	w := r.Workload
	if len(at) != len(w.Roles) {
		return fmt.Errorf("%s: %d roles, %d assigned", id, len(w.Roles), len(at))
	}
	old := c.lift(id)
	if err := c.Hold(id, w.Roles, at); err != nil {
		c.put(id, old)
		return err
	}
	c.freed++
	sized := resized(w, at)
	q.tree.Refund(now, w.Queue, r.need)
	r.lane.weigh(r, -1, q.now)
	r.outlook = outlook{}
	q.standing.Take(r, r.At.Stands())
	r.At, r.need, r.devices, r.resized, r.leaving = at, sized.takes(c, at), devicesOf(sized), now, false
	r.lane.weigh(r, +1, q.now)
	q.standing.Put(r, r.At.Stands())
	q.tree.Charge(now, w.Queue, r.need)
	q.gone(r)
	return nil
}

// grow gives what nobody waits for to elastic gangs that have stood for a quantum as they are.
func (t *turn) grow() {
	if t.q.elastic == 0 || t.q.pressing() > 0 || t.now.Before(t.q.growAt) {
		return
	}
	t.q.growAt = t.now.Add(t.p.Quantum / 10)
	for _, r := range slices.Clone(t.q.runs) {
		if len(t.res.Resizes) >= t.p.MaxDecisions {
			t.res.More = true
			return
		}
		if r.leaving || len(r.Workload.Split) > 0 || t.now.Sub(r.resized) < t.p.Quantum {
			continue
		}
		was := r.At
		at, grew := t.larger(r)
		if !grew {
			continue
		}
		if err := Resized(t.now, t.c, t.q, r.Workload.ID, at); err != nil {
			panic("sched: grew where there is no room: " + err.Error())
		}
		t.res.Resizes = append(t.res.Resizes, Resize{ID: r.Workload.ID, At: at, Was: was})
	}
}

// larger adds replicas one by one while there is room and the queue's limit allows.
func (t *turn) larger(r *run) (Assignment, bool) {
	w, at, grew := r.Workload, slices.Clone(r.At), false
	freed := t.c.freed
	var held []string
	var charged []Vector
	for i := range w.Roles {
		one := withReplicas(w, func(k int) int {
			if k == i {
				return 1
			}
			return 0
		})
		for len(at[i]) < atMost(&w.Roles[i]) {
			one.Allow, one.Avoid = t.c.besides(w, at)
			allowed, _, ok := one.within(t.c, t.q.tree.Room, false)
			if !ok {
				break
			}
			more, ok := place(t.c, allowed)
			if !ok {
				break
			}
			need := one.takes(t.c, more)
			id := fmt.Sprintf("\x00grow %d", len(held))
			if t.c.Hold(id, one.Roles, more) != nil {
				break
			}
			t.q.tree.Try(w.Queue, need, +1)
			held, charged = append(held, id), append(charged, need)
			at[i] = append(slices.Clip(at[i]), more[i]...)
			grew = true
		}
	}
	for k, id := range held {
		t.c.Release(id)
		t.q.tree.Try(w.Queue, charged[k], -1)
	}
	t.c.freed = freed
	return at, grew
}

// besides is where one more replica may stand: in the zones the gang is in, so that none is too far
// from another, and not in a rack that has as many as it may.
func (c *Cluster) besides(w *Workload, at Assignment) (zones []string, avoid []uint32) {
	t := c.topology()
	inRack := map[rackID]int{}
	for _, slots := range at {
		for _, s := range slots {
			n := c.nodes[s.Node]
			inRack[t.rackOf(n.at)]++
			if !slices.Contains(zones, n.Zone) {
				zones = append(zones, n.Zone)
			}
		}
	}
	avoid = w.Avoid
	if most := w.Topology.MaxPerRack; most > 0 {
		avoid = slices.Clone(avoid)
		for _, n := range t.nodes {
			if inRack[t.rackOf(n.at)] >= most {
				avoid = append(avoid, n.Number)
			}
		}
	}
	return zones, avoid
}
