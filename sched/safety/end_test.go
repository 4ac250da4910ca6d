package safety

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

func (w *world) setSame(names []string) {
	var queues []fair.Queue
	for _, name := range names {
		queues = append(queues, w.b.queues[name])
	}
	if err := w.q.Set(queues, w.c.Total()); err != nil {
		panic(err)
	}
}

// quiet lets nothing happen but what the planner itself wishes, and expects it to come to rest:
// with turns off, who runs and who is to start may not be the same again after an eviction. Who is
// to start counts: a gang whose queue borrows can start by priority and be asked to go at once for
// a guarantee, and then the set that runs is one that was there, on its way to another (seed 26292).
func (w *world) quiet() string {
	seen := map[string]bool{}
	rounds, calm := 0, 0
	for ; calm < 3; rounds++ {
		if rounds > 60 {
			if w.p.NoTurns {
				return "loop: no rest after 60 rounds in which nothing happened"
			}
			return "" // turns go on for long; each is bounded by its rule
		}
		evictions := w.st.evictions
		w.now = later(w.now, w.last).Add(quantum)
		w.log("%s quiet turn", w.now.Sub(epoch))
		if why := w.turn(); why != "" {
			return why
		}
		wishes := len(w.b.wishes)
		w.carryOut(100)
		if w.p.NoTurns && w.st.evictions > evictions {
			state := strings.Join(sorted(w.b.stands), " ") + "; to start: " + strings.Join(sorted(w.b.claims), " ")
			if seen[state] {
				return "loop: the same run again after an eviction: " + state
			}
			seen[state] = true
		}
		calm++
		if wishes > 0 {
			calm = 0
		}
	}
	return ""
}

// idle lets nobody wait and some end: those that can grow do.
func (w *world) idle() string {
	for range 2 {
		for _, id := range sorted(w.b.waits) {
			w.cancel(id)
		}
		for _, id := range sorted(w.b.stands) {
			if w.chance(30) {
				w.end(id, true)
			}
		}
		w.now = later(w.now, w.last).Add(time.Hour)
		w.log("%s idle turn", w.now.Sub(epoch))
		if why := w.turn(); why != "" {
			return why
		}
	}
	return ""
}

// drain ends everything: no use may be left in any queue, and the cluster must be as a new one.
func (w *world) drain() string {
	for _, id := range sorted(w.b.waits) {
		w.cancel(id)
	}
	for _, id := range sorted(w.b.stands) {
		w.end(id, w.chance(50))
	}
	for _, name := range queueNames {
		for i, x := range w.q.Usage(name) {
			if x != 0 {
				return fmt.Sprintf("leak: queue %s still uses %d of resource %d", name, x, i)
			}
		}
	}
	if w.q.Len() != 0 || w.q.Runs() != 0 {
		return fmt.Sprintf("leak: %d wait, %d run", w.q.Len(), w.q.Runs())
	}
	if w.chance(25) { // a new cluster is dear
		if why := w.sameAsNew(); why != "" {
			return why
		}
	}
	return w.limitsAreFree()
}

// sameAsNew asks both the used and a new cluster to take the same work.
func (w *world) sameAsNew() string {
	fresh := &world{rng: w.rng, c: sched.NewCluster(), b: w.b}
	fresh.load()
	var results [2]sched.Result
	var list []*sched.Workload
	for range 6 {
		v := w.newWorkload()
		v.Roles[0].Replicas, v.Roles[0].Min, v.Roles[0].Max, v.Split = 6, 0, 0, nil
		v.Roles[0].Need.DeviceType, v.Roles[0].Need.DeviceTypes = "", nil
		list = append(list, v)
	}
	for i, c := range []*sched.Cluster{w.c, fresh.c} {
		q := sched.NewQueues()
		for _, v := range list {
			q.Add(v)
		}
		results[i] = sched.Plan(w.now, c, q, sched.Policy{Reservations: -1})
		for _, v := range list {
			c.Release(v.ID)
		}
	}
	if !reflect.DeepEqual(results[0].Decisions, results[1].Decisions) {
		return fmt.Sprintf("leak: the cluster is not as a new one: %v, new %v", ids(results[0]), ids(results[1]))
	}
	return ""
}

// limitsAreFree fills each queue to its limit exactly: nothing may still be noted as coming.
func (w *world) limitsAreFree() string {
	zones := map[string]int{}
	for i := range w.b.nodes {
		n := &w.b.nodes[i]
		n.Closed, n.ClosedDevices, n.Host = false, 0, ""
		w.setNode(*n)
		zones[n.Zone] += len(n.Devices)
	}
	for _, n := range zones {
		if n < 8 {
			return "" // an unlucky cluster
		}
	}
	two := []int64{-1, -1, 2000}
	queues := []fair.Queue{{Name: "a", Limit: []int64{-1, -1, 4000}}, {Name: "a1", Parent: "a", Limit: two}, {Name: "a2", Parent: "a", Limit: two}, {Name: "b", Limit: two}}
	if err := w.q.Set(queues, w.c.Total()); err != nil {
		panic(err)
	}
	for _, name := range []string{"a1", "a2", "b"} {
		w.next++
		v := &sched.Workload{ID: fmt.Sprintf("t%04d", w.next), Queue: name, Roles: []sched.Role{{Replicas: 2, Need: sched.Need{Devices: 1}}}}
		w.q.Add(v)
	}
	if res := sched.Plan(later(w.now, w.last).Add(time.Hour), w.c, w.q, sched.Policy{}); len(res.Decisions) != 3 {
		return fmt.Sprintf("leak: of three that just fit the limits only %v started", ids(res))
	}
	return ""
}

func ids(r sched.Result) []string {
	var out []string
	for _, d := range r.Decisions {
		out = append(out, d.Workload.ID)
	}
	return out
}
