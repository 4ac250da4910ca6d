package safety

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched"
)

// scenario plays one seed: some steps of random events with a turn after each, then everything
// ends and nothing may be left behind.
func (w *world) scenario() string {
	total := 34 + w.rng.IntN(45)
	steps := 3 + w.rng.IntN(3)
	if w.chance(10) {
		steps = 12
	}
	for step := range steps {
		for w.st.workloads < total*(step+1)/(steps-2) && w.st.workloads < total {
			w.submit(w.newWorkload())
		}
		for range 1 + w.rng.IntN(3) {
			w.event()
		}
		w.carryOut(70)
		w.log("%s turn %d", w.now.Sub(epoch), step)
		if why := w.turn(); why != "" {
			return why
		}
		w.afterTurn()
	}
	if w.chance(25) {
		if why := w.idle(); why != "" {
			return why
		}
	} else if w.chance(10) {
		if why := w.quiet(); why != "" {
			return why
		}
	}
	return w.drain()
}

func (w *world) submit(v *sched.Workload) {
	w.log("submit %+v", *v)
	w.st.workloads++
	w.b.waits[v.ID] = v
	w.q.Add(v)
	if w.chance(5) {
		w.q.Add(v) // said twice is said once
	}
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (w *world) event() {
	switch stands, waits := sorted(w.b.stands), sorted(w.b.waits); w.rng.IntN(14) {
	case 0, 1, 2, 3:
		if len(stands) > 0 {
			w.end(pick(w, stands...), true)
		}
	case 4:
		if len(stands) > 0 {
			w.fail(pick(w, stands...))
		}
	case 5:
		if len(waits) > 0 {
			w.cancel(pick(w, waits...))
		}
	case 6:
		w.closeOrOpen()
	case 7:
		if w.chance(30) {
			w.log("queues set")
			w.editQueues()
			w.dirty()
		}
	case 8:
		name := pick(w, "a", "a1", "b")
		q := w.b.queues[name]
		q.Name = name
		q.Paused = !q.Paused && w.chance(50)
		w.b.queues[name] = q
		w.q.SetPaused(name, q.Paused)
		w.log("queue %s paused %t", name, q.Paused)
	case 9:
		w.now = w.now.Add(-time.Duration(w.rng.IntN(3600)) * time.Second) // a clock that goes back
	case 10:
		if w.chance(10) {
			w.restart()
		}
	default:
		w.now = later(w.now, w.last).Add(pick(w, time.Second, time.Minute, 11*time.Minute, time.Hour, 80*time.Hour))
	}
}

// dirty excuses the claims there are: the world is not as it was when they were made.
func (w *world) dirty() {
	for _, c := range w.b.claims {
		c.dirty = true
	}
}

// forget takes a gang off the book, and off what others wait for.
func (w *world) forget(id string) {
	delete(w.b.stands, id)
	delete(w.b.wishes, id)
	for _, c := range w.b.claims {
		delete(c.pending, id)
	}
}

func (w *world) end(id string, finished bool) {
	w.log("end %s %t", id, finished)
	w.c.Release(id)
	w.c.Unreserve(id)
	w.q.Stop(w.now, id, finished)
	if !finished {
		w.q.Remove(id)
	}
	w.forget(id)
}

func (w *world) fail(id string) {
	w.log("fail %s", id)
	v := w.b.stands[id].w
	w.c.Release(id)
	w.c.Unreserve(id)
	w.q.Stop(w.now, id, false)
	w.forget(id)
	w.b.waits[id] = v
	w.q.Add(v)
}

func (w *world) cancel(id string) {
	w.log("cancel %s", id)
	delete(w.b.waits, id)
	delete(w.b.claims, id)
	w.q.Remove(id)
}

func (w *world) closeOrOpen() {
	n := &w.b.nodes[w.rng.IntN(len(w.b.nodes))]
	if w.chance(30) && len(n.Devices) > 0 {
		n.ClosedDevices ^= 1 << w.rng.IntN(len(n.Devices))
	} else {
		n.Closed = !n.Closed
	}
	w.log("node %d closed %t %x", n.Number, n.Closed, n.ClosedDevices)
	w.st.closedNodes++
	w.setNode(*n)
	w.dirty()
}

// carryOut does what was wished for, each with a chance: some late, some never.
func (w *world) carryOut(percent int) {
	for _, id := range sorted(w.b.wishes) {
		if w.chance(percent) {
			w.yield(id)
		}
	}
}

func (w *world) yield(id string) {
	e := w.b.wishes[id]
	w.log("yields %s %v %v", id, e.shrink, e.to)
	if e.to != nil {
		if err := sched.Moved(w.now, w.c, w.q, id, e.to, w.now); err != nil {
			panic(err)
		}
		g := w.b.stands[id]
		w.forget(id)
		g.at, g.since, g.resized = e.to, w.now, w.now
		w.b.stands[id] = g
		return
	}
	if e.shrink == nil {
		w.fail(id)
		return
	}
	g := w.b.stands[id]
	if err := sched.Resized(w.now, w.c, w.q, id, e.shrink.At); err != nil {
		panic(err)
	}
	g.at = e.shrink.At
	delete(w.b.wishes, id)
	for _, c := range w.b.claims {
		delete(c.pending, id)
	}
}

// afterTurn sometimes takes the latest start back, as when it could not be committed.
func (w *world) afterTurn() {
	if w.chance(5) {
		w.unevict()
	}
	if len(w.b.stands) == 0 || !w.chance(15) {
		return
	}
	for _, id := range sorted(w.b.stands) {
		g := w.b.stands[id]
		if !g.since.Equal(w.last) || !g.resized.Equal(w.last) {
			continue
		}
		if _, asked := w.b.wishes[id]; asked {
			continue
		}
		w.log("undo %s", id)
		w.st.undos++
		sched.Undo(w.c, w.q, sched.Decision{Workload: g.w, At: g.at})
		w.forget(id)
		w.b.waits[id] = g.w
		return
	}
}

// unevict takes evictions back that could not be written.
func (w *world) unevict() {
	for _, id := range sorted(w.b.wishes) {
		e := w.b.wishes[id]
		if e.shrink != nil || !w.chance(30) {
			continue
		}
		for who, c := range w.b.claims {
			if c.pending[id] {
				w.log("eviction of %s for %s is taken back", id, who)
				w.c.Unreserve(id)
				sched.UndoEviction(w.q, sched.Eviction{ID: id, For: who})
				delete(w.b.claims, who)
				delete(w.b.wishes, id)
			}
		}
	}
}

// restart is a new leader: it knows what stands and what waits, and nothing else.
func (w *world) restart() {
	w.log("restart")
	w.st.restarts++
	w.last = time.Time{} // the new one believes its own clock
	w.c, w.q = sched.NewCluster(), sched.NewQueues()
	w.load()
	queues := sorted(w.b.queues)
	w.setSame(queues)
	for _, id := range sorted(w.b.stands) {
		g := w.b.stands[id]
		if err := w.c.Hold(id, g.w.Roles, g.at); err != nil {
			panic(err)
		}
		w.q.Run(w.now, w.c, g.w, g.at, g.since)
		w.q.Run(w.now, w.c, g.w, g.at, g.since) // said twice is said once
	}
	for _, id := range sorted(w.b.waits) {
		w.q.Add(w.b.waits[id])
	}
	clear(w.b.claims)
	clear(w.b.wishes)
	clear(w.b.turns)
}
