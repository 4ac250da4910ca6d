package placement

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// maxShown is how many of those who wait, and of those who run, a queue shows.
const maxShown = 10

// Shares are all queues; ok is false when this server does not lead.
func (c *Controller) Shares() (out []api.QueueShare, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil, false
	}
	shares := c.m.queues.Shares()
	out = make([]api.QueueShare, len(shares))
	for i := range shares {
		out[i] = c.m.share(&shares[i])
	}
	return out, true
}

// Share is one queue, with who is next in it and why they wait; ok is false when this server does
// not lead. Of one never heard of nothing is used. The planner goes on between two explanations.
func (c *Controller) Share(queue string) (out api.QueueShare, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return out, false
	}
	s, known := c.m.queues.Share(queue, maxShown)
	if !known {
		return api.QueueShare{Queue: queue, Weight: 1}, true
	}
	out = c.m.share(&s)
	for _, r := range s.Runs {
		since := r.Since
		out.Runs = append(out.Runs, api.ShareTask{ID: r.Workload.ID, Queue: r.Workload.Queue, Devices: devices(r.Workload), Since: &since})
	}
	for _, id := range s.Waits {
		c.mu.Unlock()
		why, waits := c.Why(id)
		c.mu.Lock()
		if c.m == nil {
			return out, false
		}
		w, still := c.m.queues.Get(id)
		if !waits || !still {
			continue // it started meanwhile
		}
		since := w.Submitted
		t := api.ShareTask{ID: id, Queue: w.Queue, Devices: devices(w), Since: &since, Reason: why.Reason, Message: why.Message}
		if !why.Start.IsZero() {
			t.EstimatedStart = &why.Start
		}
		out.Waits = append(out.Waits, t)
	}
	return out, true
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

func (m *model) share(s *sched.Share) api.QueueShare {
	_, paused := m.queues.Paused(s.Name)
	out := api.QueueShare{
		Queue: s.Name, Parent: s.Parent, Children: s.Children, Paused: paused, Weight: int(s.Weight),
		Guarantee: m.named(s.Guarantee, 0), Limit: m.named(s.Limit, -1), Used: m.named(s.Usage, 0),
		Share: s.Share, FairShare: s.Fair, Waiting: s.Waiting, Running: s.Running,
	}
	if s.Dominant >= 0 {
		out.Dominant, _ = m.resource(s.Dominant)
	}
	borrowed := make(sched.Vector, len(s.Usage))
	for i, used := range s.Usage {
		sure := int64(0)
		if i < len(s.Guarantee) {
			sure = s.Guarantee[i]
		}
		if name, _ := m.resource(i); used > sure && m.guaranteed(name) {
			borrowed[i] = used - sure
		}
	}
	out.Borrowed = m.named(borrowed, 0)
	if len(s.Guarantee) > 0 {
		out.Warning = m.overcommitted()
	}
	return out
}

// guaranteed says that some queue is guaranteed something of a resource.
func (m *model) guaranteed(resource string) bool {
	for _, q := range m.shares {
		for key, n := range q.Spec.Guarantee {
			if n > 0 && api.FoldDevice(key) == api.FoldDevice(resource) {
				return true
			}
		}
	}
	return false
}

// named gives amounts their names; those that are absent are left out.
func (m *model) named(v sched.Vector, absent int64) map[string]float64 {
	var out map[string]float64
	for i, x := range v {
		if x == absent {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		name, unit := m.resource(i)
		out[name] = float64(x) / unit
	}
	return out
}

// resource is what a place in a Vector is called, and how much of it is one.
func (m *model) resource(i int) (name string, unit float64) {
	switch i {
	case sched.VectorCPU:
		return "cpu", 1000
	case sched.VectorMemory:
		return "memory", 1 << 30
	case sched.VectorDevices:
		return "devices", sched.WholeDevice
	}
	return m.cluster.TypeName(uint16(i - sched.VectorTypes)), sched.WholeDevice
}
