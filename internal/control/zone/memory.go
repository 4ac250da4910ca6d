package zone

import (
	"maps"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// logbook is the newest that the preflights of tasks and agents found, from zone to zone. Each leader makes it anew: what a task
// found is in its status, and agents measure again. At most one entry for each pair of zones.
type logbook struct {
	mu    *sync.Mutex
	trips map[string]map[string]api.MeasuredLatency
}

func newLogbook() logbook {
	return logbook{mu: &sync.Mutex{}, trips: map[string]map[string]api.MeasuredLatency{}}
}

// note takes up what a task found, and names the zones that it is news for.
func (l logbook) note(t *api.TrainingTask) (zones []string) {
	pf := t.Status.Preflight
	if pf == nil || pf.FinishedAt == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range pf.Crossings {
		if c.Pairs == 0 || c.OneMachine || c.LatencyMs <= 0 {
			continue
		}
		m := api.MeasuredLatency{
			P50Ms: c.LatencyMs, P99Ms: max(c.LatencyMs, c.SlowestMs), Samples: c.Pairs, At: pf.FinishedAt.Round(0).UTC(),
			FromNode: c.FromNode, ToNode: c.ToNode, Task: t.Meta.Project + "/" + t.Meta.Name,
		}
		if l.putBoth(c.From, c.To, m) {
			zones = append(zones, c.From, c.To)
		}
	}
	return zones
}

// both takes up what was found between two zones; false: that is no news.
func (l logbook) both(from, to string, m api.MeasuredLatency) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.putBoth(from, to, m)
}

// putBoth is for holders of the lock.
func (l logbook) putBoth(from, to string, m api.MeasuredLatency) bool {
	if !l.put(from, to, m) {
		return false
	}
	m.FromNode, m.ToNode = m.ToNode, m.FromNode
	return l.put(to, from, m)
}

func (l logbook) put(from, to string, m api.MeasuredLatency) bool {
	if l.trips[from] == nil {
		l.trips[from] = map[string]api.MeasuredLatency{}
	}
	if old, ok := l.trips[from][to]; ok && !m.At.After(old.At) {
		return false
	}
	l.trips[from][to] = m
	return true
}

// of is a copy of what was measured from a zone.
func (l logbook) of(zone string) map[string]api.MeasuredLatency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.trips[zone])
}
