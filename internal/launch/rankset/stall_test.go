package rankset

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

var start = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// rig is two ranks whose processes are what the test says.
type rig struct {
	stall
	now   time.Time
	procs map[int]*process.Vitals
	whole int // looks at all that a process does
}

// newRig has stepped ten times a second, long enough to be known.
func newRig() *rig {
	r := &rig{stall: newStall(2), now: start, procs: map[int]*process.Vitals{1: {State: 'S'}, 2: {State: 'S'}}}
	r.begin(start)
	for i := range r.pulses {
		r.pulses[i].pid = i + 1
	}
	for step := range int64(50) {
		r.now = r.now.Add(100 * time.Millisecond)
		r.step(0, step)
		r.step(1, step)
	}
	return r
}

func (r *rig) step(i int, n int64) { r.note(i, word.Word{Progress: &word.Progress{Step: n}}, r.now) }
func (r *rig) phase(i int, name string, on bool) {
	r.note(i, word.Word{Phase: &word.Phase{Name: name, On: on}}, r.now)
}

// pass lets time go by, with a look every half second; each is called before a look.
func (r *rig) pass(d time.Duration, each func()) (hung, sure bool) {
	for end := r.now.Add(d); r.now.Before(end) && !hung; {
		r.now = r.now.Add(StallTick)
		each()
		hung, sure = r.hung(r.now, func(pid int, whole bool) *process.Vitals {
			v := r.procs[pid]
			if v == nil {
				return nil
			}
			if !whole {
				return &process.Vitals{State: v.State}
			}
			r.whole++
			c := *v
			return &c
		})
	}
	return hung, sure
}

func nothing() {}

func TestAHangIsSeen(t *testing.T) {
	r := newRig()
	last := r.now
	if hung, sure := r.pass(time.Minute, nothing); !hung || sure || r.now.Sub(last) > 6*time.Second || r.now.Sub(last) < stallLeast {
		t.Errorf("two idle ranks: %v %v after %s", hung, sure, r.now.Sub(last))
	}
	r = newRig()
	last = r.now
	r.procs[2].State = 'T'
	r.phase(1, "eval", true)
	if hung, sure := r.pass(time.Minute, func() { r.procs[1].Ticks += 50 }); !hung || !sure || r.now.Sub(last) > 6*time.Second {
		t.Errorf("a stopped rank, another that spins: %v %v after %s", hung, sure, r.now.Sub(last))
	}
	r.alarmed(true)
	if r.limit() != stallLeast {
		t.Error("a sure alarm made the next one slower")
	}
	r.alarmed(false)
	if r.limit() != 3*stallLeast {
		t.Error(r.limit())
	}
}

// TestNoFalseAlarm: long pauses that are no hang.
func TestNoFalseAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig)
		each   func(r *rig)
	}{
		"one evaluates, and said so": {before: func(r *rig) { r.phase(0, "eval", true) }},
		"one saves, and said so":     {before: func(r *rig) { r.phase(1, "save", true) }},
		"one works":                  {each: func(r *rig) { r.procs[1].Ticks += 20 }},
		"one gets no processor":      {each: func(r *rig) { r.procs[1].Queue += uint64(200 * time.Millisecond) }},
		"its workers read data":      {each: func(r *rig) { r.procs[2].Bytes += 4 << 20 }},
		"a first step":               {before: func(r *rig) { r.begin(r.now); r.longest = nil; r.pulses[0].pid, r.pulses[1].pid = 1, 2 }},
		"a first step that works": {
			before: func(r *rig) { r.begin(r.now); r.pulses[0].pid, r.pulses[1].pid = 1, 2 },
			each:   func(r *rig) { r.procs[1].Ticks += 20 },
		},
		"a longer evaluation that works": {
			before: func(r *rig) { r.pauses("eval", time.Second, t); r.phase(0, "eval", true) },
			each:   func(r *rig) { r.procs[1].Ticks += 20 },
		},
		"a longer save that writes": {
			before: func(r *rig) { r.pauses("save", time.Second, t); r.phase(0, "save", true) },
			each:   func(r *rig) { r.procs[1].Bytes += 4 << 20 },
		},
		"a longer save that waits for a tier": {
			before: func(r *rig) { r.pauses("save", time.Second, t); r.keeping = true; r.phase(0, "save", true) },
		},
		"a save within an evaluation": {
			before: func(r *rig) { r.phase(0, "eval", true); r.phase(0, "save", true); r.phase(0, "save", false) },
		},
		"never told any progress": {before: func(r *rig) { r.stall = newStall(2); r.pulses[0].pid, r.pulses[1].pid = 1, 2 }},
		"both have left": {before: func(r *rig) {
			r.note(0, word.Word{Left: &word.Left{}}, r.now)
			r.note(1, word.Word{Bye: &word.Bye{}}, r.now)
		}},
		"both have ended":    {before: func(r *rig) { r.procs = nil }},
		"one goes on":        {each: func(r *rig) { r.step(0, 100) }},
		"we slept ourselves": {each: func(r *rig) { r.slept(StallTick) }},
	} {
		r := newRig()
		if c.before != nil {
			c.before(r)
		}
		each := nothing
		if c.each != nil {
			each = func() { c.each(r) }
		}
		if hung, _ := r.pass(2*time.Minute, each); hung {
			t.Errorf("%s: taken for a hang after %s", name, r.now.Sub(start))
		}
	}
	r := newRig()
	for step := range int64(stallSteps) { // a slow task
		r.now = r.now.Add(4 * time.Second)
		r.step(0, 100+step)
		r.step(1, 100+step)
	}
	if hung, _ := r.pass(11*time.Second, nothing); hung {
		t.Error("a step of 4 s is usual, yet 11 s are a hang")
	}
	if hung, _ := r.pass(3*time.Second, nothing); !hung {
		t.Error("14 s are none")
	}
}

// pauses has rank 0 pause, and step after it.
func (r *rig) pauses(kind string, d time.Duration, t *testing.T) {
	t.Helper()
	r.phase(0, kind, true)
	if hung, _ := r.pass(d, nothing); hung {
		t.Fatalf("%s for %s: taken for a hang after %s", kind, d, r.now.Sub(r.pulses[0].last))
	}
	r.phase(0, kind, false)
	r.both()
}

// both is the next step of both.
func (r *rig) both() {
	r.now = r.now.Add(100 * time.Millisecond)
	next := max(r.pulses[0].step, r.pulses[1].step) + 1
	r.step(0, next)
	r.step(1, next)
}

// hangs is how long it takes until a hang is seen that begins now.
func (r *rig) hangs(t *testing.T) time.Duration {
	t.Helper()
	from := r.now
	if hung, sure := r.pass(time.Hour, nothing); !hung || sure {
		t.Fatalf("hung %v, sure %v after an hour", hung, sure)
	}
	return r.now.Sub(from)
}

// TestEachPauseIsLearned: evaluations, saves and first steps each have what they usually need, three times; before one
// was seen, ten minutes.
func TestEachPauseIsLearned(t *testing.T) {
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want || got > want+2*StallTick {
			t.Errorf("%s: a hang is seen after %s, not %s", what, got, want)
		}
	}
	r := newRig()
	r.phase(0, "eval", true)
	within("a first evaluation", r.hangs(t), stallMost)

	r = newRig()
	r.pauses("eval", 2*time.Second, t)
	r.phase(0, "eval", true)
	within("after a short one", r.hangs(t), stallPause)

	r = newRig()
	for _, d := range []time.Duration{2, 25, 5, 60, 1, 110} { // each at most three times the longest before
		r.pauses("eval", d*time.Second, t)
	}
	r.pauses("save", 20*time.Second, t)
	r.phase(0, "eval", true)
	within("after evaluations of up to 110 s", r.hangs(t), 330*time.Second)
	r.alarmed(false)
	r.phase(0, "eval", false)
	r.both()
	r.phase(0, "save", true)
	within("a save, after an alarm that may have been false", r.hangs(t), 3*time.Minute)

	r = newRig()
	r.pauses("save", 15*time.Minute/2, t)
	r.phase(0, "save", true)
	within("after a save of 7.5 min", r.hangs(t), 45*time.Minute/2)

	r = newRig() // its first step took 100 ms
	r.begin(r.now)
	r.now = r.now.Add(time.Hour) // in which their state was brought
	for i := range r.pulses {
		r.pulses[i].pid = i + 1
	}
	r.started(r.now)
	within("the first step of the next generation", r.hangs(t), stallStart)
}

// TestBrokenOffPauses: what ends because a rank failed says nothing of how long it takes.
func TestBrokenOffPauses(t *testing.T) {
	r := newRig()
	r.phase(0, "eval", true)
	r.now = r.now.Add(time.Second)
	r.phase(0, "eval", false)
	r.begin(r.now)
	for i := range r.pulses {
		r.pulses[i].pid = i + 1
	}
	r.both()
	r.phase(0, "eval", true)
	if got := r.hangs(t); got < stallMost {
		t.Errorf("a hang is seen after %s", got)
	}
}

// TestDearLooks: usual steps, and a pause that was announced, cost no look at all that the processes do.
func TestDearLooks(t *testing.T) {
	r := newRig()
	for step := range int64(stallSteps) {
		if hung, _ := r.pass(10*time.Second, nothing); hung && step >= stallSteps/2 {
			t.Fatal("taken for a hang")
		}
		r.step(0, 100+step)
		r.step(1, 100+step)
		if step == stallSteps/2 { // from here on the step of 10 s is the usual one
			r.whole = 0
		}
	}
	r.phase(0, "eval", true)
	r.phase(1, "eval", true)
	if hung, _ := r.pass(5*time.Minute, nothing); hung || r.whole > 0 {
		t.Errorf("hung %v, %d dear looks", hung, r.whole)
	}
}
