package safety

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// turn lets the planner decide, and holds what it decided against the book. The text is what is
// wrong; "" is nothing.
func (w *world) turn() string {
	before := w.b.usage(w.c)
	going := w.going()
	expected := w.expectedClaims()
	w.last = later(w.last, w.now)
	for _, id := range sorted(w.b.stands) {
		if w.p.Moves != nil { // all save, again and again
			sched.Know(w.q, id, w.last, w.b.stands[id].w.RestartCost)
		}
	}
	res := sched.Plan(w.now, w.c, w.q, w.p)
	w.note(res)
	if w.talk {
		w.log("decided %v, evicts %+v, resizes %+v, reserves %v", short(res), res.Evictions, res.Resizes, res.Reservations)
	}
	loads, usage := w.b.loads(), w.b.usage(w.c)
	started := map[string]bool{}
	for _, d := range res.Decisions {
		if why := w.checkStart(d, loads, usage); why != "" {
			return "start: " + why
		}
		started[d.Workload.ID] = true
		delete(w.b.waits, d.Workload.ID)
		delete(w.b.claims, d.Workload.ID)
		w.b.stands[d.Workload.ID] = &gang{w: d.Workload, at: d.At, since: w.last, resized: w.last}
	}
	for _, id := range expected {
		if !started[id] {
			return fmt.Sprintf("claim: all victims of %s went, and it does not start", id)
		}
		w.st.claimsKept++
	}
	for i := range res.Resizes {
		if why := w.checkResize(&res.Resizes[i], loads, usage); why != "" {
			return "resize: " + why
		}
	}
	if why := w.checkEvictions(res, before, usage, going); why != "" {
		return "eviction: " + why
	}
	for id := range w.b.claims {
		r, _ := w.q.Predicted(id)
		w.log("claim of %s at %v", id, r.At)
	}
	return w.checkBooks(loads, usage)
}

// short is who starts where.
func short(res sched.Result) (out []string) {
	for _, d := range res.Decisions {
		out = append(out, fmt.Sprint(d.Workload.ID, d.At))
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// expectedClaims are those that must start now: all their victims have gone, nothing else changed.
func (w *world) expectedClaims() []string {
	var out []string
	for id, c := range w.b.claims {
		_, waits := w.b.waits[id]
		switch {
		case !waits:
			delete(w.b.claims, id)
		case len(c.pending) == 0:
			if !c.dirty && !w.paused(w.b.waits[id].Queue) {
				out = append(out, id)
			}
			delete(w.b.claims, id)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) paused(queue string) bool {
	return slices.ContainsFunc(w.b.path(queue), func(name string) bool { return w.b.queues[name].Paused })
}

// note counts, and adds a result to the sum over all.
func (w *world) note(res sched.Result) {
	w.st.plans++
	w.st.starts += len(res.Decisions)
	for _, e := range res.Evictions {
		if e.To == nil {
			w.st.evictions++
		}
	}
	w.st.reservations += len(res.Reservations)
	h := fnv.New64a()
	for _, d := range res.Decisions {
		fmt.Fprint(h, d.Workload.ID, d.At)
	}
	for _, r := range res.Reservations {
		fmt.Fprint(h, r.ID, r.At, r.Start.UnixNano(), r.Early.UnixNano(), r.Late.UnixNano())
	}
	fmt.Fprint(h, res.Evictions, res.Resizes, res.More, res.Wake.UnixNano())
	w.sum = w.sum*1099511628211 ^ h.Sum64()
}

func (w *world) checkStart(d sched.Decision, loads []load, usage map[string]sched.Vector) string {
	v := d.Workload
	if w.b.waits[v.ID] != v {
		return v.ID + " does not wait"
	}
	if w.paused(v.Queue) {
		return fmt.Sprintf("%s starts in paused queue %s", v.ID, v.Queue)
	}
	if why := whole(v, d.At); why != "" {
		return why
	}
	slots := slotsOf(d.At)
	if why := w.b.rules(v, d.At, slots); why != "" {
		return why
	}
	if why := w.oneChoice(v, d.At); why != "" {
		return why
	}
	put(loads, v, d.At)
	for _, s := range slots {
		if why := w.b.overfull(&loads[s.Node], s.Node, false); why != "" {
			return v.ID + ": " + why
		}
	}
	if why := w.hosts(v, d.At); why != "" {
		return why
	}
	return w.limits(v, d.At, usage)
}

// oneChoice: of types in order of preference all roles got the same place in the order.
func (w *world) oneChoice(v *sched.Workload, at sched.Assignment) string {
	for choice := range 2 {
		all := true
		for i := range v.Roles {
			list := v.Roles[i].Need.DeviceTypes
			if len(list) == 0 {
				continue
			}
			for _, s := range at[i] {
				for k, kind := range w.b.nodes[s.Node-1].Devices {
					all = all && (s.Devices>>k&1 == 0 || plain(kind) == plain(list[choice]))
				}
			}
		}
		if all {
			return ""
		}
	}
	return v.ID + " has a mixture of types"
}

func (w *world) hosts(v *sched.Workload, at sched.Assignment) string {
	for name, most := range w.b.hosts {
		n, touched := 0, false
		count := func(at sched.Assignment, mine bool) {
			for _, s := range slotsOf(at) {
				if w.b.nodes[s.Node-1].Host == name {
					n++
					touched = touched || mine
				}
			}
		}
		for id, g := range w.b.stands {
			if id != v.ID {
				count(g.at, false)
			}
		}
		if count(at, true); touched && n > most {
			return fmt.Sprintf("%s is process %d of %d of its machine", v.ID, n, most)
		}
	}
	return ""
}

// limits charges a start, and names the queue it takes beyond its limit.
func (w *world) limits(v *sched.Workload, at sched.Assignment, usage map[string]sched.Vector) string {
	w.b.charge(usage, w.c, v, at, +1)
	need := w.b.takes(w.c, v, at)
	for _, name := range w.b.path(v.Queue) {
		for i, most := range w.b.queues[name].Limit {
			if most < 0 {
				continue
			}
			w.st.limited++
			if need[i] > 0 && usage[name][i] > most {
				return fmt.Sprintf("with %s queue %s uses %d of %d (resource %d)", v.ID, name, usage[name][i], most, i)
			}
		}
	}
	return ""
}

func (w *world) checkResize(r *sched.Resize, loads []load, usage map[string]sched.Vector) string {
	g, ok := w.b.stands[r.ID]
	if !ok {
		return r.ID + " does not stand"
	}
	v := g.w
	if len(r.At) != len(v.Roles) || !same(r.Was, g.at) {
		return r.ID + " stands elsewhere"
	}
	if r.For != "" {
		w.st.shrinks++
		for i := range r.At {
			if len(r.At[i]) < min(minOf(&v.Roles[i]), len(g.at[i])) || len(r.At[i]) > len(g.at[i]) {
				return fmt.Sprintf("%s shrinks from %d to %d in role %d", r.ID, len(g.at[i]), len(r.At[i]), i)
			}
		}
		return w.ask(r.ID, r.For, eviction{shrink: r})
	}
	w.st.grows++
	more := make(sched.Assignment, len(r.At))
	for i := range r.At {
		if len(r.At[i]) > max(v.Roles[i].Max, v.Roles[i].Replicas) || len(r.At[i]) < len(g.at[i]) {
			return fmt.Sprintf("%s grows to %d in role %d", r.ID, len(r.At[i]), i)
		}
		more[i] = r.At[i][len(g.at[i]):]
	}
	slots := slotsOf(more)
	if why := w.b.rules(v, r.At, slots); why != "" {
		return "grown " + why
	}
	put(loads, v, more)
	for _, s := range slots {
		if why := w.b.overfull(&loads[s.Node], s.Node, false); why != "" {
			return "grown " + v.ID + ": " + why
		}
	}
	g.at, g.resized = r.At, w.last
	if why := w.hosts(v, r.At); why != "" {
		return "grown " + why
	}
	if why := w.limits(v, more, usage); why != "" {
		return "grown " + why
	}
	return ""
}

// ask notes what a victim was asked for somebody; nobody is asked twice.
func (w *world) ask(id, forWhom string, e eviction) string {
	if _, twice := w.b.wishes[id]; twice {
		return id + " is asked twice"
	}
	if _, waits := w.b.waits[forWhom]; !waits {
		return fmt.Sprintf("%s is asked for %s, which does not wait", id, forWhom)
	}
	w.b.wishes[id] = e
	c := w.b.claims[forWhom]
	if c == nil {
		c = &claim{pending: map[string]bool{}}
		w.b.claims[forWhom] = c
	}
	c.pending[id] = true
	return ""
}

// checkBooks holds the planner's own counters against the book.
func (w *world) checkBooks(loads []load, usage map[string]sched.Vector) string {
	for i := range w.b.nodes {
		if why := w.b.overfull(&loads[i+1], uint32(i+1), true); why != "" {
			return "books: " + why
		}
	}
	for _, name := range queueNames {
		got := w.q.Usage(name)
		for i := range 16 {
			var have, want int64
			if i < len(got) {
				have = got[i]
			}
			if usage[name] != nil {
				want = usage[name][i]
			}
			if have != want {
				return fmt.Sprintf("books: queue %s is charged %d of resource %d, uses %d", name, have, i, want)
			}
		}
	}
	if w.q.Len() != len(w.b.waits) || w.q.Runs() != len(w.b.stands) {
		return fmt.Sprintf("books: %d wait and %d stand, by the planner %d and %d", len(w.b.waits), len(w.b.stands), w.q.Len(), w.q.Runs())
	}
	for id, g := range w.b.stands {
		if at, ok := w.c.Held(id); !ok || !same(at, g.at) {
			return fmt.Sprintf("books: %s is held at %v, stands at %v", id, at, g.at)
		}
	}
	for id := range w.b.waits {
		if _, ok := w.c.Held(id); ok {
			return "books: " + id + " waits and is held"
		}
		if _, ok := w.q.Get(id); !ok {
			return "books: " + id + " was lost"
		}
	}
	return ""
}
