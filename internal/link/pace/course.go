package pace

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Course is how the ranks of a launcher got on in a generation: what says how their time was spent.
type Course struct {
	First    int64         // the first step that one of them told; 0: none yet
	LastAt   time.Time     // when the slowest was last seen to get on, or a pause was announced or ended
	Stalled  time.Duration // for how long they stood still without having announced a pause, as far as that is over
	Patience time.Duration // after how long without a step that is unusual; 0: not known yet
	Pausing  bool          // one of them is in a pause that it announced
}

// SaneCourse refuses what can't be; NaN too.
func SaneCourse(m *linkpb.Course) bool {
	const most = 1e10 // seconds
	return m.GetFirst() >= 0 && m.GetLastAtUnixNano() >= 0 && m.GetStalled() >= 0 && m.GetStalled() <= most && m.GetPatience() >= 0 && m.GetPatience() <= most
}

// Message is the course on the wire; nil: nothing is known.
func (c Course) Message() *linkpb.Course {
	if c == (Course{}) {
		return nil
	}
	out := &linkpb.Course{First: c.First, Stalled: c.Stalled.Seconds(), Patience: c.Patience.Seconds(), Pausing: c.Pausing}
	if !c.LastAt.IsZero() {
		out.LastAtUnixNano = c.LastAt.UnixNano()
	}
	return out
}

func courseOf(m *linkpb.Course) Course {
	seconds := func(s float64) time.Duration { return time.Duration(min(s, 9e9) * float64(time.Second)) }
	out := Course{First: m.GetFirst(), Stalled: seconds(m.GetStalled()), Patience: seconds(m.GetPatience()), Pausing: m.GetPausing()}
	if at := m.GetLastAtUnixNano(); at != 0 {
		out.LastAt = time.Unix(0, at).UTC()
	}
	return out
}
