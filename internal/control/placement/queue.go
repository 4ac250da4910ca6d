package placement

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

func (m *model) setQueue(q *api.Queue) {
	was := m.shares[q.Meta.Name]
	m.shares[q.Meta.Name], m.untold = q, true
	if was != nil && !reflect.DeepEqual(was.Spec.Prefer, q.Spec.Prefer) {
		m.shares.weighAnew(m, q.Meta.Name)
	}
}

func (m *model) dropQueue(name string) {
	delete(m.shares, name)
	m.untold = true
}

// heed tells the planner of queues that changed. Many that change at once, as when a leader begins,
// are told once.
func (m *model) heed() {
	if m.untold {
		m.untold = false
		m.tellQueues()
	}
}

// tellQueues gives the planner all queues anew: there are few, and they change seldom. The server
// has checked the tree; should it be wrong all the same, because two were changed at once or one is
// not heard of yet, what makes no sense is left out of the one queue that it is about.
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
	defer func() { m.told = all }()
	err := m.queues.Set(all, nil)
	for range 2 * len(all) {
		var bad *fair.Error
		if !errors.As(err, &bad) {
			break
		}
		m.log.Warn("a queue makes no sense beside the others; a part of it is left out", "queue", bad.Queue, "error", err)
		mend(all, bad)
		err = m.queues.Set(all, nil)
	}
	if err != nil {
		m.log.Error("the queues are refused; the last ones stay in force", "error", err)
	}
}

// overcommitted says that the queues are guaranteed more than the cluster has: nodes come and go, so it
// is no error, but not all can be met at once.
func (m *model) overcommitted() api.Text {
	var bad *fair.Error
	if !errors.As(fair.Check(m.told, m.cluster.Total()), &bad) || bad.Problem != fair.OverCommitted || bad.Other != "" {
		return api.Text{}
	}
	name, unit := m.resource(bad.Resource)
	return api.T("All queues together are guaranteed %g %s, the cluster has %g: not all of it can be met at once.",
		"所有队列合计保障 %g %s，而集群只有 %g：无法同时兑现。", float64(bad.Got)/unit, name, float64(bad.Bound)/unit)
}

// mend takes what is wrong out of a queue.
func mend(all []fair.Queue, bad *fair.Error) {
	i := slices.IndexFunc(all, func(q fair.Queue) bool { return q.Name == bad.Queue })
	if i < 0 {
		return
	}
	switch q := &all[i]; bad.Problem {
	case fair.UnknownParent, fair.Cycle, fair.TooDeep:
		q.Parent = ""
	case fair.NegativeWeight:
		q.Weight = 1
	default: // about its guarantee
		q.Guarantee = nil
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
