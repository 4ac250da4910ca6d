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
func (r *Set) freeze(generation int64, asked, save bool) {
	switch {
	case generation != r.now.Number || r.asked == asked && r.boundary == nil:
	case asked && save && r.Conns.Talking():
		r.askForSave()
	default:
		r.settle(asked)
	}
}

// settle makes the leader's word be so, mu held.
func (r *Set) settle(asked bool) {
	r.boundary = nil
	if r.asked != asked {
		r.asked = asked
		r.answerOffers()
		r.report()
	}
}

// askForSave asks once, mu held.
func (r *Set) askForSave() {
	if r.boundary != nil {
		return
	}
	b := &boundary{from: r.hold.newest()}
	r.boundary = b
	r.Conns.post(everybody, func(out *rankOutbox) { out.checkpoint = &word.Checkpoint{} })
	time.AfterFunc(boundaryPatience(r.said.Pace), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.boundary == b {
			r.settle(true)
		}
	})
}

// reach sees whether the save is there that was asked for, mu held.
func (r *Set) reach() {
	if r.boundary != nil && r.hold.newest() > r.boundary.from {
		r.settle(true)
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
