package demand

import (
	"slices"
	"time"
)

// Use is what a member of a replica used since its start, as its launcher tells.
type Use struct {
	CPU     float64 // seconds, of one of the cores that it asked for
	Seconds float64 // that passed
	Busy    float64 // seconds in which one of its accelerators worked, over all
	Watched float64 // seconds in which that was watched, over all
}

// told is a use, and when it came.
type told struct {
	at time.Time
	Use
}

// uses are those of a service's members, by name, oldest first.
type uses map[string][]told

// quietFor is how long a member may tell nothing new before it counts no more.
const quietFor = 30 * time.Second

// Used takes what a member that answers requests has used so far.
func (d *Desk) Used(id, member string, u Use, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.of(id)
	if s.uses == nil {
		s.uses = uses{}
	}
	s.touched = now
	s.uses.take(member, u, now)
}

func (m uses) take(member string, u Use, now time.Time) {
	list := m[member]
	if n := len(list); n > 0 {
		switch last := list[n-1]; {
		case u.Seconds < last.Seconds: // it was started again
			list = nil
		case u == last.Use:
			return
		}
	}
	old := 0
	for old < len(list) && now.Sub(list[old].at) > remember {
		old++
	}
	m[member] = append(slices.Delete(list, 0, old), told{now, u})
	for name, list := range m {
		if now.Sub(list[len(list)-1].at) > remember {
			delete(m, name)
		}
	}
}

// share is how much of their cores and of their accelerators members used within a time, from 0 to 1 and more; false: nobody tells.
func (m uses) share(window time.Duration, now time.Time) (cores, devices float64, hasCores, hasDevices bool) {
	var ofCores, ofDevices int
	for _, list := range m {
		n := len(list)
		if n < 2 || now.Sub(list[n-1].at) > quietFor {
			continue
		}
		first := n - 2
		for first > 0 && now.Sub(list[first-1].at) <= window {
			first--
		}
		from, to := list[first], list[n-1]
		if span := to.Seconds - from.Seconds; span > 0 {
			cores += max(to.CPU-from.CPU, 0) / span
			ofCores++
		}
		if span := to.Watched - from.Watched; span > 0 {
			devices += max(to.Busy-from.Busy, 0) / span
			ofDevices++
		}
	}
	return cores / float64(max(ofCores, 1)), devices / float64(max(ofDevices, 1)), ofCores > 0, ofDevices > 0
}
