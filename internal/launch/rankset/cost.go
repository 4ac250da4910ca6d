package rankset

import "slices"

// How often ranks save is tuned by the leader, from what a save costs them: that goes up from here, and the interval down.

const (
	// stallsKept is of how many saves of a rank it is remembered what they cost.
	stallsKept = 8
	// maxSaving is how many saves of a rank are under way: it has three slots.
	maxSaving = 8
)

// cost is what saves cost the local ranks.
type cost struct {
	begun  [][]int64   // saves of each that are under way
	stalls [][]float64 // how long each waited for its last saves, in seconds
}

func newCost(ranks int) cost {
	return cost{begun: make([][]int64, ranks), stalls: make([][]float64, ranks)}
}

// begin is a new generation, in which nobody saves yet.
func (c *cost) begin() { clear(c.begun) }

// saving notes that a rank began to save a step.
func (c *cost) saving(i int, step int64) {
	c.begun[i] = append(c.begun[i], step)
	c.begun[i] = c.begun[i][max(0, len(c.begun[i])-maxSaving):]
}

// whole notes that a step is; false: nobody said that it was begun, it came from a peer, or was there before.
func (c *cost) whole(i int, step int64) bool {
	at := slices.Index(c.begun[i], step)
	if at >= 0 {
		c.begun[i] = slices.Delete(c.begun[i], at, at+1)
	}
	return at >= 0
}

// stalled notes how long local rank i waited for a save; the median counts, of two the shorter: the first
// save makes room, and costs more than any other. The slowest rank's is given; false: it waited for none.
func (c *cost) stalled(i int, seconds float64) (slowest float64, known bool) {
	if seconds <= 0 {
		return 0, false
	}
	c.stalls[i] = append(c.stalls[i], min(seconds, 1e9))
	c.stalls[i] = c.stalls[i][max(0, len(c.stalls[i])-stallsKept):]
	for _, list := range c.stalls {
		if n := len(list); n > 0 {
			slowest = max(slowest, slices.Sorted(slices.Values(list))[(n-1)/2])
		}
	}
	return slowest, true
}
