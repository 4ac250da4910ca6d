package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/link"
)

// holdings are the steps that local ranks hold, and which of them stay. They know nobody: the Set locks them and tells the ranks.
type holdings struct {
	all     bool            // all ranks of the task are here: the watermark is, too, and nobody need be asked
	held    [][]int64       // of each local rank, rising
	saved   []bool          // which have saved in this generation
	mark    int64           // the watermark
	pinned  []int64         // steps that stay besides, rising
	offers  map[int][]int64 // what local ranks would keep, if they may give up the rest
	offer   int64           // grows with every offer
	granted int64           // the newest offer that the leader knows of
}

func newHoldings(ranks int) holdings {
	return holdings{held: make([][]int64, ranks), saved: make([]bool, ranks), offers: map[int][]int64{}}
}

// begin is a new generation: of what is held only the step to restore, and what came before, is still of the same run.
func (h *holdings) begin(g link.Generation) {
	h.all, h.mark, h.granted = g.World == len(h.held), g.Restore, h.offer
	for i := range h.held {
		h.held[i] = slices.DeleteFunc(h.held[i], func(step int64) bool { return step > g.Restore })
		h.saved[i] = false
	}
	clear(h.offers)
	h.unpin(func(step int64) bool { return step > g.Restore })
}

// common is what all local ranks hold.
func (h *holdings) common() []int64 {
	out := h.offered(0)
	for i := 1; i < len(h.held); i++ {
		other := h.offered(i)
		out = slices.DeleteFunc(out, func(step int64) bool { return !slices.Contains(other, step) })
	}
	return out
}

// offered is what a local rank holds without what it offers to give up.
func (h *holdings) offered(i int) []int64 {
	kept, offers := h.offers[i]
	return slices.DeleteFunc(slices.Clone(h.held[i]), func(step int64) bool {
		return offers && !h.all && step > h.mark && !slices.Contains(kept, step)
	})
}

// newest is the newest step that all local ranks hold.
func (h *holdings) newest() int64 {
	all := h.common()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// save is a step that a local rank saved.
func (h *holdings) save(i int, step int64) {
	h.held[i], h.saved[i] = newest(append(h.held[i], step)), true
	if kept, offered := h.offers[i]; offered {
		h.offers[i] = append(kept, step)
	}
}

// propose is what a local rank would keep, if it may give up the rest.
func (h *holdings) propose(i int, steps []int64) {
	h.offers[i] = steps
	h.offer++
}

// say is what a local rank finds in its memory, before it knows where to go on from: of what lies there beyond that only what it saved
// in this generation is of this run.
func (h *holdings) say(i int, steps []int64, restore int64) {
	known := h.held[i]
	h.held[i] = newest(slices.DeleteFunc(slices.Clone(steps), func(step int64) bool {
		return step > restore && !slices.Contains(known, step)
	}))
	h.unpin(func(step int64) bool { return !slices.Contains(h.held[i], step) })
}

// giveUp lets a local rank give up all beyond the watermark that it did not offer to keep.
func (h *holdings) giveUp(i int, kept []int64) {
	h.held[i] = slices.DeleteFunc(h.held[i], func(step int64) bool { return step > h.mark && !slices.Contains(kept, step) })
}

// pin keeps these steps; it says whether that is news. One that the watermark has passed may be overwritten already, and
// is not among them.
func (h *holdings) pin(keep []int64) bool {
	all := h.common()
	kept := slices.DeleteFunc(slices.Clone(keep), func(step int64) bool {
		return !slices.Contains(h.pinned, step) && (step < h.mark || !slices.Contains(all, step))
	})
	if slices.Equal(kept, h.pinned) {
		return false
	}
	h.pinned = kept
	return true
}

// unpin forgets kept steps.
func (h *holdings) unpin(gone func(step int64) bool) {
	h.pinned = slices.DeleteFunc(slices.Clone(h.pinned), gone)
}

// states is everything of which the leader may choose: what our ranks, from first on, keep, and what is kept for others.
func (h *holdings) states(first int, others []link.Copy) []link.Copy {
	if len(h.pinned) == 0 {
		return others
	}
	return slices.Concat([]link.Copy{{First: first, Ranks: len(h.held), Steps: slices.Clone(h.pinned)}}, others)
}

// newest sorts, and keeps no more than a leader wants to know.
func newest(steps []int64) []int64 {
	slices.Sort(steps)
	steps = slices.Compact(steps)
	return steps[max(0, len(steps)-link.MaxHeld):]
}
