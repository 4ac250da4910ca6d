package placement

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
)

// Elastic gangs. One that grows has its new slots from one write on, and train starts what stands on
// them; one that shrinks is asked to, and has its old slots until train has ended what stood there.
// Either way the placement alone says how large a gang is.

// standsAgain takes back a growth that was not written: the gang stands where its placement says.
func (m *model) standsAgain(id string) {
	p := m.stands[id]
	if p == nil {
		return // it left meanwhile, or its placement is on its way
	}
	if err := sched.Resized(m.now(), m.cluster, m.queues, id, assignment(p.Spec.Roles)); err != nil {
		m.heard.note(passing, "a growth was not taken back", "task", id, "error", err)
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

func count(at sched.Assignment) (n int) {
	for _, slots := range at {
		n += len(slots)
	}
	return n
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
		m.heard.note(passing, "lost replicas can't be replaced there", "task", id, "error", err)
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
func (d *Desk) Smaller(o api.Work) (text fault.Text, ok bool) {
	t := o.Workload()
	if t.Elastic() {
		d.seat.with(func(m *model) { text, ok = m.smaller(&t, d.quantum) })
	}
	return text, ok
}

func (m *model) smaller(t *api.Workload, quantum time.Duration) (text fault.Text, ok bool) {
	at, held := m.cluster.Held(t.Meta.ID)
	for i := range t.Roles {
		r := &t.Roles[i]
		low, high := r.Range()
		if !held || i >= len(at) || len(at[i]) >= high {
			continue
		}
		w := demand(t, m.shares)
		w.Allow = m.in.zonesOf(at)
		for k := range w.Roles {
			w.Roles[k].Replicas, w.Roles[k].Min, w.Roles[k].Max = 0, 0, 0
		}
		w.Roles[i].Replicas = 1
		size := fault.T("%[1]s has %[2]d replicas of %[3]d to %[4]d. ", "%[1]s 现有 %[2]d 个副本（范围 %[3]d 到 %[4]d）。", r.Name, len(at[i]), low, high)
		why := fault.T("There is room for more: it grows within %s.", "有余量，将在 %s 内扩容。", quantumOr(quantum)*11/10)
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
