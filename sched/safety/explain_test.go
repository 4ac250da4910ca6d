package safety

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// settled is a scenario stopped where the planner has nothing more to decide.
func settled(t *testing.T, seed uint64) *world {
	w, why := settle(seed)
	if why != "" {
		t.Errorf("seed %d: %s", seed, why)
	}
	return w
}

func settle(seed uint64) (w *world, why string) {
	w = newWorld(seed)
	for range 50 {
		w.submit(w.newWorkload())
	}
	for range 3 {
		w.event()
		w.carryOut(70)
		if why = w.turn(); why != "" {
			return w, why
		}
	}
	for range 20 {
		starts := w.st.starts
		if why = w.turn(); why != "" || w.st.starts == starts {
			return w, why
		}
	}
	return w, "no rest"
}

// tally counts what explanations said and what was tried of it.
type tally struct {
	mu      sync.Mutex
	reasons map[string]int
	kinds   map[advice.ChangeKind]int
	tried   int
}

// changeKinds is every change an explanation can suggest.
var changeKinds = []advice.ChangeKind{
	advice.ChangeReplicas, advice.ChangeDevices, advice.ChangeType, advice.ChangeZones, advice.ChangeTopology, advice.ChangeSplit,
	advice.ChangeMaxLatency, advice.ChangePriority, advice.ChangeLimit, advice.ChangeResume, advice.ChangeUncordon,
}

// enoughExplained is from how many scenarios on every kind of change must have been tried, and 2,000 in all.
const enoughExplained = 400

// TestTheChangeAdmits applies the changes that explanations suggest, each in the same scenario played
// again, and expects the workload to start in the next turn. FERMI_EXPLAINED is how many scenarios.
func TestTheChangeAdmits(t *testing.T) {
	count := number(t, "FERMI_EXPLAINED", 40)
	all := tally{reasons: map[string]int{}, kinds: map[advice.ChangeKind]int{}}
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < count && !t.Failed(); seed = next.Add(1) - 1 {
				all.explainAll(t, seed)
			}
		})
	}
	wg.Wait()
	t.Logf("%d changes applied, by kind: %v; reasons seen: %v", all.tried, all.kinds, all.reasons)
	if len(all.reasons) < 8 || len(all.kinds) < 7 {
		t.Error("too little was seen")
	}
	for _, kind := range changeKinds {
		if count >= enoughExplained && all.kinds[kind] == 0 {
			t.Errorf("%s was never tried", kind)
		}
	}
	if count >= enoughExplained && all.tried < 2000 {
		t.Errorf("only %d were tried", all.tried)
	}
}

// explainAll explains all that wait in one scenario, and tries a few of the changes, rare kinds first.
func (y *tally) explainAll(t *testing.T, seed uint64) {
	w := settled(t, seed)
	var list []string
	changes := map[string]sched.Explanation{}
	for _, id := range sorted(w.b.waits) {
		ex, ok := sched.Explain(w.now, w.c, w.q, id, 10_000)
		if !ok || ex.Message.EN == "" || ex.Message.ZH == "" || (ex.Change.Kind != "" && ex.Action.ZH == "") {
			t.Errorf("seed %d: %s has no explanation: %+v", seed, id, ex)
			return
		}
		y.note(ex.Reason, "")
		if ex.Change.Kind != "" {
			list = append(list, id)
			changes[id] = ex
		}
	}
	if res := sched.Plan(w.now, w.c, w.q, w.p); len(res.Decisions) > 0 {
		t.Errorf("seed %d: to explain changed something: %v", seed, ids(res))
	}
	seen := map[advice.ChangeKind]int{}
	for _, id := range list {
		seen[changes[id].Change.Kind]++
	}
	slices.SortStableFunc(list, func(a, b string) int { return seen[changes[a].Change.Kind] - seen[changes[b].Change.Kind] })
	for _, id := range list[:min(8, len(list))] {
		y.note("", changes[id].Change.Kind)
		if why := apply(settled(t, seed), id, changes[id].Change); why != "" {
			t.Errorf("seed %d: %s waits: %s %s\n%+v: %s", seed, id, changes[id].Reason, changes[id].Message.EN, changes[id].Change, why)
		}
	}
}

func (y *tally) note(reason string, kind advice.ChangeKind) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if reason != "" {
		y.reasons[reason]++
	}
	if kind != "" {
		y.kinds[kind]++
		y.tried++
	}
}

// apply makes one change, and says what keeps the workload from starting.
func apply(w *world, id string, ch sched.Change) string {
	v := w.b.waits[id]
	switch ch.Kind {
	case advice.ChangeUncordon, advice.ChangeLimit, advice.ChangeResume:
		for _, other := range sorted(w.b.waits) {
			if other != id {
				w.cancel(other)
			}
		}
	default:
		v = sched.Apply(ch, v)
		w.b.waits[id] = v
		w.q.Add(v)
	}
	switch ch.Kind {
	case advice.ChangeUncordon:
		n := &w.b.nodes[ch.Value-1]
		n.Closed, n.ClosedDevices = false, 0
		w.setNode(*n)
	case advice.ChangeLimit:
		q := w.b.queues[ch.Target]
		q.Limit[ch.Resource] = ch.Value
		w.setSame(sorted(w.b.queues))
	case advice.ChangeResume:
		q := w.b.queues[ch.Target]
		q.Paused = false
		w.b.queues[ch.Target] = q
		w.q.SetPaused(ch.Target, false)
	}
	if why := w.turn(); why != "" {
		return why
	}
	if w.b.stands[id] == nil {
		after, _ := sched.Explain(w.now, w.c, w.q, id, 10_000)
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
