package rankset

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
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

// boundary is a save that was asked for: of a step behind the newest that all local ranks held then.
type boundary struct{ from int64 }

// Freeze is the leader's word that it is about to open another generation, or is not any more: what it
// knows that is held must be so until then, while the ranks go on. With save they are asked for one before.
func (r *Set) Freeze(generation int64, asked, save bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case generation != r.now.Number || r.asked == asked && r.boundary == nil:
	case asked && save && len(r.conns) > 0:
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
	b := &boundary{from: r.newestHeld()}
	r.boundary = b
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.checkpoint = &word.Checkpoint{} })
	}
	time.AfterFunc(r.boundaryPatience(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.boundary == b {
			r.settle(true)
		}
	})
}

// reach sees whether the save is there that was asked for, mu held.
func (r *Set) reach() {
	if r.boundary != nil && r.newestHeld() > r.boundary.from {
		r.settle(true)
	}
}

// newestHeld is the newest step that all local ranks hold, mu held.
func (r *Set) newestHeld() int64 {
	all := r.common()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

func (r *Set) boundaryPatience() time.Duration {
	pace := r.said.Pace
	if pace.Steps == 0 {
		return boundaryLeast
	}
	steps := time.Duration(boundarySteps * pace.Seconds / float64(pace.Steps) * float64(time.Second))
	return min(max(boundaryLeast, steps), boundaryMost)
}
