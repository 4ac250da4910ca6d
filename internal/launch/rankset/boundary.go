package rankset

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The leader opens another generation also without a fault: a task grows, or shrinks. Then ranks are first asked for a save, so that the
// next generation goes on from the end of a step that was just made. What is held is frozen behind that save; ranks that make none in
// time go on from the last that there is.

// A save that was asked for is waited for, for so long at least, or for so many steps: rank 0 picks one that lies ahead.
const (
	boundaryLeast = 10 * time.Second
	boundarySteps = 5
	boundaryMost  = 2 * time.Minute
)

// freezing is whether what ranks hold stays as it is.
type freezing struct {
	asked    bool      // by the leader's word
	boundary *boundary // about to be
	frozen   bool      // a rank failed: nothing may be overwritten that the leader may choose
}

func (f *freezing) isFrozen() bool { return f.frozen || f.asked }

// boundary is a save that was asked for: of a step behind the newest that all local ranks held then.
type boundary struct{ from int64 }

// freeze is the leader's word that it is about to open another generation, or is not any more: what it
// knows that is held must be so until then, while the ranks go on. With save they are asked for one before. mu held.
func (s *stand) freeze(generation int64, asked, save bool) {
	switch {
	case generation != s.now.Number || s.asked == asked && s.boundary == nil:
	case asked && save && s.conns.Talking():
		s.askForSave()
	default:
		s.settle(asked)
	}
}

// settle makes the leader's word be so, mu held.
func (s *stand) settle(asked bool) {
	s.boundary = nil
	if s.asked != asked {
		s.asked = asked
		s.answerOffers()
		s.report()
	}
}

// askForSave asks once, mu held.
func (s *stand) askForSave() {
	if s.boundary != nil {
		return
	}
	b := &boundary{from: s.hold.newest()}
	s.boundary = b
	s.conns.post(everybody, func(out *rankOutbox) { out.checkpoint = &word.Checkpoint{} })
	time.AfterFunc(boundaryPatience(s.said.Pace), func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		if s.boundary == b {
			s.settle(true)
		}
	})
}

// reach sees whether the save is there that was asked for, mu held.
func (s *stand) reach() {
	if s.boundary != nil && s.hold.newest() > s.boundary.from {
		s.settle(true)
	}
}

// boundaryPatience is how long a save is waited for, of ranks with this pace.
func boundaryPatience(pace link.Pace) time.Duration {
	if pace.Steps == 0 {
		return boundaryLeast
	}
	steps := time.Duration(boundarySteps * pace.Seconds / float64(pace.Steps) * float64(time.Second))
	return min(max(boundaryLeast, steps), boundaryMost)
}
