package rankset

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How long a rank of which no step is known may do nothing at all before people hear of it. Nothing is done about it: it may wait
// for something with good reason.
const (
	IdleTick  = time.Minute // between two looks at all that a process and its descendants do: they are dear
	idleAfter = 10 * time.Minute
	idleShare = 0.01     // of one core
	idleBytes = 64 << 10 // read and written from one look to the next
)

// Sign is what a rank's process, and its descendants, have done so far.
type Sign struct {
	process.Vitals
	Printed int64 // bytes
}

// Idle knows since when ranks do nothing. It is pure, and of one generation.
type Idle map[int]doing // by local rank

type doing struct {
	since, at time.Time
	last      Sign
}

// Note is a look at a local rank; it gives for how long the rank has done nothing.
func (i Idle) Note(local int, now time.Time, s Sign) time.Duration {
	was, known := i[local]
	d := doing{since: now, at: now, last: s}
	if known && s.idles(was.last, now.Sub(was.at)) {
		d.since = was.since
	}
	i[local] = d
	return now.Sub(d.since)
}

// idles says that next to nothing was done in a span of time. Less than before: a descendant ended, and it did that much at least.
func (s Sign) idles(was Sign, span time.Duration) bool {
	if s.Ticks < was.Ticks || s.Queue < was.Queue || s.Bytes < was.Bytes || s.Printed != was.Printed {
		return false
	}
	cpu := time.Duration(s.Ticks-was.Ticks)*process.ClockTick + time.Duration(s.Queue-was.Queue)
	return cpu.Seconds() <= idleShare*span.Seconds() && s.Bytes-was.Bytes <= idleBytes
}

// Told says that the ranks tell how far they are: whether they hang is judged by that.
func (p *Progress) Told() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stall.watched()
}

// rest notes that all these ranks, which are those that live, do nothing, or that one does something. It says whether that is news. The lock is held.
func (p *Progress) rest(states []link.RankState, at time.Time) (news bool) {
	if !p.running || slices.ContainsFunc(states, func(s link.RankState) bool { return s.Silent < idleAfter }) {
		states = nil
	}
	if news = (len(states) > 0) != (len(p.idle) > 0); news {
		p.idle, p.idleAt = states, at
	}
	return news
}
