package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How often ranks save is tuned by the leader, from what a save costs them: that goes up from here, and the interval down.

// stallsKept is of how many saves of a rank it is remembered what they cost.
const stallsKept = 8

// stalled notes how long local rank i waited for a save; the median counts, of two the shorter: the first
// save makes room, and costs more than any other. mu held.
func (r *Set) stalled(i int, seconds float64) {
	if seconds <= 0 {
		return
	}
	r.stalls[i] = append(r.stalls[i], min(seconds, 1e9))
	r.stalls[i] = r.stalls[i][max(0, len(r.stalls[i])-stallsKept):]
	r.said.Saves.Stall = 0
	for _, list := range r.stalls {
		if n := len(list); n > 0 {
			r.said.Saves.Stall = max(r.said.Saves.Stall, slices.Sorted(slices.Values(list))[(n-1)/2])
		}
	}
}

// TellInterval is the leader's newest word about it.
func (r *Set) TellInterval(g link.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.Number < r.now.Number || g.Every == r.said.Every {
		return
	}
	r.said.Every = g.Every
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.interval = &word.Interval{Steps: g.Every} })
	}
	r.report()
}
