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
	DormantTick  = time.Minute // between two looks at all that a process and its descendants do: they are dear
	dormantAfter = 10 * time.Minute
	dormantShare = 0.01     // of one core
	dormantBytes = 64 << 10 // read and written from one look to the next
)

// Sign is what a rank's process, and its descendants, have done so far.
type Sign struct {
	process.Vitals
	Printed int64 // bytes
}

// Dormant knows since when ranks do nothing. It is pure, and of one generation.
type Dormant map[int]doing // by local rank

type doing struct {
	since, at time.Time
	last      Sign
}

// Note is a look at a local rank; it gives for how long the rank has done nothing.
func (d Dormant) Note(local int, now time.Time, s Sign) time.Duration {
	was, known := d[local]
	is := doing{since: now, at: now, last: s}
	if known && s.sleeps(was.last, now.Sub(was.at)) {
		is.since = was.since
	}
	d[local] = is
	return now.Sub(is.since)
}

// sleeps says that next to nothing was done in a span of time. Less than before: a descendant ended, and it did that much at least.
func (s Sign) sleeps(was Sign, span time.Duration) bool {
	if s.Ticks < was.Ticks || s.Queue < was.Queue || s.Bytes < was.Bytes || s.Printed != was.Printed {
		return false
	}
	cpu := time.Duration(s.Ticks-was.Ticks)*process.ClockTick + time.Duration(s.Queue-was.Queue)
	return cpu.Seconds() <= dormantShare*span.Seconds() && s.Bytes-was.Bytes <= dormantBytes
}

// Told says that the ranks tell how far they are: whether they hang is judged by that.
func (p *Progress) Told() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stall.watched()
}

// rest notes that all these ranks, which are those that live, do nothing, or that one does something. It says whether that is news. The lock is held.
func (p *Progress) rest(states []link.RankState, at time.Time) (news bool) {
	if !p.running || slices.ContainsFunc(states, func(s link.RankState) bool { return s.Silent < dormantAfter }) {
		states = nil
	}
	if news = (len(states) > 0) != (len(p.dormant) > 0); news {
		p.dormant, p.dormantAt = states, at
	}
	return news
}
