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
func (s *stand) pin(keep []int64) {
	if s.isFrozen() || !s.hold.pin(keep) {
		return
	}
	kept := slices.Clone(s.hold.pinned)
	s.conns.post(everybody, func(out *rankOutbox) { out.pin = &word.Pin{Steps: slices.Clone(kept)} })
	s.later(savedPause)
}

// raise tells the ranks of a newer watermark, mu held.
func (s *stand) raise(step int64) {
	if step <= s.hold.mark || s.isFrozen() {
		return
	}
	s.hold.mark = step
	s.tellMark()
}

// tellMark tells all ranks where the watermark is and what is kept, mu held.
func (s *stand) tellMark() {
	mark, keep := s.hold.mark, s.keeping()
	s.conns.post(everybody, func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
}

// answerOffers lets ranks give up the steps that they offered: from now on none of them can become the
// watermark, and one that had become it stays. Not while the leader may choose any of what it knows,
// and where other launchers' ranks count, only once it knows of the offer; mu held.
func (s *stand) answerOffers() {
	if !s.hold.all && s.hold.granted < s.hold.offer || s.isFrozen() {
		return
	}
	for i, kept := range s.hold.offers {
		delete(s.hold.offers, i)
		if s.hold.all {
			s.raise(s.hold.newest())
		}
		s.hold.giveUp(i, kept)
		mark, keep := s.hold.mark, s.keeping()
		s.conns.post(i, func(out *rankOutbox) { out.watermark, out.held, out.keep = mark, true, keep })
	}
}
