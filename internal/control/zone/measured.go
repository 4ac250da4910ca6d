package zone

import (
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// How seldom what tasks measure is written, and how long it is kept.
const (
	refreshAfter = 15 * time.Minute
	changedAfter = time.Minute         // where it is of another class now
	calmAfter    = 6 * time.Hour       // where an agent found the same again: agents never rest
	forgetAfter  = 30 * 24 * time.Hour // nobody learns anything from it any more
)

// What an agent finds is the same where it differs by less than a tenth, or a tenth of a millisecond.
const sameBy, sameMs = 0.1, 0.1

// keep is the table of a zone with what tasks found since of zones that exist, without what is too old. Nothing new gives the same table.
func keep(s seen, now time.Time) map[string]api.MeasuredLatency {
	out := map[string]api.MeasuredLatency{}
	for to, m := range s.zone.Status.Measured {
		if now.Sub(m.At) > forgetAfter {
			continue
		}
		m.Stale = now.Sub(m.At) > cost.Fresh
		out[to] = m
	}
	for to, m := range s.trips {
		old, known := out[to]
		if s.peers != nil && !s.peers[to] || now.Sub(m.At) > forgetAfter || known && !replaces(m, old) {
			continue
		}
		m.Stale = now.Sub(m.At) > cost.Fresh
		out[to] = m
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// replaces says that a newer measurement is worth a write.
func replaces(m, old api.MeasuredLatency) bool { return m.At.Sub(old.At) >= worthAfter(m, old) }

func worthAfter(m, old api.MeasuredLatency) time.Duration {
	if cost.ClassOf(m.P50Ms).Name != cost.ClassOf(old.P50Ms).Name {
		return changedAfter
	}
	if m.Task == "" && math.Abs(m.P50Ms-old.P50Ms) <= max(sameBy*old.P50Ms, sameMs) {
		return calmAfter
	}
	return refreshAfter
}

// wake is when the table changes by itself: the first that grows stale, or is forgotten. 0: never.
func wake(table map[string]api.MeasuredLatency, now time.Time) time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, m := range table {
		age := now.Sub(m.At)
		left := forgetAfter - age
		if !m.Stale {
			left = cost.Fresh - age
		}
		next = min(next, max(left+time.Second, time.Second))
	}
	if len(table) == 0 {
		return 0
	}
	return next
}
