package placement

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// maxShown is how many of those who wait, and of those who run, a queue shows.
const maxShown = 10

// Shares are all queues; ok is false when this server does not lead.
func (d *Desk) Shares() (out []api.QueueShare, ok bool) {
	ok = d.seat.with(func(m *model) {
		shares := m.queues.Shares()
		out = make([]api.QueueShare, len(shares))
		for i := range shares {
			out[i] = m.tree.share(&shares[i])
		}
	})
	return out, ok
}

// Share is one queue, with who is next in it and why they wait; ok is false when this server does
// not lead. Of one never heard of nothing is used. The planner goes on between two explanations.
func (d *Desk) Share(queue string) (out api.QueueShare, ok bool) {
	var waits []string
	if !d.seat.with(func(m *model) { out, waits = m.shareOf(queue) }) {
		return out, false
	}
	for _, id := range waits {
		why, waits := d.Why(id)
		if !waits {
			continue // it started meanwhile
		}
		if !d.seat.with(func(m *model) {
			if w, still := m.queues.Get(id); still {
				out.Waits = append(out.Waits, waitsFor(w, why))
			}
		}) {
			return out, false
		}
	}
	return out, true
}

// shareOf is one queue, and the ids of those who are next in it.
func (m *model) shareOf(queue string) (out api.QueueShare, waits []string) {
	s, known := m.queues.Share(queue, maxShown)
	if !known {
		return api.QueueShare{Queue: queue, Weight: 1}, nil
	}
	out = m.tree.share(&s)
	for _, r := range s.Runs {
		since := r.Since
		out.Runs = append(out.Runs, api.ShareTask{ID: r.Workload.ID, Queue: r.Workload.Queue, Devices: devices(r.Workload), Since: &since})
	}
	return out, s.Waits
}

func waitsFor(w *sched.Workload, why sched.Explanation) api.ShareTask {
	since := w.Submitted
	t := api.ShareTask{ID: w.ID, Queue: w.Queue, Devices: devices(w), Since: &since, Reason: why.Reason, Message: why.Message}
	if !why.Start.IsZero() {
		t.EstimatedStart = &why.Start
	}
	return t
}

func devices(w *sched.Workload) (sum float64) {
	for i := range w.Roles {
		share := w.Roles[i].Need.Share
		if share == 0 {
			share = sched.WholeDevice
		}
		sum += float64(w.Roles[i].Replicas*w.Roles[i].Need.Devices) * float64(share) / sched.WholeDevice
	}
	return sum
}

func (t *tree) share(s *sched.Share) api.QueueShare {
	_, paused := t.queues.Paused(s.Name)
	out := api.QueueShare{
		Queue: s.Name, Parent: s.Parent, Children: s.Children, Paused: paused, Weight: int(s.Weight),
		Guarantee: t.named(s.Guarantee, 0), Limit: t.named(s.Limit, -1), Used: t.named(s.Usage, 0),
		Share: s.Share, FairShare: s.Fair, Waiting: s.Waiting, Running: s.Running,
	}
	if s.Dominant >= 0 {
		out.Dominant, _ = t.resource(s.Dominant)
	}
	borrowed := make(sched.Vector, len(s.Usage))
	for i, used := range s.Usage {
		sure := int64(0)
		if i < len(s.Guarantee) {
			sure = s.Guarantee[i]
		}
		if name, _ := t.resource(i); used > sure && t.guaranteed(name) {
			borrowed[i] = used - sure
		}
	}
	out.Borrowed = t.named(borrowed, 0)
	if len(s.Guarantee) > 0 {
		out.Warning = t.overcommitted()
	}
	return out
}

// guaranteed says that some queue is guaranteed something of a resource.
func (t *tree) guaranteed(resource string) bool {
	for _, q := range t.shares {
		for key, n := range q.Spec.Guarantee {
			if n > 0 && api.FoldDevice(key) == api.FoldDevice(resource) {
				return true
			}
		}
	}
	return false
}

// named gives amounts their names; those that are absent are left out.
func (t *tree) named(v sched.Vector, absent int64) map[string]float64 {
	var out map[string]float64
	for i, x := range v {
		if x == absent {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		name, unit := t.resource(i)
		out[name] = float64(x) / unit
	}
	return out
}

// resource is what a place in a Vector is called, and how much of it is one.
func (t *tree) resource(i int) (name string, unit float64) {
	switch i {
	case sched.VectorCPU:
		return "cpu", 1000
	case sched.VectorMemory:
		return "memory", 1 << 30
	case sched.VectorDevices:
		return "devices", sched.WholeDevice
	}
	return t.cluster.TypeName(uint16(i - sched.VectorTypes)), sched.WholeDevice
}
