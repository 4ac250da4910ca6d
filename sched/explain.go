package sched

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// What people are told.
type (
	Explanation = advice.Explanation
	Evidence    = advice.Evidence
	Change      = advice.Change
	Refusal     = advice.Refusal
)

// Explain says why a workload waits, which may have at most the priority top: no more is advised. ok is false when it does not wait.
func Explain(now time.Time, c *Cluster, q *Queues, id string, top int) (Explanation, bool) {
	e, ok := q.waiting[id]
	if !ok {
		return Explanation{}, false
	}
	x := newExplainer(q.notBefore(now), c, q, e.w)
	x.top = top
	ex := x.explain(e)
	ex.Evidence = append(append(ex.Evidence, q.overdueEvidence(e)...), weighed(x.zones, x.w)...)
	if e.class != nil {
		for _, other := range e.class.entries.All() {
			if other.w.ID < id {
				ex.Ahead++
			}
		}
	}
	if r, ok := q.Predicted(id); ok && !ex.Impossible && r.Start.After(x.now) && !r.guess { // a time that has passed was wrong
		ex.Start, ex.Early, ex.Late = r.Start, r.Early, r.Late
	}
	return ex, true
}

// explainer looks for the reason of one workload.
type explainer struct {
	now   time.Time
	c     *Cluster
	q     *Queues
	w     *Workload
	zones []*zone
	top   int // the highest priority that may be advised
}

func newExplainer(now time.Time, c *Cluster, q *Queues, w *Workload) *explainer {
	return &explainer{now: now, c: c, q: q, w: w, zones: allowed(c, w), top: api.HighestPriority}
}

func (x *explainer) explain(e *entry) Explanation {
	if e.claim != nil {
		return x.victims(e)
	}
	if ex, ok := x.held(e); ok {
		return ex
	}
	if name, paused := x.q.tree.Paused(x.w.Queue); paused {
		return x.paused(name)
	}
	if len(x.c.nodes) > 0 && len(x.zones) == 0 {
		return x.noZone()
	}
	if !x.anyNode() {
		return x.noNodes()
	}
	if ex, ok := x.overLimit(); ok {
		return ex
	}
	if held, _, ok := x.w.within(x.c, x.q.tree.Room, false); ok {
		x.w = held
	}
	if x.fits(x.w) {
		if e.home != nil && x.now.Before(e.home.until) {
			return x.homing(e)
		}
		return x.soon(e)
	}
	if fitsOn(x.c, x.w) {
		return x.reserved(e)
	}
	return x.noRoom()
}

// entry is a workload as if it waited; its rank and expected time are its own.
func (x *explainer) entry(w *Workload) *entry {
	overdue := false
	if e, ok := x.q.waiting[w.ID]; ok && e.class != nil {
		overdue = e.class.overdue
	}
	e := &entry{w: w, at: -1, age: -1}
	if waits, ok := x.q.waiting[w.ID]; ok {
		e.rung = waits.rung
	}
	e.class = &class{classKey: e.key(x.q, overdue)}
	e.urgent = overdue && x.q.goesFirst(x.q.lane(w.Queue), e)
	return e
}

func (x *explainer) turn() *turn {
	return &turn{now: x.now, c: x.c, q: x.q, p: Policy{NoTurns: true}.withDefaults(), noRoom: map[string]bool{}, kept: map[string]bool{}, ends: &endings{}}
}

// fits asks the planner itself whether it has room for w now.
func (x *explainer) fits(w *Workload) bool {
	_, ok := x.turn().room(x.entry(w))
	return ok
}

// admits asks whether it would start w now: there is room, and nothing better beside its data. What
// the planner may still expect there depends on who else is looked at in that turn, so a gang that
// might wait for it is not promised a start.
func (x *explainer) admits(w *Workload) bool {
	t, e := x.turn(), x.entry(w)
	at, ok := t.room(e)
	return ok && t.staysAt(e, at)
}

// empty is the same cluster with nothing on it; open: and nothing cordoned; hosts: and the machines
// behind virtual nodes run no more processes than they may. One that is so already is not copied.
func (x *explainer) empty(open, hosts bool) *Cluster {
	if len(x.c.holds) == 0 && !(open && x.c.anyClosed()) && (hosts || !x.c.hosted()) {
		return x.c
	}
	out := NewCluster()
	for _, name := range sortedKeys(x.c.hosts) {
		if hosts {
			out.SetHost(x.c.hosts[name].Host)
		}
	}
	for _, z := range x.c.order {
		out.SetZone(z.Zone)
		for _, n := range z.nodes {
			fresh := n.Node
			if open {
				fresh.Closed, fresh.ClosedDevices = false, 0
			}
			_ = out.SetNode(fresh) // it was set once, so it can be
		}
	}
	return out
}

func (c *Cluster) anyClosed() bool {
	for _, n := range c.nodes {
		if n.Closed || n.ClosedDevices != 0 {
			return true
		}
	}
	return false
}

// hosted says that some node is virtual.
func (c *Cluster) hosted() bool {
	for _, h := range c.hosts {
		if h.nodes > 0 {
			return true
		}
	}
	return false
}

// fitsBare asks whether the gang would fit if nothing else stood anywhere; open: and nothing was
// cordoned. How many processes a machine behind virtual nodes runs is left out: that is no property
// of the cluster. One role in one zone is only counted; anything else is tried on an empty cluster.
func (x *explainer) fitsBare(open bool) bool {
	w := smallest(x.w)
	simple := len(w.Roles) == 1 && !w.Survive && len(w.Split)+len(w.Avoid) == 0 && w.Only == "" && w.Topology.MaxPerRack == 0
	for i := 0; simple && i < w.Roles[0].Need.Choices(); i++ {
		key, ok := x.c.askKey(&w.Roles[0].Need, i)
		if !ok {
			continue
		}
		a := key.Ask()
		for _, z := range x.zones {
			sum := 0
			for _, n := range z.nodes {
				if sum += n.bare(&a, key.Disk, open); sum >= w.Roles[0].Replicas {
					return true
				}
			}
		}
	}
	return fitsOn(x.empty(open, false), x.w)
}

// bare counts the replicas an empty node takes.
func (n *node) bare(a *pack.Ask, disk int64, open bool) int {
	if n.Closed && !open {
		return 0
	}
	var free [64]uint16
	whole := pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types, Free: free[:len(n.Devices)], WholeOnly: n.WholeOnly}
	for i := range whole.Free {
		if open || n.ClosedDevices>>i&1 == 0 {
			whole.Free[i] = WholeDevice
		}
	}
	count := int(whole.Fits(a))
	if n.Disk > 0 && disk > 0 {
		count = min(count, int(int64(n.Disk)/disk))
	}
	return count
}

// fitsOn asks whether w would fit, at its full size or its least, were there no others waiting.
func fitsOn(c *Cluster, w *Workload) bool {
	if _, ok := place(c, w); ok {
		return true
	}
	least := smallest(w)
	if least == w {
		return false
	}
	_, ok := place(c, least)
	return ok
}
