package sched

import (
	"cmp"
	"slices"
	"time"
)

// Refuge is what becomes of a gang when a zone is lost.
type Refuge struct {
	ID       string
	Replicas int
	Lost     int // replicas that stand in the zone
	// To is where it would go, replicas by zone; empty where it waits, and then Why says why.
	To  map[string]int
	Why Explanation
}

// maxRefuges bounds how many gangs one question follows.
const maxRefuges = 1000

// Outage says where each gang that stands in a zone would go if the zone were lost now, the first to
// be served first; more counts those that were not followed. A gang that loses a replica is placed
// anew as a whole. Nothing changes.
func Outage(now time.Time, c *Cluster, q *Queues, zone string) (list []Refuge, more int) {
	lost := q.standingIn(c, zone)
	more = max(len(lost)-maxRefuges, 0)
	lost = lost[:len(lost)-more]
	defer c.closeZone(zone)()
	was := make([]*hold, len(lost))
	for i, r := range lost {
		was[i] = c.lift(r.Workload.ID)
	}
	x := exile{now: q.notBefore(now), c: c, q: q, zone: zone, refused: map[string]Explanation{}}
	for _, r := range lost {
		list = append(list, x.refuge(r))
	}
	for i, r := range lost {
		c.lift(r.Workload.ID)
		c.put(r.Workload.ID, was[i])
	}
	return list, more
}

// standingIn are the gangs with a replica in a zone: higher priority first, then older ones.
func (q *Queues) standingIn(c *Cluster, zone string) []*run {
	var out []*run
	for _, r := range q.runs {
		if c.inZone(r.At, zone) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.Workload.Priority, a.Workload.Priority), cmp.Compare(a.Workload.ID, b.Workload.ID))
	})
	return out
}

func (c *Cluster) inZone(at Assignment, zone string) (n int) {
	for _, slots := range at {
		for _, s := range slots {
			if node := c.nodes[s.Node]; node != nil && node.Zone == zone {
				n++
			}
		}
	}
	return n
}

// closeZone closes all nodes of a zone; the result opens them again.
func (c *Cluster) closeZone(name string) (restore func()) {
	var numbers []uint32
	if z, ok := c.zones[name]; ok {
		for _, n := range z.nodes {
			numbers = append(numbers, n.Number)
		}
	}
	return (&search{c: c, w: &Workload{Nodes: Nodes{Avoid: numbers}}}).avoid()
}

// exile finds places for the gangs of a lost zone, one after the other.
type exile struct {
	now     time.Time
	c       *Cluster
	q       *Queues
	zone    string
	refused map[string]Explanation // by shape: it only gets fuller
}

func (x *exile) refuge(r *run) Refuge {
	w := *r.Workload
	w.Deny = append(slices.Clone(w.Deny), x.zone)
	out := Refuge{ID: w.ID, Lost: x.c.inZone(r.At, x.zone)}
	for _, slots := range r.At {
		out.Replicas += len(slots)
	}
	shape := w.shape()
	why, refused := x.refused[shape]
	if !refused {
		for _, size := range slices.Compact([]*Workload{&w, smallest(&w)}) {
			at, ok := place(x.c, size)
			if !ok || x.c.Hold(w.ID, w.Roles, at) != nil {
				continue
			}
			out.To = map[string]int{}
			for _, slots := range at {
				for _, s := range slots {
					out.To[x.c.nodes[s.Node].Zone]++
				}
			}
			return out
		}
		e := newExplainer(x.now, x.c, x.q, &w)
		if why = e.noZone(); len(e.zones) > 0 {
			why = e.noRoom()
		}
		x.refused[shape] = why
	}
	out.Why = why
	return out
}
