package launch

import (
	"slices"
	"time"
)

// How long ranks may make no progress.
const (
	stallTick  = 500 * time.Millisecond
	stallLook  = 3 * time.Second  // after so much silence it is looked whether a process is stopped, after half of what is allowed what it does
	stallSpan  = time.Second      // between two looks that tell whether it works
	stallLeast = 5 * time.Second  // or three usual steps, whichever is more
	stallDisk  = time.Minute      // of a process that waits for a disk
	stallMost  = 10 * time.Minute // for a first step, a phase that was named, or a process that works
	stallSteps = 32               // that are remembered
	stallKnown = 3                // and that must be known before anything is called usual
	// A process works if its tree used, or waited for, so much of one core, or read and wrote so many bytes, since it
	// was first looked at: it evaluates, loads or saves without having said so.
	busyShare = 0.2
	busyBytes = 1 << 20
)

// pulse is what is known of one rank's progress.
type pulse struct {
	pid   int // 0: it never connected
	ever  bool
	begun bool // it reported in this generation
	gone  bool // it left or is done: nothing more is expected
	step  int64
	last  time.Time // of its last word of progress, or of the end of a phase
	phase string    // that it is in; "": none
	// printed: what is known of it was read from its lines.
	printed bool
	sought  time.Time // when its process was last looked for

	first   *vitals // of the first look into this silence
	firstAt time.Time
	stopped bool // in the look before this one
}

// stall learns the usual step of a task and says when its ranks hang. It is pure: who calls gives the
// time and looks at the processes.
type stall struct {
	pulses []pulse
	recent []time.Duration // between reports, the newest last
	scale  time.Duration   // grows with every alarm that might have been false
}

func newStall(n int) stall { return stall{pulses: make([]pulse, n), scale: 1} }

// begin is a new generation.
func (s *stall) begin(now time.Time) {
	for i := range s.pulses {
		s.pulses[i] = pulse{ever: s.pulses[i].ever, last: now}
	}
}

// note is a word of local rank i.
func (s *stall) note(i int, w word, now time.Time) {
	p := &s.pulses[i]
	p.first, p.stopped = nil, false
	switch {
	case w.Progress != nil:
		if p.begun && p.phase == "" && w.Progress.Step > p.step {
			s.recent = append(s.recent, now.Sub(p.last))
			s.recent = s.recent[max(0, len(s.recent)-stallSteps):]
		}
		p.begun, p.ever, p.step, p.last = true, true, w.Progress.Step, now
	case w.Phase != nil:
		if p.phase, p.last = "", now; w.Phase.On {
			p.phase = w.Phase.Name
		}
	case w.Left != nil, w.Bye != nil:
		p.gone = true
	}
}

// watched says that a hang can be seen at all.
func (s *stall) watched() bool {
	return slices.ContainsFunc(s.pulses, func(p pulse) bool { return p.ever })
}

// slept is called when nobody looked for so long: we did not run ourselves, so it is no silence.
func (s *stall) slept(gap time.Duration) {
	for i := range s.pulses {
		s.pulses[i].last = s.pulses[i].last.Add(gap)
		s.pulses[i].firstAt = s.pulses[i].firstAt.Add(gap)
	}
}

// limit is how long a silence is no hang, for a rank between two steps.
func (s *stall) limit() time.Duration {
	if len(s.recent) < stallKnown {
		return stallMost
	}
	sorted := slices.Sorted(slices.Values(s.recent))
	return min(s.scale*max(stallLeast, 3*sorted[len(sorted)/2]), stallMost)
}

// hung looks at ranks that have been silent for long. sure: one of them is stopped, which needs no
// other proof. Else all that are expected to say something must be silent for too long: where one works,
// the others wait for it with good reason. The whole look, at all that a process and its descendants do, is dear:
// there is none in usual steps, nor in a pause, where only being stopped would count.
func (s *stall) hung(now time.Time, look func(pid int, whole bool) *vitals) (hung, sure bool) {
	watched, silent, least := 0, 0, max(stallLook, s.limit()/2)
	for i := range s.pulses {
		p := &s.pulses[i]
		since := now.Sub(p.last)
		if !p.ever || p.pid == 0 || p.gone {
			continue
		}
		watched++
		if since < stallLook {
			continue
		}
		whole := since >= least && p.begun && p.phase == ""
		v := look(p.pid, whole)
		if v == nil {
			watched-- // it has ended
			continue
		}
		was := p.stopped
		p.stopped = v.state == 'T'
		if whole && p.first == nil {
			p.first, p.firstAt = v, now
		}
		sure = sure || p.stopped && was && since >= stallLeast
		if since >= s.allowance(p, v, now) {
			silent++
		}
	}
	return sure || watched > 0 && silent == watched, sure
}

// allowance is how long this rank may be silent.
func (s *stall) allowance(p *pulse, v *vitals, now time.Time) time.Duration {
	switch {
	case p.phase != "" || !p.begun || v.works(p.first, now.Sub(p.firstAt)):
		return stallMost
	case v.state == 'D':
		return max(s.limit(), stallDisk)
	case p.printed:
		return max(2*s.limit(), printedLeast)
	}
	return s.limit()
}

// alarmed makes the next alarm slower, if this one was not sure: it may have been a pause that nobody
// announced, and the next generation comes to it again.
func (s *stall) alarmed(sure bool) {
	if !sure {
		s.scale = min(3*s.scale, 1000)
	}
}
