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
	defer r.grant(w.Seen) // after the watermark itself
	if len(w.Committed) > 0 {
		r.committed = w.Committed
		bell.Ring(r.Persist)
	}
	r.answerWants(w.Denied)
	if w.Step == 0 {
		return nil, false
	}
	if r.Files { // a step is one of the folder's
		r.order(w.Persist)
		return nil, false
	}
	r.pin(w.Keep)
	r.order(w.Persist) // before anything newer counts
	r.raise(w.Step)
	return slices.Clone(r.pinned), true
}

// grant is the leader's word that it knows of offers up to this one; mu held.
func (r *Set) grant(seen int64) {
	r.granted = max(r.granted, seen)
	r.answerOffers()
}

// pin has the ranks keep these steps. One that the watermark has passed may be overwritten already, and
// is not among them; mu held.
func (r *Set) pin(keep []int64) {
	if r.frozen || r.asked {
		return
	}
	all := r.common()
	kept := slices.DeleteFunc(slices.Clone(keep), func(step int64) bool {
		return !slices.Contains(r.pinned, step) && (step < r.mark || !slices.Contains(all, step))
	})
	if slices.Equal(kept, r.pinned) {
		return
	}
	r.pinned = kept
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.pin = &word.Pin{Steps: slices.Clone(kept)} })
	}
	r.later(savedPause)
}

// unpin forgets kept steps; mu held.
func (r *Set) unpin(gone func(step int64) bool) {
	r.pinned = slices.DeleteFunc(slices.Clone(r.pinned), gone)
}

// Copied tells the leader what is held for others.
func (r *Set) Copied(list []link.Copy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies = list
	r.later(savedPause)
}

// states is everything of which the leader may choose: what our ranks keep, and what is kept for others;
// mu held.
func (r *Set) states() []link.Copy {
	if len(r.pinned) == 0 {
		return r.copies
	}
	return slices.Concat([]link.Copy{{First: r.now.FirstRank, Ranks: len(r.held), Steps: slices.Clone(r.pinned)}}, r.copies)
}

// Missed is a generation that could not begin: the state it goes on from was not to be had.
func (r *Set) Missed(g link.Generation, e *link.RankExit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Missed, r.said.Generation, r.said.Failed, r.frozen = g.Restore, g.Number, e, true
	r.report()
}
