package placement

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// Elastic gangs. One that grows has its new slots from one write on, and train starts what stands on
// them; one that shrinks is asked to, and has its old slots until train has ended what stood there.
// Either way the placement alone says how large a gang is.

// resize carries out what the planner decided about the sizes of gangs that stand.
func (c *Controller) resize(ctx context.Context, epoch store.Epoch, all []sched.Resize) (retry bool) {
	for _, r := range all {
		c.mu.Lock()
		p := c.m.stands[r.ID]
		c.mu.Unlock()
		if r.For != "" {
			retry = c.shrink(ctx, epoch, p, r) || retry
			continue
		}
		var lost *api.Loss
		if p != nil {
			lost = p.Spec.Lost
		}
		retry = c.grow(ctx, epoch, p, r.ID, r.At, lost) || retry
	}
	return retry
}

// grow writes a growth that the model has already; lost is what is still missing after it.
func (c *Controller) grow(ctx context.Context, epoch store.Epoch, p *api.Placement, id string, at sched.Assignment, lost *api.Loss) (retry bool) {
	err := error(fault.New(fault.Conflict, "Stale", fault.T("The placement is not seen yet, or changes.", "尚未看到该放置，或其正在变化。")))
	if p != nil && p.Spec.Evict == nil && p.Spec.Shrink == nil {
		next := store.Clone(p)
		next.Spec.Roles, next.Spec.Lost = grown(p.Spec.Roles, at), lost
		err = c.writes.update(ctx, epoch, next)
	}
	if err == nil {
		return false
	}
	c.cfg.Log.Debug("a gang could not grow", "task", id, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.epoch != epoch {
		return false
	}
	if unknown := !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Full); unknown {
		c.m.doubts[id] = p // it keeps what it may have, until it is known
		return true
	}
	c.m.standsAgain(id)
	return false
}

// standsAgain takes back a growth that was not written: the gang stands where its placement says.
func (m *model) standsAgain(id string) {
	p := m.stands[id]
	if p == nil {
		return // it left meanwhile, or its placement is on its way
	}
	if err := sched.Resized(m.now(), m.cluster, m.queues, id, assignment(p.Spec.Roles)); err != nil {
		m.log.Debug("a growth was not taken back", "task", id, "error", err)
	}
}

// grown gives the roles the slots that are new in at: the planner adds at the end.
func grown(roles []api.RoleAssignment, at sched.Assignment) []api.RoleAssignment {
	out := slices.Clone(roles)
	for i := range out {
		if n := len(out[i].Slots); i < len(at) && len(at[i]) > n {
			out[i] = out[i].Add(at[i][n:]...)
		}
	}
	return out
}

// shrink asks a gang to go on with fewer replicas. Whoever it makes room for starts once train has
// written that it did.
func (c *Controller) shrink(ctx context.Context, epoch store.Epoch, p *api.Placement, r sched.Resize) (retry bool) {
	if p != nil && (p.Spec.Shrink != nil || p.Spec.Evict != nil) {
		return false // it does already
	}
	err := error(fault.New(fault.Conflict, "Stale", fault.T("The placement is not seen yet.", "尚未看到该放置。")))
	if p != nil {
		next := store.Clone(p)
		keep := slices.Clone(p.Spec.Roles)
		for i := range keep {
			keep[i] = keep[i].Keep(func(k int) bool { return k < len(r.At[i]) })
		}
		next.Spec.Shrink = &api.Shrinking{
			Reason: reasonPreempted, At: c.cfg.Clock.Now().UTC(), Keep: keep,
			Message: fault.T("It gives up %d [replica|replicas] for another task and goes on with %d.", "为其他任务让出 %d 个副本，以 %d 个副本继续。", count(r.Was)-count(r.At), count(r.At)),
		}
		err = c.writes.update(ctx, epoch, next)
	}
	if err == nil {
		return false
	}
	c.cfg.Log.Warn("a gang could not be asked to shrink", "task", r.ID, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil && c.epoch == epoch {
		sched.UndoEviction(c.m.queues, sched.Eviction{ID: r.ID, For: r.For})
	}
	return true
}

func count(at sched.Assignment) (n int) {
	for _, slots := range at {
		n += len(slots)
	}
	return n
}

// replace looks for room for replicas that gangs lost with their nodes, for as long as those wait.
// wake is when the first of them gives up.
func (c *Controller) replace(ctx context.Context, epoch store.Epoch) (retry bool, wake time.Time) {
	now := c.cfg.Clock.Now().UTC()
	c.mu.Lock()
	var open []*api.Placement
	for id := range c.m.lost {
		if p := c.m.stands[id]; p != nil && len(p.Spec.Lost.Roles) > 0 && p.Spec.Evict == nil && p.Spec.Shrink == nil {
			open = append(open, p)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(open, func(a, b *api.Placement) int { return a.Spec.Lost.Until.Compare(b.Spec.Lost.Until) })
	for _, p := range open {
		if until := p.Spec.Lost.Until; !until.IsZero() { // else it is for a spare, and nobody waits
			if !now.Before(until) {
				continue // train goes on without
			}
			if wake.IsZero() {
				wake = until
			}
		}
		c.mu.Lock()
		at, ok := c.m.substitute(p)
		c.mu.Unlock()
		if ok {
			found := &api.Loss{Until: p.Spec.Lost.Until, Roles: map[string]int{}, Avoid: p.Spec.Lost.Avoid} // they have to come in time as well
			retry = c.grow(ctx, epoch, p, p.Spec.TaskID, at, found) || retry
		}
	}
	return retry, wake
}

// substitute places as many replicas as a gang lost, all of them or none, beside those it has. The
// model has them afterwards. The lock is held.
func (m *model) substitute(p *api.Placement) (sched.Assignment, bool) {
	id := p.Spec.TaskID
	w, ok := m.queues.Running(id)
	at, held := m.cluster.Held(id)
	if !ok || !held || len(at) != len(w.Roles) {
		return nil, false
	}
	more := *w
	more.Roles = slices.Clone(w.Roles)
	for i := range more.Roles {
		r := &more.Roles[i]
		r.Replicas, r.Min, r.Max = p.Spec.Lost.Roles[r.Name], 0, 0
	}
	if names := m.in.zonesOf(at); len(names) > 0 {
		more.Allow = names
	}
	var found sched.Assignment
	for _, avoid := range m.in.shunned(p.Spec.Lost) {
		more.Avoid = slices.Concat(w.Avoid, p.Spec.Lost.Avoid, avoid)
		if found, ok = sched.Elsewhere(m.cluster, m.queues, &more); ok {
			break
		}
	}
	if !ok {
		return nil, false
	}
	out := make(sched.Assignment, len(at))
	for i := range at {
		out[i] = slices.Concat(at[i], found[i])
	}
	if err := sched.Resized(m.now(), m.cluster, m.queues, id, out); err != nil {
		m.log.Debug("lost replicas can't be replaced there", "task", id, "error", err)
		return nil, false
	}
	return out, true
}

// places are nodes by their number.
type places map[uint32]*api.Node

// shunned are the nodes to keep away from, the most wished for first: where two faults were, then the node that had the
// last one, then none. A place with faults is better than none at all.
func (p places) shunned(lost *api.Loss) [][]uint32 {
	if lost.Around == "" || p[lost.Of] == nil {
		return [][]uint32{nil}
	}
	return [][]uint32{around(p, p[lost.Of], lost.Around), {lost.Of}, nil}
}

// zonesOf are those of an assignment: a gang that was lost in part stays together.
func (p places) zonesOf(at sched.Assignment) []string {
	var out []string
	for _, slots := range at {
		for _, s := range slots {
			if n := p[s.Node]; n != nil && !slices.Contains(out, n.Spec.Zone) {
				out = append(out, n.Spec.Zone)
			}
		}
	}
	slices.Sort(out)
	return out
}

// sized is a workload with as many replicas as it stands on: what moves is what there is.
func sized(w *sched.Workload, at sched.Assignment) *sched.Workload {
	out := *w
	out.Roles = slices.Clone(w.Roles)
	for i := range out.Roles {
		if i < len(at) {
			out.Roles[i].Replicas = len(at[i])
		}
	}
	return &out
}

// Smaller explains why an elastic task that stands has fewer replicas than it may have; ok is false
// where it has them all, or this server does not lead.
func (c *Controller) Smaller(o api.Work) (text fault.Text, ok bool) {
	t := o.Workload()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || !t.Elastic() {
		return text, false
	}
	m := c.m
	at, held := m.cluster.Held(t.Meta.ID)
	for i := range t.Roles {
		r := &t.Roles[i]
		low, high := r.Range()
		if !held || i >= len(at) || len(at[i]) >= high {
			continue
		}
		w := demand(&t, m.shares)
		w.Allow = m.in.zonesOf(at)
		for k := range w.Roles {
			w.Roles[k].Replicas, w.Roles[k].Min, w.Roles[k].Max = 0, 0, 0
		}
		w.Roles[i].Replicas = 1
		size := fault.T("%[1]s has %[2]d replicas of %[3]d to %[4]d. ", "%[1]s 现有 %[2]d 个副本（范围 %[3]d 到 %[4]d）。", r.Name, len(at[i]), low, high)
		why := fault.T("There is room for more: it grows within %s.", "有余量，将在 %s 内扩容。", quantumOr(c.cfg.Quantum)*11/10)
		if _, fits := sched.Elsewhere(m.cluster, m.queues, w); !fits {
			why = sched.ExplainElsewhere(m.cluster, m.queues, w).Message
		}
		return fault.Text{EN: size.EN + why.EN, ZH: size.ZH + why.ZH}, true
	}
	return text, false
}

// quantumOr is the planner's own where none is set.
func quantumOr(q time.Duration) time.Duration {
	if q <= 0 {
		return 10 * time.Minute
	}
	return q
}
