package safety

import (
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/sched"
)

// settled is a scenario stopped where the planner has nothing more to decide.
func settled(t *testing.T, seed uint64) *world {
	w := newWorld(seed)
	for range 50 {
		w.submit(w.newWorkload())
	}
	for range 3 {
		w.event()
		w.carryOut(70)
		if why := w.turn(); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
	for range 20 {
		starts := w.st.starts
		if why := w.turn(); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
		if w.st.starts == starts {
			return w
		}
	}
	t.Fatalf("seed %d: no rest", seed)
	return nil
}

// TestTheChangeAdmits applies the change each explanation suggests, in the same scenario played
// again, and expects the workload to start in the next turn.
func TestTheChangeAdmits(t *testing.T) {
	kinds, reasons := map[sched.ChangeKind]int{}, map[string]int{}
	explained := 0
	for seed := range number(t, "FERMI_EXPLAINED", 40) {
		w := settled(t, seed)
		var list []string
		changes := map[string]sched.Explanation{}
		for _, id := range sorted(w.b.waits) {
			ex, ok := sched.Explain(w.now, w.c, w.q, id)
			if !ok || ex.Message.EN == "" || ex.Message.ZH == "" || (ex.Change.Kind != "" && ex.Action.ZH == "") {
				t.Fatalf("seed %d: %s has no explanation: %+v", seed, id, ex)
			}
			reasons[ex.Reason]++
			explained++
			if ex.Change.Kind != "" {
				list = append(list, id)
				changes[id] = ex
			}
		}
		if res := sched.Plan(w.now, w.c, w.q, w.p); len(res.Decisions) > 0 {
			t.Fatalf("seed %d: to explain changed something: %v", seed, ids(res))
		}
		for range min(6, len(list)) {
			id := pick(w, list...)
			kinds[changes[id].Change.Kind]++
			if why := apply(settled(t, seed), id, changes[id].Change); why != "" {
				t.Errorf("seed %d: %s waits: %s %s\n%+v: %s", seed, id, changes[id].Reason, changes[id].Message.EN, changes[id].Change, why)
			}
		}
	}
	t.Logf("%d explained: %v; applied: %v", explained, reasons, kinds)
	if len(reasons) < 8 || len(kinds) < 7 {
		t.Error("too little was seen:", reasons, kinds)
	}
}

// apply makes one change, and says what keeps the workload from starting.
func apply(w *world, id string, ch sched.Change) string {
	v := w.b.waits[id]
	switch ch.Kind {
	case sched.ChangeUncordon, sched.ChangeLimit, sched.ChangeResume:
		for _, other := range sorted(w.b.waits) {
			if other != id {
				w.cancel(other)
			}
		}
	default:
		v = ch.Apply(v)
		w.b.waits[id] = v
		w.q.Add(v)
	}
	switch ch.Kind {
	case sched.ChangeUncordon:
		n := &w.b.nodes[ch.Value-1]
		n.Closed, n.ClosedDevices = false, 0
		w.setNode(*n)
	case sched.ChangeLimit:
		q := w.b.queues[ch.Target]
		q.Limit[ch.Resource] = ch.Value
		w.setSame(sorted(w.b.queues))
	case sched.ChangeResume:
		q := w.b.queues[ch.Target]
		q.Paused = false
		w.b.queues[ch.Target] = q
		w.q.SetPaused(ch.Target, false)
	}
	if why := w.turn(); why != "" {
		return why
	}
	if w.b.stands[id] == nil {
		after, _ := sched.Explain(w.now, w.c, w.q, id)
		return fmt.Sprintf("it still waits: %s %s", after.Reason, after.Message.EN)
	}
	return ""
}

// TestImpossibleIsRefused: what Impossible names does not start on the empty cluster either, and
// what it lets pass does.
func TestImpossibleIsRefused(t *testing.T) {
	no, yes := 0, 0
	for seed := range uint64(60) {
		w := newWorld(seed)
		for i := range w.b.nodes {
			w.b.nodes[i].Closed, w.b.nodes[i].ClosedDevices = false, 0
			w.setNode(w.b.nodes[i])
		}
		for name, q := range w.b.queues {
			q.Paused = false
			w.b.queues[name] = q
		}
		w.setSame(sorted(w.b.queues))
		for range 20 {
			v := w.newWorkload()
			v.Defer = "" // it may wait though it is possible
			ex, impossible := sched.Impossible(w.c, w.q, v)
			w.q.Add(v)
			started := len(sched.Plan(w.now, w.c, w.q, w.p).Decisions) > 0
			if started == impossible {
				t.Fatalf("seed %d: started %t, impossible %t: %+v\n%+v", seed, started, impossible, ex, v)
			}
			if impossible {
				no++
			} else {
				yes++
			}
			w.c.Release(v.ID)
			w.q.Stop(w.now, v.ID, true)
			w.q.Remove(v.ID)
		}
	}
	if no < 20 || yes < 200 {
		t.Error("too little was seen:", no, yes)
	}
}
