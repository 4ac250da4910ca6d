package placement

import (
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

func (m *model) setQueue(q *api.Queue) {
	m.shares[q.Meta.Name] = q
	m.tellQueues()
}

func (m *model) dropQueue(name string) {
	delete(m.shares, name)
	m.tellQueues()
}

// tellQueues gives the planner all queues anew: there are few, and they change seldom. The server
// has checked the tree; should it be wrong all the same, the planner keeps the last good one.
func (m *model) tellQueues() {
	all := make([]fair.Queue, 0, len(m.shares))
	for _, name := range slices.Sorted(maps.Keys(m.shares)) {
		s := m.shares[name].Spec
		all = append(all, fair.Queue{
			Name: name, Parent: s.Parent, Weight: int64(s.Weight), Paused: s.Paused,
			Guarantee: m.amounts(s.Guarantee, 0), Limit: m.amounts(s.Limit, -1),
		})
	}
	m.types = len(m.cluster.Total())
	if err := m.queues.Set(all, nil); err != nil {
		m.log.Error("the queues are refused; the last ones stay in force", "error", err)
	}
}

// amounts are the shares of a queue as the planner counts them; absent is what is not mentioned. A
// device type that no node has yet is told again when one does.
func (m *model) amounts(shares map[string]int, absent int64) sched.Vector {
	if len(shares) == 0 {
		return nil
	}
	out := make(sched.Vector, len(m.cluster.Total()))
	for i := range out {
		out[i] = absent
	}
	for key, n := range shares {
		switch key {
		case "cpu":
			out[sched.VectorCPU] = int64(n) * 1000
		case "memory":
			out[sched.VectorMemory] = int64(n) << 30
		case "devices":
			out[sched.VectorDevices] = int64(n) * sched.WholeDevice
		default:
			if id, ok := m.cluster.TypeID(key); ok {
				out[sched.VectorTypes+int(id)] = int64(n) * sched.WholeDevice
			}
		}
	}
	return out
}
