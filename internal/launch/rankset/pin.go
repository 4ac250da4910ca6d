package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Watermark is the leader's word: the newest step that all hold, and others that stay besides. kept are those of
// them that do, false: it was of another generation.
func (r *Set) Watermark(w link.Watermark) (kept []int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Last {
		defer bell.Ring(r.Released)
	}
	if w.Generation != r.now.Number {
		return nil, false
	}
	defer func() { // after the watermark itself: it knows of offers up to this one
		r.hold.granted = max(r.hold.granted, w.Seen)
		r.answerOffers()
	}()
	if len(w.Committed) > 0 {
		r.committed = w.Committed
		bell.Ring(r.Changed)
	}
	r.answerWants(w.Denied)
	if w.Step == 0 {
		return nil, false
	}
	if r.files { // a step is one of the folder's
		r.order(w.Persist)
		return nil, false
	}
	r.pin(w.Keep)
	r.order(w.Persist) // before anything newer counts
	r.raise(w.Step)
	return slices.Clone(r.hold.pinned), true
}

// pin has the ranks keep these steps; mu held.
func (r *Set) pin(keep []int64) {
	if r.isFrozen() || !r.hold.pin(keep) {
		return
	}
	kept := slices.Clone(r.hold.pinned)
	r.Conns.post(everybody, func(out *rankOutbox) { out.pin = &word.Pin{Steps: slices.Clone(kept)} })
	r.later(savedPause)
}

// raise tells the ranks of a newer watermark, mu held.
func (r *Set) raise(step int64) {
	if step <= r.hold.mark || r.isFrozen() {
		return
	}
	r.hold.mark = step
	r.tellMark()
}

// tellMark tells all ranks where the watermark is and what is kept, mu held.
func (r *Set) tellMark() {
	mark, keep := r.hold.mark, r.keeping()
	r.Conns.post(everybody, func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
}

// answerOffers lets ranks give up the steps that they offered: from now on none of them can become the
// watermark, and one that had become it stays. Not while the leader may choose any of what it knows,
// and where other launchers' ranks count, only once it knows of the offer; mu held.
func (r *Set) answerOffers() {
	if !r.hold.all && r.hold.granted < r.hold.offer || r.isFrozen() {
		return
	}
	for i, kept := range r.hold.offers {
		delete(r.hold.offers, i)
		if r.hold.all {
			r.raise(r.hold.newest())
		}
		r.hold.giveUp(i, kept)
		mark, keep := r.hold.mark, r.keeping()
		r.Conns.post(i, func(out *rankOutbox) { out.watermark, out.held, out.keep = mark, true, keep })
	}
}
