package rankset

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/link"
)

// course is how local ranks got on in a generation: what says how their time was spent. Other than the watch for hangs it does not care
// why nobody got on: time in which the launcher itself was stopped is lost like any other. Who has it locks it.
type course struct {
	ranks  []rankCourse
	lastAt time.Time
}

type rankCourse struct {
	base    int64     // how many steps there were before its first, where that is known before it tells one
	first   int64     // that it told; 0: none yet
	newest  int64     // that it told
	at      time.Time // of that, or of the begin or the end of a pause
	stalled time.Duration
}

// courseLeast is the shortest time without a step that is called a stall.
const courseLeast = 10 * time.Second

func newCourse(n int) course { return course{ranks: make([]rankCourse, n)} }

// begin is a new generation.
func (c *course) begin(now time.Time) {
	for i := range c.ranks {
		c.ranks[i] = rankCourse{base: -1, at: now}
	}
	c.lastAt = now
}

// started: its ranks run.
func (c *course) started(now time.Time) { c.lastAt = now }

// from says how many steps a rank had made before the first that it tells.
func (c *course) from(local int, steps int64) {
	if r := &c.ranks[local]; r.first == 0 || steps != r.base {
		r.base, r.first = steps, 0 // another number is followed
	}
}

// step is a report of a rank; usual is how long one may take to come, 0: not known yet.
func (c *course) step(local int, step int64, usual time.Duration, now time.Time) {
	r := &c.ranks[local]
	if r.first == 0 && step > 0 {
		if r.first = step; r.base >= 0 {
			r.first = min(step, r.base+1)
		}
	} else if gap := now.Sub(r.at); step > r.newest && usual > 0 && gap > usual {
		r.stalled += gap
	}
	if step > r.newest {
		r.at, c.lastAt = now, now
	}
	r.newest = step
}

// pause is the begin or the end of one.
func (c *course) pause(local int, now time.Time) { c.ranks[local].at, c.lastAt = now, now }

// begun says that a rank told a step.
func (c *course) begun(local int) bool { return c.ranks[local].first > 0 }

// told is what the leader is told.
func (c *course) told(s *stall, printed bool) link.Course {
	out := link.Course{LastAt: c.lastAt, Patience: s.usual(printed)}
	for i := range c.ranks {
		r := &c.ranks[i]
		if r.first > 0 && (out.First == 0 || r.first < out.First) {
			out.First = r.first
		}
		out.Stalled = max(out.Stalled, r.stalled)
		out.Pausing = out.Pausing || len(s.pulses[i].in) > 0 && !s.pulses[i].gone
	}
	return out
}

// usual is after how long without a report one is missed; 0: not known yet. Who only prints announces no pause.
func (s *stall) usual(printed bool) time.Duration {
	if len(s.recent) < stallKnown {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.recent))
	middle := sorted[len(sorted)/2]
	if printed {
		return max(printedLeast, 6*middle)
	}
	return max(courseLeast, 3*middle)
}
