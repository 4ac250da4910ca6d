package rankset

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

// How long ranks may make no progress.
const (
	StallTick  = 500 * time.Millisecond
	stallLook  = 3 * time.Second  // after so much silence it is looked whether a process is stopped, after half of what is allowed what it does
	stallLeast = 5 * time.Second  // or three usual steps, whichever is more
	stallDisk  = time.Minute      // of a process that waits for a disk
	stallMost  = 10 * time.Minute // for a first step or a phase of which none was seen before, and for a process that works
	stallStart = time.Minute      // for a first step after one was seen, or three times the longest, whichever is more
	stallPause = 30 * time.Second // for a phase, likewise
	stallKinds = 16               // of phases that are remembered
	stallDepth = 8                // of phases within phases
	stallSteps = 32               // that are remembered
	stallKnown = 3                // and that must be known before anything is called usual
)

// firstStep is the kind of pause between a start and the first step, beside the phases that ranks name (eval, save).
const firstStep = ""

// pause is a phase that a rank is in, or was.
type pause struct {
	kind  string
	since time.Time
	took  time.Duration
}

// pulse is what is known of one rank's progress.
type pulse struct {
	pid   int // 0: it never connected
	ever  bool
	begun bool // it reported in this generation
	gone  bool // it left or is done: nothing more is expected
	done  bool // it said that it is done, with success
	step  int64
	last  time.Time // of its start, its last word of progress, or the end of a phase
	in    []pause   // phases it is in, the innermost last
	past  []pause   // phases that ended, until a step proves that they were not broken off
	// printed: what is known of it was read from its lines.
	printed bool
	over    bool      // it printed its last step
	sought  time.Time // when its process was last looked for

	first   *process.Vitals // of the first look into this silence
	firstAt time.Time
	stopped bool // in the look before this one
}

// stall learns the usual step of a task and says when its ranks hang. It is pure: who calls gives the
// time and looks at the processes.
type stall struct {
	pulses []pulse
	recent []time.Duration // between reports, the newest last
	// longest is the longest pause of each kind that a step came after.
	longest map[string]time.Duration
	keeping bool          // states are being persisted, for which who saves may wait
	scale   time.Duration // grows with every alarm that might have been false
}

func newStall(n int) stall {
	return stall{pulses: make([]pulse, n), longest: map[string]time.Duration{}, scale: 1}
}

// begin is a new generation.
func (s *stall) begin(now time.Time) {
	for i := range s.pulses {
		s.pulses[i] = pulse{ever: s.pulses[i].ever, last: now}
	}
}

// started: the ranks of the generation run. What came before, such as bringing their state, is not theirs.
func (s *stall) started(now time.Time) {
	for i := range s.pulses {
		s.pulses[i].arrived(now)
	}
}

// arrived begins the wait for a first step anew.
func (p *pulse) arrived(now time.Time) {
	if !p.begun && len(p.in) == 0 {
		p.last = now
	}
}

// note is a word of local rank i.
func (s *stall) note(i int, w word.Word, now time.Time) {
	p := &s.pulses[i]
	p.first, p.stopped = nil, false
	switch {
	case w.Progress != nil:
		switch {
		case !p.begun && !p.printed && len(p.in) == 0:
			p.past = append(p.past, pause{kind: firstStep, took: now.Sub(p.last)})
		case p.begun && len(p.in) == 0 && w.Progress.Step > p.step:
			s.recent = append(s.recent, now.Sub(p.last))
			s.recent = s.recent[max(0, len(s.recent)-stallSteps):]
		}
		if !p.begun || w.Progress.Step > p.step {
			s.learn(p)
		}
		p.begun, p.ever, p.step, p.last = true, true, w.Progress.Step, now
	case w.Phase != nil:
		p.pause(w.Phase, now)
	case w.Left != nil, w.Bye != nil:
		p.gone, p.done = true, w.Bye != nil && w.Bye.Code == 0
	}
}

// pause is the begin or the end of a phase.
func (p *pulse) pause(w *word.Phase, now time.Time) {
	p.last = now
	if w.On {
		if len(p.in) < stallDepth {
			p.in = append(p.in, pause{kind: w.Name, since: now})
		}
		return
	}
	for k, one := range slices.Backward(p.in) {
		if one.kind == w.Name {
			one.took, p.in = now.Sub(one.since), p.in[:k]
			p.past = append(p.past, one)
			p.past = p.past[max(0, len(p.past)-stallKinds):]
			return
		}
	}
	p.in = nil
}

// learn takes down how long the pauses before a step were.
func (s *stall) learn(p *pulse) {
	for _, one := range p.past {
		if _, known := s.longest[one.kind]; known || len(s.longest) < stallKinds {
			s.longest[one.kind] = max(s.longest[one.kind], one.took)
		}
	}
	p.past = nil
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
	return s.thrice(sorted[len(sorted)/2], stallLeast)
}

// thrice is three times what was seen, and more after alarms that may have been false.
func (s *stall) thrice(seen, least time.Duration) time.Duration {
	return min(s.scale*max(least, 3*seen), max(stallMost, 3*seen))
}

// patience is how long a rank may be silent that does nothing which could be seen.
func (s *stall) patience(p *pulse) time.Duration {
	kind, pauses := firstStep, !p.begun
	if len(p.in) > 0 {
		kind, pauses = p.in[len(p.in)-1].kind, true
	}
	longest, seen := s.longest[kind]
	switch {
	case p.printed && (pauses || p.over):
		return stallMost
	case p.printed:
		return max(2*s.limit(), printedLeast)
	case !pauses:
		return s.limit()
	case !seen, kind == "save" && s.keeping:
		return max(stallMost, 3*longest)
	}
	least := stallPause
	if kind == firstStep {
		least = stallStart
	}
	return s.thrice(longest, least)
}

// hung looks at ranks that have been silent for long. sure: one of them is stopped, which needs no
// other proof. Else all that are expected to say something must be silent for too long: where one works,
// the others wait for it with good reason. The whole look, at all that a process and its descendants do, is dear:
// there is none in usual steps, nor in a pause of a kind never seen before, where only being stopped would count.
func (s *stall) hung(now time.Time, look func(pid int, whole bool) *process.Vitals) (hung, sure bool) {
	watched, silent := 0, 0
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
		patience := s.patience(p)
		whole := patience < stallMost && since >= max(stallLook, patience/2)
		v := look(p.pid, whole)
		if v == nil {
			watched-- // it has ended
			continue
		}
		was := p.stopped
		p.stopped = v.State == 'T'
		if whole && p.first == nil {
			p.first, p.firstAt = v, now
		}
		sure = sure || p.stopped && was && since >= stallLeast
		if since >= allowance(p, v, patience, now) {
			silent++
		}
	}
	return sure || watched > 0 && silent == watched, sure
}

// allowance is how long this rank may be silent, with what it was seen doing.
func allowance(p *pulse, v *process.Vitals, patience time.Duration, now time.Time) time.Duration {
	switch {
	case v.Works(p.first, now.Sub(p.firstAt)):
		return max(patience, stallMost)
	case v.State == 'D':
		return max(patience, stallDisk)
	}
	return patience
}

// alarmed makes the next alarm slower, if this one was not sure: it may have been a pause that nobody
// announced, and the next generation comes to it again.
func (s *stall) alarmed(sure bool) {
	if !sure {
		s.scale = min(3*s.scale, 1000)
	}
}
