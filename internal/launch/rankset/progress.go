package rankset

import (
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Progress is how far local ranks are, and whether they hang. Its lock is taken after that of the Set, never before it.
type Progress struct {
	mu      sync.Mutex
	now     link.Generation // of the ranks that were started last
	files   bool            // they save to a folder: the number of what they go on from need be no step
	running bool            // they run
	frozen  bool            // one of them failed: nobody is blamed for silence any more
	stall   stall
	steps   []int64 // the newest step each reported
	sight   sight   // and was seen at
	own     own
	course  course
	linked  []bool // which speak for themselves in this generation
	python  []bool // which are of the Python SDK
	printed bool   // steps were read from what they print
	standstill
}

// standstill is what ranks do instead of going on, as the leader was told.
type standstill struct {
	hung      []link.RankState
	hungAt    time.Time
	dormant   []link.RankState // of those of which no step is known
	dormantAt time.Time
}

func newProgress(ranks int, files bool) *Progress {
	return &Progress{files: files, stall: newStall(ranks), steps: make([]int64, ranks), sight: newSight(ranks), own: make(own, ranks), course: newCourse(ranks), linked: make([]bool, ranks), python: make([]bool, ranks)}
}

// begin is a new generation, before its ranks start; the processes of those that stay go on.
func (p *Progress) begin(g link.Generation, staying map[int]bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files {
		g.Restore = 0
	}
	p.now, p.running, p.frozen, p.printed, p.standstill = g, false, false, false, standstill{}
	p.sight.begin(g.Restore)
	p.course.begin(now)
	pids := map[int]int{}
	for local := range staying {
		pids[local] = p.stall.pulses[local].pid
	}
	p.stall.begin(now)
	for i := range p.steps {
		p.steps[i], p.own[i], p.linked[i] = g.Restore, nil, staying[i]
		p.stall.pulses[i].pid = pids[i]
	}
}

// started: the ranks of the generation run.
func (p *Progress) started(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
	p.course.started(now)
	p.stall.started(now)
}

// joined is a rank that speaks for itself from now on; python: it is one of the Python SDK.
func (p *Progress) joined(local, pid int, python bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pulse := &p.stall.pulses[local]
	pulse.pid, pulse.printed, p.linked[local], p.python[local] = pid, false, true, python
	pulse.arrived(now)
}

// note is any word of a local rank.
func (p *Progress) note(local int, w word.Word, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	usual := p.stall.usual(p.stall.pulses[local].printed)
	p.stall.note(local, w, now)
	switch {
	case w.Phase != nil:
		p.course.pause(local, now)
	case w.Progress != nil:
		p.course.step(local, w.Progress.Step, usual, now)
	}
}

// advance is a report of a local rank: of so many steps. again: it was told that it hangs.
func (p *Progress) advance(local int, w *word.Progress) (steps int64, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if steps = w.Step - p.steps[local]; p.files && p.steps[local] == 0 {
		steps = min(steps, 1) // where it began is not known
	}
	p.own.note(local, w, steps)
	p.steps[local] = w.Step
	if again = len(p.hung) > 0; again {
		p.hung, p.hungAt = nil, time.Time{}
	}
	return steps, again
}

// freeze: a rank failed, so that the silence of others is no news; look: it is looked once more where they are.
func (p *Progress) freeze(look bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if look {
		p.sight.glance(p.now.Number)
	}
	p.frozen = true
}

// fill puts what is known of progress into a report.
func (p *Progress) fill(said *link.Ranks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said.Step, said.Watched, said.Own, said.Printed = p.slowest(), p.stall.watched(), p.own.told(p.now.FirstRank), p.printed
	said.Hung, said.HungAt = p.hung, p.hungAt
	if !said.Watched { // which says that this is no hang
		said.Hung, said.HungAt = p.dormant, p.dormantAt
	}
	said.Pace.Course = p.course.told(&p.stall, p.printed)
}

// slowest is the newest step that all local ranks made, as far as is known, mu held; those that say nothing where others print don't count.
func (p *Progress) slowest() int64 {
	var least int64
	none := true
	for i, step := range p.steps {
		if p.printed && !p.linked[i] && !p.stall.pulses[i].printed {
			continue
		}
		if step = max(step, p.sight.at[i]); none || step < least {
			least, none = step, false
		}
	}
	return least
}

// allStepped says that all local ranks that tell of steps made one in this generation.
func (p *Progress) allStepped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slowest() > p.now.Restore {
		return true
	}
	for local := range p.steps {
		if !p.course.begun(local) && !(p.printed && !p.linked[local] && !p.stall.pulses[local].printed) {
			return false
		}
	}
	return true
}

// read is a line of progress that a local rank printed; w is what it would have said. It counts only where the rank does not speak
// for itself: not ok.
func (p *Progress) read(local int, said PrintedStep, generation int64, now time.Time) (w *word.Progress, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.linked[local] || generation != p.now.Number {
		return nil, false
	}
	pulse := &p.stall.pulses[local]
	pulse.printed, p.printed = true, true
	if said.Step == 0 {
		pulse.first, pulse.last = nil, now
		return nil, true
	}
	w = &word.Progress{Step: said.Step}
	if said.Coarse { // it lives; how far it is is not known
		p.stall.note(local, word.Word{Progress: w}, now)
		pulse.over = said.Last
		return nil, true
	}
	p.course.from(local, said.From)
	if steps := said.Step - pulse.step; pulse.begun && !pulse.over && steps > 0 {
		w.T = now.Sub(pulse.last).Seconds() / float64(steps)
	}
	pulse.over = said.Last // what comes then is no step
	return w, true
}

// silence looks whether the ranks hang; true once for each alarm. keeping: states are being persisted.
func (p *Progress) silence(now time.Time, look func(int, bool) *process.Vitals, keeping bool) (alarm, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hung) > 0 || p.frozen || !p.running {
		return false, false
	}
	p.stall.keeping = keeping
	if alarm, sure = p.stall.hung(now, look); alarm {
		p.stall.alarmed(sure)
	}
	return alarm, sure
}

// blame notes what the ranks do instead of making progress; false: one went on meanwhile. Of ranks of which no step is known: that they do nothing.
func (p *Progress) blame(states []link.RankState, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stall.watched() {
		return p.rest(states, at)
	}
	for _, s := range states {
		if p.stall.pulses[s.Rank-p.now.FirstRank].last.After(at) {
			return false
		}
	}
	p.hung, p.hungAt = states, at
	return true
}

// Hangs says that ranks make no progress: then none will leave either.
func (p *Progress) Hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.hung) > 0
}

// Done are the local ranks that said that they are done, with success, and whose process may still be there.
func (p *Progress) Done() (list []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for local := range p.stall.pulses {
		if p.stall.pulses[local].done {
			list = append(list, local)
		}
	}
	return list
}

// Connected are the processes of the local ranks that speak to us.
func (p *Progress) Connected() map[int]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[int]int{}
	for local, pulse := range p.stall.pulses {
		if pulse.pid != 0 {
			out[local] = pulse.pid
		}
	}
	return out
}

// SpeaksPython says that the rank is one of the Python SDK, which answers SIGUSR1 with its stacks.
func (p *Progress) SpeaksPython(local int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.python[local]
}

// Slept is called when nobody looked for so long: we did not run ourselves, so it is no silence.
func (p *Progress) Slept(gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall.slept(gap)
}

// StateOf is what is known of a silent rank's progress.
func (p *Progress) StateOf(local int, now time.Time) link.RankState {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight.glance(p.now.Number)
	pulse := p.stall.pulses[local]
	return link.RankState{Rank: p.now.FirstRank + local, Step: max(p.steps[local], p.sight.at[local]), Silent: now.Sub(pulse.last)}
}

// StepOf is the newest step that a local rank made.
func (p *Progress) StepOf(local int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight.glance(p.now.Number)
	return max(p.steps[local], p.sight.at[local])
}

// Unnamed are the local ranks that print, and whose process is to be looked for.
func (p *Progress) Unnamed(now time.Time) (list []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for local := range p.stall.pulses {
		if pulse := &p.stall.pulses[local]; pulse.printed && pulse.pid == 0 && now.Sub(pulse.sought) >= soughtEvery {
			pulse.sought = now
			list = append(list, local)
		}
	}
	return list
}

// Name is the process of such a rank.
func (p *Progress) Name(local, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pulse := &p.stall.pulses[local]; pulse.printed && pulse.pid == 0 {
		pulse.pid = pid
	}
}

// SeenIn is where ranks are seen, in memory that outlives them.
func (p *Progress) SeenIn(memory shm.Slots) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sight.memory = memory
}

// slots are the states of the ranks; none before SeenIn.
func (p *Progress) slots() shm.Slots {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sight.memory
}
