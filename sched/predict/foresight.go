package predict

import (
	"slices"
	"time"
)

// Telling is what was first told of a start, and when.
type Telling struct {
	At   time.Time
	Wait time.Duration
}

// Foresight holds how the last starts lay to what was first told of them. A forecast looks at the
// runs that stand; others end earlier, give way or push in before, and only the past knows how much
// that matters. An interval in which most of the past would have lain is one in which most of the
// future lies, as long as it is like the past.
type Foresight struct {
	ratios []int64 // waited by told, in 1/1024; a ring
	next   int
	sorted []int64 // nil: to be made again
}

const (
	foresightKept = 512
	// foresightFrom is how many starts must be known before they are believed.
	foresightFrom = 20
	// shortestTold bounds ratios: what is told in seconds is not known to the second.
	shortestTold = time.Minute
	maxRatio     = 1 << 20
)

// Add notes a start that was told.
func (f *Foresight) Add(told Telling, now time.Time) {
	ratio := min(int64(float64(max(now.Sub(told.At), 0))/float64(max(told.Wait, shortestTold))*1024), maxRatio)
	f.sorted = nil
	if len(f.ratios) < foresightKept {
		f.ratios = append(f.ratios, ratio)
		return
	}
	f.ratios[f.next] = ratio
	f.next = (f.next + 1) % foresightKept
}

// Marks are the waits that one in ten and nine in ten starts had that were told the same.
func (f *Foresight) Marks(wait time.Duration) (early, late time.Duration, ok bool) {
	n := len(f.ratios)
	if n < foresightFrom {
		return 0, 0, false
	}
	if f.sorted == nil {
		f.sorted = slices.Sorted(slices.Values(f.ratios))
	}
	// One more than there are, so that the next is within them in eight of ten cases, not one of these.
	low, high := (n+1)/10, n-(n+1)/10
	scale := func(ratio int64) time.Duration {
		return time.Duration(float64(max(wait, shortestTold)) * float64(ratio) / 1024)
	}
	return scale(f.sorted[max(low-1, 0)]), scale(f.sorted[min(high, n-1)]), true
}
