package placement

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// turn is one look at the model: it decides what is to be written. The model has what was decided from then on, and is told
// what became of the write.
type turn struct {
	m       *model
	now     time.Time
	quantum time.Duration
}

// order is one write that was decided on.
type order struct {
	task    string         // whose place it is about
	place   *api.Placement // as it is to be
	of      *api.Workload  // whose new place it is, if that is unchanged by then; nil: a placement that is there changes
	refused error          // why nothing is written after all
	aim     aim
}

// aim is what an order is for.
type aim interface {
	// settle tells the model what became of the order. A write that failed may have happened all the same, unless mayStand says no.
	settle(m *model, err error) outcome
}

// outcome is what is to be done after a write.
type outcome struct {
	retry bool // it should be tried again, even if nothing else happens
	doubt bool // what is true has to be found out at once
}

var (
	errGone   = fault.New(fault.Conflict, "Stale", fault.T("The task went away.", "任务已不存在。"))
	errUnseen = fault.New(fault.Conflict, "Stale", fault.T("The placement is not seen yet, or changes.", "尚未看到该放置，或其正在变化。"))
	errClosed = fault.New(fault.Unavailable, "DeviceClosed", fault.T("A device of the place was closed meanwhile.", "所选位置的加速卡刚刚被停用。"))
)

// mayStand says that a write which failed may have happened.
func mayStand(err error) bool { return !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Full) }

// plan lets the planner decide: starts are the places of those that start now.
func (t turn) plan() (res sched.Result, starts []order) {
	res = sched.Plan(t.now, t.m.cluster, t.m.queues, sched.Policy{Quantum: t.quantum, Moves: t.m.shares.moves})
	for _, d := range res.Decisions {
		starts = append(starts, t.start(d))
	}
	return res, starts
}

func (t turn) start(d sched.Decision) order {
	o := order{task: d.Workload.ID, of: t.m.tasks[d.Workload.ID], aim: starting{d}}
	roles := assigned(d.Workload.Roles, d.At)
	switch {
	case o.of == nil:
		o.refused = errGone
	case shut(roles, t.m.in):
		o.refused = errClosed
	default:
		o.place = &api.Placement{Spec: api.PlacementSpec{Roles: roles}}
	}
	return o
}

// starting gives a gang that waits its place.
type starting struct{ sched.Decision }

// settle takes a decision back after a failed write. The write may yet have happened (a time-out): then its change arrives, and
// setPlacement holds the gang again.
func (a starting) settle(m *model, err error) outcome {
	if err == nil {
		return outcome{}
	}
	id, conflict := a.Workload.ID, fault.Is(err, fault.Conflict)
	sched.Undo(m.cluster, m.queues, a.Decision)
	if t, ok := m.tasks[id]; ok && !conflict {
		m.queues.Add(m.dates.demand(t, m.time()))
	} else {
		m.queues.Remove(id)
	}
	return outcome{retry: !conflict}
}

// leave asks what stands on something that is to be emptied to leave: for another place where there is one, which is reserved.
func (t turn) leave(p *api.Placement) (order, bool) {
	e := api.Eviction{
		Reason: reasonDrained, Grace: api.Duration(saveGrace),
		Message: fault.T("Its node is being emptied; it waits for another place.", "所在节点正在排空，等待重新调度。"),
	}
	if e.To = t.m.reserve(p.Spec.TaskID); e.To != nil {
		e.Message = fault.T("Its node is being emptied; it goes on elsewhere.", "所在节点正在排空，将在别处继续。")
	}
	e.Message = illText(p, t.m.in, t.m.dates.text(p, e))
	return evicting(p, e, t.now, nil), true
}

// preempt asks a gang to leave for another, which starts once it has gone; false: it goes already.
func (t turn) preempt(e sched.Eviction) (order, bool) {
	p := t.m.stands[e.ID]
	switch {
	case p == nil:
		return order{task: e.ID, refused: errUnseen, aim: leaving{id: e.ID, victim: &e}}, true
	case p.Spec.Evict != nil:
		return order{}, false
	}
	return evicting(p, evictionOf(e, p, t.m.in), t.now, &e), true
}

// evicting writes the wish that a gang leave; its kind's controller carries it out and deletes the placement or, where a place
// was reserved, makes that the gang's. victim is the planner's decision, where it was one.
func evicting(p *api.Placement, e api.Eviction, now time.Time, victim *sched.Eviction) order {
	next := store.Clone(p)
	e.At = now.UTC()
	next.Spec.Evict = &e
	return order{task: p.Spec.TaskID, place: next, aim: leaving{id: p.Spec.TaskID, was: p, reserved: len(e.To) > 0, victim: victim}}
}

// leaving asks a gang to leave.
type leaving struct {
	id       string
	was      *api.Placement // nil: it was not seen yet
	reserved bool           // a place is held for it
	victim   *sched.Eviction
}

// settle: a reservation goes with a write that failed.
func (a leaving) settle(m *model, err error) (out outcome) {
	if err == nil {
		return out
	}
	switch {
	case a.was == nil, a.reserved && !mayStand(err):
		m.cluster.Unreserve(a.id)
	case a.reserved:
		m.doubts[a.id], out.doubt = a.was, true
	}
	if a.victim == nil {
		out.retry = !fault.Is(err, fault.Conflict)
		return out
	}
	sched.UndoEviction(m.queues, *a.victim)
	out.retry = true
	return out
}

// doubts are for writes that reserved a place, or gave more of one, and may have happened. The placement is written as it was:
// either that write comes first, and the other never happens, or it is refused because the other did; what is true then comes
// with the feed.
func (t turn) doubts() (out []order) {
	for id, p := range t.m.doubts {
		out = append(out, order{task: id, place: store.Clone(p), aim: restoring{p}})
	}
	return out
}

// restoring writes a placement as it was.
type restoring struct{ was *api.Placement }

func (a restoring) settle(m *model, err error) outcome {
	if err != nil && !fault.Is(err, fault.Conflict) {
		return outcome{retry: true}
	}
	if id := a.was.Spec.TaskID; m.doubts[id] == a.was {
		delete(m.doubts, id)
	}
	return outcome{}
}

// resize is what the planner decided about the size of a gang that stands; false: it changes already.
func (t turn) resize(r sched.Resize) (order, bool) {
	p := t.m.stands[r.ID]
	if r.For != "" {
		return t.shrink(p, r)
	}
	var lost *api.Loss
	if p != nil {
		lost = p.Spec.Lost
	}
	return t.grow(p, r.ID, r.At, lost), true
}

// grow writes a growth that the model has already; lost is what is still missing after it.
func (t turn) grow(p *api.Placement, id string, at sched.Assignment, lost *api.Loss) order {
	o := order{task: id, refused: errUnseen, aim: growing{id, p}}
	if p != nil && p.Spec.Evict == nil && p.Spec.Shrink == nil {
		o.refused, o.place = nil, store.Clone(p)
		o.place.Spec.Roles, o.place.Spec.Lost = grown(p.Spec.Roles, at), lost
	}
	return o
}

// growing gives a gang more replicas.
type growing struct {
	id  string
	was *api.Placement
}

func (a growing) settle(m *model, err error) outcome {
	switch {
	case err == nil:
	case mayStand(err):
		m.doubts[a.id] = a.was // it keeps what it may have, until it is known
		return outcome{retry: true}
	default:
		m.standsAgain(a.id)
	}
	return outcome{}
}

// shrink asks a gang to go on with fewer replicas. Whoever it makes room for starts once its kind's controller has written that
// it did.
func (t turn) shrink(p *api.Placement, r sched.Resize) (order, bool) {
	o := order{task: r.ID, refused: errUnseen, aim: shrinking{r}}
	switch {
	case p == nil:
		return o, true
	case p.Spec.Shrink != nil || p.Spec.Evict != nil:
		return order{}, false
	}
	keep := slices.Clone(p.Spec.Roles)
	for i := range keep {
		keep[i] = keep[i].Keep(func(k int) bool { return k < len(r.At[i]) })
	}
	o.refused, o.place = nil, store.Clone(p)
	o.place.Spec.Shrink = &api.Shrinking{
		Reason: reasonPreempted, At: t.now.UTC(), Keep: keep,
		Message: fault.T("It gives up %d [replica|replicas] for another task and goes on with %d.", "为其他任务让出 %d 个副本，以 %d 个副本继续。", count(r.Was)-count(r.At), count(r.At)),
	}
	return o, true
}

// shrinking asks a gang to go on with fewer replicas.
type shrinking struct{ sched.Resize }

func (a shrinking) settle(m *model, err error) outcome {
	if err == nil {
		return outcome{}
	}
	sched.UndoEviction(m.queues, sched.Eviction{ID: a.ID, For: a.For})
	return outcome{retry: true}
}

// incomplete are gangs that wait for others in the stead of replicas which they lost with their nodes, the most urgent first.
// wake is when the first of them gives up.
func (t turn) incomplete() (open []*api.Placement, wake time.Time) {
	for id := range t.m.lost {
		p := t.m.stands[id]
		if p == nil || len(p.Spec.Lost.Roles) == 0 || p.Spec.Evict != nil || p.Spec.Shrink != nil {
			continue
		}
		if until := p.Spec.Lost.Until; !until.IsZero() { // else it is for a spare, and nobody waits
			if !t.now.Before(until) {
				continue // it goes on without
			}
			wake = sooner(wake, until)
		}
		open = append(open, p)
	}
	slices.SortFunc(open, func(a, b *api.Placement) int { return a.Spec.Lost.Until.Compare(b.Spec.Lost.Until) })
	return open, wake
}

// replace finds room for replicas that a gang lost; false: there is none.
func (t turn) replace(p *api.Placement) (order, bool) {
	at, ok := t.m.substitute(p)
	if !ok {
		return order{}, false
	}
	found := &api.Loss{Until: p.Spec.Lost.Until, Roles: map[string]int{}, Avoid: p.Spec.Lost.Avoid} // they have to come in time as well
	return t.grow(p, p.Spec.TaskID, at, found), true
}

// lend gives a guest its place where all of its environments run and are free; false: it waits.
func (t turn) lend(task *api.Workload, found hosts) (order, bool) {
	id, g := task.Meta.ID, t.m.guests
	if g.waiting[id] == nil || g.judge(task, found.missing()) != nil {
		return order{}, false
	}
	p := &api.Placement{Spec: api.PlacementSpec{Roles: []api.RoleAssignment{{Role: task.Roles[0].Name, Slots: found.slots}}, Inside: found.lenders}}
	return order{task: id, place: p, of: task, aim: lending{task, p}}, true
}

// lending gives a guest its environments.
type lending struct {
	task  *api.Workload
	place *api.Placement // as it was written
}

// settle: a write that may have happened keeps what it took until it is known: the same write is tried again, and refused if
// it did.
func (a lending) settle(m *model, err error) outcome {
	id, g := a.task.Meta.ID, m.guests
	switch {
	case err == nil:
		g.stand(a.place) // before the feed says so: it must not be looked at again
	case !fault.Is(err, fault.Conflict):
		g.dirty[id] = true
		return outcome{retry: true}
	default:
		g.giveBack(a.task)
		delete(g.dirty, id) // the change that was in the way brings it back
	}
	return outcome{}
}

// reasonPreempted is why a gang had to go that gave way to another.
const reasonPreempted = "Preempted"

// reasonDrained is why a gang had to go whose node is being emptied, and why it waits afterwards.
const reasonDrained = "Drained"

// reasonNodeLost is why one waits that lost its place with a node.
const reasonNodeLost = "NodeLost"

// assigned is a planner's assignment as it is written.
func assigned(roles []sched.Role, at sched.Assignment) []api.RoleAssignment {
	out := make([]api.RoleAssignment, len(at))
	for i, slots := range at {
		out[i] = api.RoleAssignment{Role: roles[i].Name, Slots: slots}
	}
	return out
}

// assignment is a written one as the planner knows it.
func assignment(roles []api.RoleAssignment) sched.Assignment {
	out := make(sched.Assignment, len(roles))
	for i, r := range roles {
		out[i] = r.Slots
	}
	return out
}

// sooner is the first of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
