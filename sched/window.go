package sched

import (
	"cmp"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/book"
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
	// together is how many are planned at a time.
	together = 16
)

// Window is the start that a deferrable workload waits for.
type Window struct {
	advice.Hours
	// zones are the best first, as of Start.
	zones []string
	stay  book.Stay
}

// rank is how many zones are better.
func (w *Window) rank(zone string) int {
	if w == nil {
		return 0
	}
	if i := slices.Index(w.zones, zone); i >= 0 {
		return i
	}
	return len(w.zones)
}

// WindowOf finds the hours a workload would wait for; false when it starts as soon as there is room:
// it is not deferrable, nothing is won by waiting, or the deadline is too near.
func WindowOf(now time.Time, c *Cluster, q *Queues, w *Workload) (Window, bool) {
	b := booking{now: q.notBefore(now), c: c, q: q}
	win := b.windows([]*Workload{w})[0]
	return win, win.Start.After(b.now)
}

// booking finds hours for some, beside those of everybody but those it is to leave out.
type booking struct {
	now  time.Time
	c    *Cluster
	q    *Queues
	but  map[string]bool
	room map[string]int64 // devices that can be booked
}

// windows finds the best starts of workloads together. Where nothing is known to compare, the start is now.
func (b *booking) windows(ws []*Workload) []Window {
	out, places := make([]Window, len(ws)), make([][]book.Option, len(ws))
	b.room = map[string]int64{}
	var jobs []book.Job
	var of []int // by job
	for i, w := range ws {
		out[i].For, out[i].Start = w.Defer, b.now
		if w.Expected <= 0 || b.now.IsZero() {
			continue
		}
		places[i], out[i].Currency = b.c.hours(w)
		j := book.Job{ID: w.ID, Length: w.Expected, From: b.now, Until: b.q.latestStart(b.now, w), Unit: out[i].Currency}
		for _, p := range places[i] {
			o := book.Option{Rates: p.Rates, Takes: int64(devicesOf(w))}
			if z := b.c.zones[p.Place]; z != nil && o.Takes > 0 {
				o.Place = b.place(z, w)
			}
			j.Options = append(j.Options, o)
		}
		if len(j.Options) > 0 {
			jobs, of = append(jobs, j), append(of, i)
		}
	}
	if len(jobs) == 0 {
		return out
	}
	for k, s := range book.Plan(b.room, b.stays(), jobs) {
		j, win, all := &jobs[k], &out[of[k]], places[of[k]]
		win.Start, win.Then = s.At, s.Cost
		for n := range j.Options {
			if sum := cost.Over(b.now, b.now.Add(j.Length), j.Options[n].Rates...).Nano(); n == 0 || sum < win.Now {
				win.Now = sum
			}
		}
		win.zones = book.CheapestFirst(all, s.At, j.Length, all[s.Option].Place)
		win.stay = book.Stay{Place: j.Options[s.Option].Place, Takes: j.Options[s.Option].Takes}
	}
	return out
}

// place is what is booked for a workload in a zone: devices of its type, or of all that the zone has.
func (b *booking) place(z *zone, w *Workload) string {
	var want []uint16
	for i := range w.Roles {
		if n := &w.Roles[i].Need; n.Devices > 0 && want == nil {
			want = b.c.kinds(n)
		}
	}
	counts := map[uint16]int64{}
	for _, n := range z.nodes {
		for _, t := range n.room.Types {
			if !n.Closed && (len(want) == 0 || want[0] == t) {
				counts[t]++
			}
		}
	}
	name, all := z.Name+"/", int64(0)
	for t, n := range counts {
		if all += n; len(counts) == 1 {
			name += b.c.TypeName(t)
		}
	}
	b.room[name] = all
	return name
}

// stays are those of who was held back: they wait for their hours, were let go, or run.
func (b *booking) stays() []book.Stay {
	var out []book.Stay
	add := func(w *Workload, win *Window, from time.Time, length time.Duration) {
		if win != nil && win.stay.Place != "" && !b.but[w.ID] {
			out = append(out, book.Stay{Place: win.stay.Place, Takes: win.stay.Takes, From: from, To: from.Add(max(length, time.Minute))})
		}
	}
	for _, e := range b.q.waiting {
		if e.state == heldBack {
			add(e.w, &e.window, e.window.Start, e.w.Expected)
		} else {
			add(e.w, e.w.hours, b.now, e.w.Expected)
		}
	}
	for _, r := range b.q.runs {
		add(r.Workload, r.Workload.hours, b.now, r.Workload.Expected-r.ran(b.now))
	}
	slices.SortFunc(out, func(a, b book.Stay) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Place, b.Place), cmp.Compare(a.Takes, b.Takes))
	})
	return out
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

// hours are the zones that could hold the workload were they empty; where none could alone, all of
// them together. Zones with another currency than the first, or of unknown carbon, are left out.
func (c *Cluster) hours(w *Workload) (out []book.Option, currency string) {
	single, zones := c.roomyZones(w)
	var together []cost.Daily
	for _, z := range zones {
		share := single
		if n, ok := w.Split[z.Name]; ok && w.Replicas() > 0 {
			share = float64(n.Least+min(n.Most, w.Replicas())) / 2 / float64(w.Replicas()) // of a span its middle
		}
		rate, money, ok := z.rate(w, share)
		if !ok || money != "" && currency != "" && money != currency {
			continue
		}
		currency = money
		together = append(together, rate)
		if share == 1 {
			out = append(out, book.Option{Place: z.Name, Rates: []cost.Daily{rate}})
		}
	}
	if len(out) == 0 && len(together) > 0 {
		out = append(out, book.Option{Rates: together})
	}
	return out, currency
}

// rate is what a share of the workload costs an hour in a zone over the day, in its currency; or
// burns, which has none.
func (z *zone) rate(w *Workload, share float64) (rate cost.Daily, currency string, ok bool) {
	if z.Cost == nil {
		return cost.Daily{}, "", false
	}
	if w.Defer == api.DeferGreen {
		rate, ok = z.Cost.Carbon(z.part(w, share))
		return rate, "", ok
	}
	return z.Cost.Daily(z.part(w, share), w.Preemptible), z.Cost.Currency, true
}

// part is what a share of the workload takes in a zone.
func (z *zone) part(w *Workload, share float64) cost.Part {
	part := cost.Part{Zone: z.Name}
	for i := range w.Roles {
		r := &w.Roles[i]
		n := float64(r.Replicas) * share
		part.CPU += api.MilliCPU(n * float64(r.Need.CPU))
		part.Memory += api.Bytes(n * float64(r.Need.Memory))
		part.Thousandths += int64(n * float64(r.Need.Devices) * float64(r.Need.Part()))
		if part.DeviceType == "" {
			part.DeviceType = r.Need.Choice(0)
		}
	}
	return part
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
		q.held.Remove(held{e})
	}
	e.state = filed
}

// letGo finds hours for those that have none, or all anew when prices have changed, and files those
// whose hours have come.
func (q *Queues) letGo(now time.Time, c *Cluster) {
	if c.market.rates != q.rates {
		q.rates = c.market.rates
		for q.held.Len() > 0 {
			e := q.held.Top().entry
			q.unhold(e)
			q.hold(e)
		}
	}
	for len(q.undecided) > 0 {
		booking{now: now, c: c, q: q}.decide()
	}
	for q.held.Len() > 0 && !q.held.Top().window.Start.After(now) {
		e := q.held.Top().entry
		q.unhold(e)
		q.release(now, e)
	}
}

// decide finds hours for some that have none, together with those of the others that come next.
func (b booking) decide() {
	var ws []*Workload
	b.but = map[string]bool{}
	add := func(e *entry) {
		b.q.unhold(e)
		ws, b.but[e.w.ID] = append(ws, e.w), true
	}
	for _, id := range sortedKeys(b.q.undecided) {
		if len(ws) < together {
			add(b.q.undecided[id])
		}
	}
	for b.q.held.Len() > 0 && len(ws) < together {
		add(b.q.held.Top().entry)
	}
	for i, win := range b.windows(ws) {
		e := b.q.waiting[ws[i].ID]
		if e.window = win; win.Start.After(b.now) {
			e.state = heldBack
			b.q.held.Push(held{e})
		} else {
			b.q.release(b.now, e)
		}
	}
}

// release lets an entry wait like everybody; its waiting begins now.
func (q *Queues) release(now time.Time, e *entry) {
	win := e.window
	e.w.hours, e.since = &win, now.Add(q.ran(e.w.ID))
	q.history(e.w.ID).letGo = true
	q.lane(e.w.Queue).begin(q, e)
	q.file(e, false)
}

// deferred says that a workload is to be held back: it asks for it, and has never been let go.
func (q *Queues) deferred(w *Workload) bool {
	p := q.past[w.ID]
	return w.Defer != "" && (p == nil || !p.letGo && p.ran == 0 && p.evicted == 0)
}

// pressing counts who would start at once if there were room.
func (q *Queues) pressing() int { return len(q.waiting) - q.held.Len() - len(q.undecided) }

// held is an entry among those that are held back.
type held struct{ *entry }

// Before is by when they are let go.
func (e held) Before(other held) bool {
	return cmp.Or(e.window.Start.Compare(other.window.Start), cmp.Compare(e.w.ID, other.w.ID)) < 0
}

// Lies is where it is among them.
func (e held) Lies() *int { return &e.entry.held }
