package sched

import (
	"time"

	"github.com/fermi-cluster/fermi/sched/distance"
)

// minMoving is how long moving takes before anybody waits to avoid it.
const minMoving = time.Minute

// atlas is the zones by name: how far they are from each other.
type atlas map[string]*zone

func (a atlas) known(name string) *Zone {
	if z, ok := a[name]; ok {
		return &z.Zone
	}
	return nil
}

// moving is how long it takes to bring what a gang reads to a zone.
func (a atlas) moving(w *Workload, zone string) time.Duration {
	return distance.Zones(a.known).Moving(w.Data, zone)
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

// besideData looks whether a gang that could start at a place is sooner at work where its data lies: now, then that is the place, or after a wait,
// then it says which. It never waits longer than moving takes, whatever was expected, so that it loses at most as much as it could have won.
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

// staysAt says that a gang with room at a place starts now, there or beside its data, whatever is expected.
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

// nearer is the workload, at the size it has at a place, with only the zones to which less has to be moved than to that.
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
