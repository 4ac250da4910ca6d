package sched

import (
	"container/heap"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// A deferrable workload waits for the hours that cost least, or burn least, of all in which it can
// still meet its deadline. Until then it is in no class: it stands in a heap by the time at which it
// is let go, and costs nothing when others come and go. Let go, it is one of many, and is never held
// back again; the zones that were best at its hours come first.
const (
	// WindowHorizon is how long after its submit a workload without a deadline starts at the latest.
	WindowHorizon = 24 * time.Hour
	// A workload is let go so early that a tenth of its time and windowSlack may be lost on the way.
	windowSlack = 10 * time.Minute
	// worthwhile is the share, one in so many, that has to be saved by waiting.
	worthwhile = 100
)

// Window is the start that a deferrable workload waits for.
type Window struct {
	For   api.Deferral
	Start time.Time
	// Now and Then are what the whole run comes to if it starts at once and at Start: money in
	// Currency, or grams of CO₂.
	Now, Then cost.Nano
	Currency  string
	// zones are the best first, as of Start.
	zones []string
}

// WindowOf finds the hours a workload would wait for; false when it starts as soon as there is room:
// it is not deferrable, nothing is won by waiting, or the deadline is too near.
func WindowOf(now time.Time, c *Cluster, q *Queues, w *Workload) (Window, bool) {
	win, _ := q.window(q.notBefore(now), c, w)
	return win, win.Start.After(q.notBefore(now))
}

// window finds the best start; its zones are set also where that is now. ok is false where nothing
// is known to compare.
func (q *Queues) window(now time.Time, c *Cluster, w *Workload) (Window, bool) {
	best := Window{For: w.Defer, Start: now}
	if w.Expected <= 0 || now.IsZero() {
		return best, false
	}
	latest := q.latestStart(now, w)
	places, currency := c.hours(w)
	best.Currency = currency
	var least, atOnce cost.Sum
	known := false
	for _, p := range places {
		today := cost.Over(now, now.Add(w.Expected), p.rates...)
		start, sum := now, today
		if at, then, ok := cost.Best(now, latest, w.Expected, p.rates...); ok {
			start, sum = at, then
		}
		if !known || today.Cmp(atOnce) < 0 {
			atOnce = today
		}
		if !known || sum.Cmp(least) < 0 || sum.Cmp(least) == 0 && start.Before(best.Start) {
			best.Start, least = start, sum
		}
		known = true
	}
	best.Now, best.Then = atOnce.Nano(), least.Nano()
	if best.Now-best.Then < best.Now/worthwhile || best.Now == best.Then {
		best.Start, best.Then = now, best.Now
	}
	best.zones = cheapestFirst(places, best.Start, w.Expected)
	return best, known
}

// latestStart is the last time at which the workload may be let go.
func (q *Queues) latestStart(now time.Time, w *Workload) time.Time {
	since := w.Submitted
	if since.IsZero() {
		since = now
	}
	latest := since.Add(WindowHorizon)
	if !w.Deadline.IsZero() {
		length := max(w.Expected, q.estimate(w).Quantile(safely, 0))
		latest = w.Deadline.Add(-length - length/10 - windowSlack)
	}
	if !w.StartBy.IsZero() && w.StartBy.Add(-windowSlack).Before(latest) {
		latest = w.StartBy.Add(-windowSlack)
	}
	return latest
}

// hours is what a workload costs an hour in one place it may get.
type hours struct {
	zone  string // "": in several
	rates []cost.Daily
}

// hours are the zones that could hold the workload were they empty; where none could alone, all of
// them together. Zones with another currency than the first, or of unknown carbon, are left out.
func (c *Cluster) hours(w *Workload) (out []hours, currency string) {
	single, zones := c.roomyZones(w)
	var together []cost.Daily
	for _, z := range zones {
		share := single
		if n, ok := w.Split[z.Name]; ok && w.Replicas() > 0 {
			share = float64(n) / float64(w.Replicas())
		}
		rate, money, ok := z.rate(w, share)
		if !ok || money != "" && currency != "" && money != currency {
			continue
		}
		currency = money
		together = append(together, rate)
		if share == 1 {
			out = append(out, hours{z.Name, []cost.Daily{rate}})
		}
	}
	if len(out) == 0 && len(together) > 0 {
		out = append(out, hours{"", together})
	}
	return out, currency
}

// rate is what a share of the workload costs an hour in a zone over the day, in its currency; or
// burns, which has none.
func (z *zone) rate(w *Workload, share float64) (rate cost.Daily, currency string, ok bool) {
	if z.Cost == nil {
		return cost.Daily{}, "", false
	}
	part := cost.Part{Zone: z.Name}
	for i := range w.Roles {
		r := &w.Roles[i]
		n := float64(r.Replicas) * share
		part.CPU += api.MilliCPU(n * float64(r.Need.CPU))
		part.Memory += api.Bytes(n * float64(r.Need.Memory))
		part.Thousandths += int64(n * float64(r.Need.Devices) * float64(r.Need.share()))
		if part.DeviceType == "" {
			part.DeviceType = r.Need.choice(0)
		}
	}
	if w.Defer == api.DeferGreen {
		rate, ok = z.Cost.Carbon(part)
		return rate, "", ok
	}
	return z.Cost.Daily(part, w.Preemptible), z.Cost.Currency, true
}

// roomyZones are the zones that take the whole workload when empty, each of them all of it; else all
// that may take something, each its share.
func (c *Cluster) roomyZones(w *Workload) (share float64, zones []*zone) {
	c.topology()
	var some []*zone
	for _, z := range allowed(c, w) {
		if z.at < 0 {
			continue
		}
		if _, fixed := w.Split[z.Name]; len(w.Split) > 0 && !fixed {
			continue
		}
		some = append(some, z)
		if len(w.Split) == 0 && !w.Survive && c.couldHold(z, w) {
			zones = append(zones, z)
		}
	}
	if len(zones) > 0 {
		return 1, zones
	}
	return 1 / float64(max(len(some), 1)), some
}

// couldHold says that an empty zone has room for every role.
func (c *Cluster) couldHold(z *zone, w *Workload) bool {
	for choice := range w.choices() {
		all := true
		for i := range w.Roles {
			key, ok := c.askKey(&w.Roles[i].Need, choice)
			all = all && ok && c.emptyZones(key)[z.at] >= int64(w.Roles[i].Replicas)
		}
		if all {
			return true
		}
	}
	return false
}

// cheapestFirst orders single zones by what a run of a length costs there from a time on.
func cheapestFirst(places []hours, start time.Time, length time.Duration) []string {
	sums := map[string]cost.Sum{}
	var out []string
	for _, p := range places {
		if p.zone != "" {
			sums[p.zone] = cost.Over(start, start.Add(length), p.rates...)
			out = append(out, p.zone)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return sums[a].Cmp(sums[b]) })
	return out
}

// hold puts an entry among those whose hours are yet to be found.
func (q *Queues) hold(e *entry) {
	e.state = undecided
	q.undecided[e.w.ID] = e
}

// unhold takes an entry out of those that are held back.
func (q *Queues) unhold(e *entry) {
	switch e.state {
	case undecided:
		delete(q.undecided, e.w.ID)
	case heldBack:
		heap.Remove(&q.held, e.held)
	}
	e.state = filed
}

// letGo finds hours for those that have none, or all anew when prices have changed, and files those
// whose hours have come.
func (q *Queues) letGo(now time.Time, c *Cluster) {
	if c.rates != q.rates {
		q.rates = c.rates
		for len(q.held) > 0 {
			e := q.held[len(q.held)-1]
			q.unhold(e)
			q.hold(e)
		}
	}
	for _, id := range sortedKeys(q.undecided) {
		e := q.undecided[id]
		e.window, _ = q.window(now, c, e.w)
		if q.unhold(e); e.window.Start.After(now) {
			e.state = heldBack
			heap.Push(&q.held, e)
		} else {
			q.release(now, e)
		}
	}
	for len(q.held) > 0 && !q.held[0].window.Start.After(now) {
		e := q.held[0]
		q.unhold(e)
		q.release(now, e)
	}
}

// release lets an entry wait like everybody; its waiting begins now.
func (q *Queues) release(now time.Time, e *entry) {
	e.w.prefer, e.since = e.window.zones, now.Add(q.ran(e.w.ID))
	q.history(e.w.ID).letGo = true
	heap.Push(&q.ageing, e)
	q.file(e, false)
}

// deferred says that a workload is to be held back: it asks for it, and has never been let go.
func (q *Queues) deferred(w *Workload) bool {
	p := q.past[w.ID]
	return w.Defer != "" && (p == nil || !p.letGo && p.ran == 0 && p.evicted == 0)
}

// pressing counts who would start at once if there were room.
func (q *Queues) pressing() int { return len(q.waiting) - len(q.held) - len(q.undecided) }

// heldHeap is by when they are let go.
type heldHeap []*entry

func (h heldHeap) Len() int { return len(h) }
func (h heldHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if !a.window.Start.Equal(b.window.Start) {
		return a.window.Start.Before(b.window.Start)
	}
	return a.w.ID < b.w.ID
}
func (h heldHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].held, h[j].held = i, j
}
func (h *heldHeap) Push(x any) {
	e := x.(*entry)
	e.held = len(*h)
	*h = append(*h, e)
}
func (h *heldHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
