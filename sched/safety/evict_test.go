package safety

import (
	"fmt"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// going is what each queue will lose to wishes not carried out yet.
func (w *world) going() map[string]sched.Vector {
	out := map[string]sched.Vector{}
	for id, e := range w.b.wishes {
		g := w.b.stands[id]
		if e.to != nil {
			continue // its queue goes on paying
		}
		gone := g.at
		if e.shrink != nil {
			gone = make(sched.Assignment, len(g.at))
			for i := range g.at {
				gone[i] = g.at[i][len(e.shrink.At[i]):]
			}
		}
		w.b.charge(out, w.c, g.w, gone, +1)
	}
	return out
}

// quantum and longest are the policy's defaults.
const (
	quantum  = 10 * time.Minute
	longest  = 72 * time.Hour
	maxTurns = 16
)

// checkEvictions holds each eviction against its rule. What queues used at the moment of the
// decision is between before and after; the rule must hold for some state between.
func (w *world) checkEvictions(res sched.Result, before, after, going map[string]sched.Vector) string {
	for i := range res.Evictions {
		e := &res.Evictions[i]
		g, ok := w.b.stands[e.ID]
		if !ok {
			return e.ID + " does not stand"
		}
		if g.since.Equal(w.last) && e.Why != sched.EvictReclaim {
			for _, d := range res.Decisions {
				if d.Workload.ID == e.ID && d.Workload.Priority >= w.b.waits[e.For].Priority {
					return e.ID + " started in this turn"
				}
			}
		}
		if why := w.ask(e.ID, e.For, eviction{to: e.To}); why != "" {
			return why
		}
		if w.p.NoPreemption && e.To == nil {
			return e.ID + " is evicted where nobody is"
		}
		if !e.AskCheckpoint || e.Grace <= 0 {
			return e.ID + " is not asked for a checkpoint"
		}
		if e.Why == sched.EvictMoved {
			if why := w.checkMoved(e, g); why != "" {
				return fmt.Sprintf("%s moves for %s: %s", e.ID, e.For, why)
			}
			continue
		}
		if why := w.rule(e.Why, w.b.waits[e.For], g, before, after, going); why != "" {
			return fmt.Sprintf("%s for %s by %s: %s", e.ID, e.For, e.Why, why)
		}
	}
	for i := range res.Resizes {
		if r := &res.Resizes[i]; r.For != "" {
			g, taker := w.b.stands[r.ID], w.b.waits[r.For]
			if !g.w.Preemptible {
				return r.ID + " shrinks and is not preemptible"
			}
			if g.w.Queue == taker.Queue && taker.Priority < g.w.Priority {
				return r.ID + " shrinks for a lower priority"
			}
		}
	}
	return ""
}

// checkMoved: who moves may, has stood for a while, and has its second place, whole and by its own rules, from now on.
func (w *world) checkMoved(e *sched.Eviction, g *gang) string {
	w.st.sent++
	at, reserved := w.c.Reserved(e.ID)
	switch {
	case !g.w.Preemptible || g.w.Priority > w.b.waits[e.For].Priority || w.p.Moves == nil:
		return "it may not"
	case w.last.Sub(g.since) < 6*quantum:
		return "it has not stood for long"
	case !reserved || !same(at, e.To):
		return fmt.Sprintf("its second place is %v, and %v is told", at, e.To)
	}
	for i := range g.at {
		if len(e.To[i]) != len(g.at[i]) {
			return "its second place is not whole"
		}
	}
	loads := w.b.loads()
	put(loads, g.w, e.To)
	for _, s := range slotsOf(e.To) {
		if why := w.b.overfull(&loads[s.Node], s.Node, false); why != "" {
			return why
		}
	}
	return w.b.rules(g.w, e.To, slotsOf(e.To))
}

func (w *world) rule(why sched.EvictionReason, taker *sched.Workload, g *gang, before, after, going map[string]sched.Vector) string {
	v := g.w
	if !v.Preemptible {
		return "not preemptible"
	}
	switch why {
	case sched.EvictTurn, sched.EvictOverdue, sched.EvictKept:
		w.b.turns[v.ID]++
		switch {
		case w.p.NoTurns:
			return "turns are off"
		case v.Queue != taker.Queue || v.Priority != taker.Priority:
			return "not its equal"
		case w.last.Sub(g.since) < quantum:
			return "its quantum is not over"
		case w.b.turns[v.ID] > maxTurns:
			return "gave way too often"
		case why == sched.EvictOverdue && w.last.Sub(taker.Submitted) < longest:
			return "the other is not overdue"
		}
		return ""
	case sched.EvictPriority:
		w.b.forced[v.ID]++
		if taker.Priority <= v.Priority {
			return "its priority is not lower"
		}
		if v.Queue == taker.Queue {
			return ""
		}
	case sched.EvictReclaim:
		w.b.forced[v.ID]++
		if v.Queue == taker.Queue {
			return "of the same queue"
		}
	}
	return w.crossing(why, taker, g, before, after, going)
}

// crossing checks guarantees where the paths of two queues part.
func (w *world) crossing(why sched.EvictionReason, taker *sched.Workload, v *gang, before, after, going map[string]sched.Vector) string {
	mine, theirs := w.part(taker.Queue, v.w.Queue)
	if theirs == "" {
		return "one queue is above the other"
	}
	need := needOf(w.c, taker, func(i int) int { return minOf(&taker.Roles[i]) })
	at := func(m map[string]sched.Vector, name string, i int) int64 {
		if m[name] == nil {
			return 0
		}
		return m[name][i]
	}
	gives := w.b.takes(w.c, v.w, v.at)
	over, named := false, false
	for i, g := range w.b.queues[theirs].Guarantee {
		if g <= 0 || need[i] == 0 {
			continue
		}
		named = true
		has := at(after, theirs, i) - at(going, theirs, i)
		over = over || has > g
		if why == sched.EvictPriority && has-gives[i] < g {
			return fmt.Sprintf("queue %s would have %d of its guarantee of %d", theirs, has-gives[i], g)
		}
	}
	if why == sched.EvictReclaim && named && !over {
		return fmt.Sprintf("queue %s is within its guarantee", theirs)
	}
	if why != sched.EvictReclaim {
		return ""
	}
	named = false
	for i, g := range w.b.queues[mine].Guarantee {
		if g > 0 && need[i] > 0 {
			named = true
			if at(before, mine, i)+need[i] > g {
				return fmt.Sprintf("queue %s goes beyond its guarantee: %d + %d of %d", mine, at(before, mine, i), need[i], g)
			}
		}
	}
	if !named {
		return fmt.Sprintf("queue %s has no guarantee", mine)
	}
	return ""
}

// part is where two paths part: "" when one is above the other.
func (w *world) part(a, b string) (string, string) {
	x, y := w.b.path(a), w.b.path(b)
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) == 0 || len(y) == 0 {
		return "", ""
	}
	return x[len(x)-1], y[len(y)-1]
}
