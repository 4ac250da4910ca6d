package probe

import (
	"math"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const (
	// size bounds a window: at one ping in two seconds, the last eight minutes.
	size = 256
	// least is how many round trips say something.
	least = 10
	// A value is another when it differs by a tenth, and by more than a tenth of a millisecond.
	changedBy, changedMs = 0.1, 0.1
	// reportEvery is how often a zone is written at most, renewAfter how old what is written may get:
	// after a day nobody believes it.
	reportEvery = time.Minute
	renewAfter  = 12 * time.Hour
)

// window is the last round trips to one zone.
type window struct {
	trips []time.Duration // a ring once it is full
	next  int
	heard time.Time
}

func (w *window) add(d time.Duration) {
	if len(w.trips) < size {
		w.trips = append(w.trips, d)
		return
	}
	w.trips[w.next] = d
	w.next = (w.next + 1) % size
}

// measured is what the window says; false while it says too little.
func (w *window) measured(now time.Time) (api.MeasuredLatency, bool) {
	if len(w.trips) < least {
		return api.MeasuredLatency{}, false
	}
	sorted := slices.Clone(w.trips)
	slices.Sort(sorted)
	at := func(share float64) float64 { // the nearest rank, in milliseconds, to a microsecond
		d := sorted[int(math.Ceil(share*float64(len(sorted))))-1]
		return float64(d.Microseconds()) / 1000
	}
	return api.MeasuredLatency{P50Ms: at(0.5), P99Ms: at(0.99), Samples: len(sorted), At: now}, true
}

// changed says that a new value is worth a write.
func changed(old, now api.MeasuredLatency) bool {
	other := func(a, b float64) bool {
		return math.Abs(a-b) > max(changedBy*max(a, b), changedMs)
	}
	return old.Samples == 0 || other(old.P50Ms, now.P50Ms) || other(old.P99Ms, now.P99Ms) || now.At.Sub(old.At) > renewAfter
}
