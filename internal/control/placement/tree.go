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

// tree is the queues as the planner knows them. The model's owner locks it.
type tree struct {
	shares  shares
	cluster *sched.Cluster // counts in device types
	queues  *sched.Queues
	heard   *remarks     // the model's
	untold  bool         // shares changed since the planner was told
	told    []fair.Queue // as last told to the planner
	types   int          // how many amounts there were then
}

// set takes up a queue; what waits in it is to be weighed anew where it says so.
func (t *tree) set(q *api.Queue) (anew bool) {
	was := t.shares[q.Meta.Name]
	t.shares[q.Meta.Name], t.untold = q, true
	return was != nil && !reflect.DeepEqual(was.Spec.Prefer, q.Spec.Prefer)
}

func (t *tree) drop(name string) {
	delete(t.shares, name)
	t.untold = true
}

// heed tells the planner of queues that changed. Many that change at once, as when a leader begins,
// are told once.
func (t *tree) heed() {
	if t.untold {
		t.untold = false
		t.tell()
	}
}

// tellTypes tells the planner again where there is a device type that none had before.
func (t *tree) tellTypes() {
	if len(t.shares) > 0 && len(t.cluster.Total()) != t.types {
		t.tell()
	}
}

// tell gives the planner all queues anew: there are few, and they change seldot. The server
// has checked the tree; should it be wrong all the same, because two were changed at once or one is
// not heard of yet, what makes no sense is left out of the one queue that it is about.
func (t *tree) tell() {
	all := make([]fair.Queue, 0, len(t.shares))
	for _, name := range slices.Sorted(maps.Keys(t.shares)) {
		s := t.shares[name].Spec
		all = append(all, fair.Queue{
			Name: name, Parent: s.Parent, Weight: int64(s.Weight), Paused: s.Paused,
			Guarantee: t.amounts(s.Guarantee, 0), Limit: t.amounts(s.Limit, -1),
		})
	}
	t.types = len(t.cluster.Total())
	defer func() { t.told = all }()
	err := t.queues.Set(all, nil)
	for range 2 * len(all) {
		var bad *fair.Error
		if !errors.As(err, &bad) {
			break
		}
		t.heard.note(worse, "a queue makes no sense beside the others; a part of it is left out", "queue", bad.Queue, "error", err)
		mend(all, bad)
		err = t.queues.Set(all, nil)
	}
	if err != nil {
		t.heard.note(grave, "the queues are refused; the last ones stay in force", "error", err)
	}
}

// overcommitted says that the queues are guaranteed more than the cluster has: nodes come and go, so it
// is no error, but not all can be met at once.
func (t *tree) overcommitted() api.Text {
	var bad *fair.Error
	if !errors.As(fair.Check(t.told, t.cluster.Total()), &bad) || bad.Problem != fair.OverCommitted || bad.Other != "" {
		return api.Text{}
	}
	name, unit := t.resource(bad.Resource)
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
func (t *tree) amounts(shares map[string]int, absent int64) sched.Vector {
	if len(shares) == 0 {
		return nil
	}
	out := make(sched.Vector, len(t.cluster.Total()))
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
			if id, ok := t.cluster.TypeID(key); ok {
				out[sched.VectorTypes+int(id)] = int64(n) * sched.WholeDevice
			}
		}
	}
	return out
}
