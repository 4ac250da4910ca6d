package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// DefaultBandwidth is what is assumed of a link between zones that nobody declared, in bytes a second:
// 1 Gbit/s.
const DefaultBandwidth = 125_000_000

// minMoving is how long moving takes before anybody waits to avoid it.
const minMoving = time.Minute

// atlas is the zones by name: how far they are from each other.
type atlas map[string]*zone

// bandwidth is what a link carries, in bytes a second: the lesser of what both ends say.
func (a atlas) bandwidth(from, to string) int64 {
	there, back := int64(0), int64(0)
	if z, ok := a[from]; ok {
		there = z.Bandwidth[to]
	}
	if z, ok := a[to]; ok {
		back = z.Bandwidth[from]
	}
	switch {
	case there <= 0 && back <= 0:
		return DefaultBandwidth
	case there <= 0 || back > 0 && back < there:
		return back
	}
	return there
}

// moving is how long it takes to bring what a gang reads to a zone: one thing after the other, each
// from where the link is widest.
func (a atlas) moving(w *Workload, zone string) time.Duration {
	seconds := 0.0
	for _, d := range w.Data {
		if slices.Contains(d.Zones, zone) || d.Bytes <= 0 {
			continue
		}
		widest := int64(0)
		for _, from := range d.Zones {
			widest = max(widest, a.bandwidth(from, zone))
		}
		seconds += float64(d.Bytes) / float64(cmp.Or(widest, DefaultBandwidth)) // that of nowhere, where it lies nowhere that is known
	}
	if seconds > math.MaxInt64/2/float64(time.Second) {
		return math.MaxInt64 / 2
	}
	return time.Duration(seconds * float64(time.Second))
}

// movingTo is the same for a place: its zones fetch side by side.
func (c *Cluster) movingTo(w *Workload, at Assignment) time.Duration {
	longest := time.Duration(0)
	seen := map[string]bool{}
	for _, slots := range at {
		for _, s := range slots {
			if zone := c.nodes[s.Node].Zone; !seen[zone] {
				seen[zone] = true
				longest = max(longest, c.zones.moving(w, zone))
			}
		}
	}
	return longest
}

// homing is a workload that waits for room where its data lies.
type homing struct {
	near   *Workload     // with only the zones that are better
	moving time.Duration // what is saved by waiting
	start  time.Time     // when it is expected to start there
	replan time.Time     // until then that is believed
	until  time.Time     // it does not wait longer
}

// besideData looks whether a gang that could start at a place is sooner at work where its data lies:
// now, then that is the place, or after a wait, then it says which. It never waits longer than moving
// takes, whatever was expected, so that it loses at most as much as it could have won.
func (t *turn) besideData(e *entry, at Assignment) (Assignment, *homing) {
	w := e.w
	if len(w.Data) == 0 || len(w.Split) > 0 {
		return at, nil
	}
	here := t.c.movingTo(w, at)
	near, ok := t.nearer(w, at, here)
	if !ok || here < minMoving {
		return at, nil
	}
	if better, ok := t.roomFor(e, near, near.shape()); ok {
		return better, nil
	}
	until := t.now.Add(here)
	if p := t.q.past[w.ID]; p != nil && !p.patience.IsZero() {
		until = p.patience
	}
	old := e.home
	switch {
	case !t.now.Before(until) || old == nil && t.forecasts >= maxForecasts:
		return at, nil
	case old != nil && (t.now.Before(old.replan) || t.forecasts >= maxForecasts): // it is believed a little longer
		return at, old
	}
	t.forecasts++
	r, ok := t.forecast(near, e.rank())
	if !ok || !r.Start.Add(t.c.movingTo(w, r.At)).Before(t.now.Add(here)) {
		return at, nil
	}
	return at, &homing{near: near, moving: here, start: r.Start, replan: r.replan, until: until}
}

// staysAt says that a gang with room at a place starts now, there or beside its data, whatever is
// expected.
func (t *turn) staysAt(e *entry, at Assignment) bool {
	if len(e.w.Data) == 0 || len(e.w.Split) > 0 {
		return true
	}
	here := t.c.movingTo(e.w, at)
	near, ok := t.nearer(e.w, at, here)
	if !ok || here < minMoving {
		return true
	}
	_, ok = t.roomFor(e, near, near.shape())
	return ok
}

// nearer is the workload, at the size it has at a place, with only the zones to which less has to be
// moved than to that.
func (t *turn) nearer(w *Workload, at Assignment, here time.Duration) (*Workload, bool) {
	near := *resized(w, at)
	near.Allow, near.Deny = nil, nil
	for _, z := range allowed(t.c, w) {
		if t.c.zones.moving(w, z.Name) < here {
			near.Allow = append(near.Allow, z.Name)
		}
	}
	return &near, len(near.Allow) > 0
}

// stayHome lets a gang wait for room beside its data.
func (t *turn) stayHome(e *entry) {
	t.q.history(e.w.ID).patience = e.home.until
	if q := t.q; q.patience.IsZero() || e.home.until.Before(q.patience) {
		q.patience = e.home.until
	}
	t.reserve(e, e.home.near)
}
