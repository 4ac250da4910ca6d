package rankset

import (
	"bytes"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/launch/word"
)

const (
	printedEvery = 250 * time.Millisecond // between looks at what a rank prints
	printedLines = 4                      // of each of its pipes, the newest, in one look
	printedLeast = 30 * time.Second       // of silence that is no hang: who only prints announces no pause
)

// stepRules is read when the first rank prints.
var stepRules = sync.OnceValue(diagnose.LoadSteps)

// Printed finds out how far a rank is from what it prints. Its two pipes feed it.
type Printed struct {
	// Tell hears of a step, or with 0 only of life; false: nobody wants to hear more.
	Tell func(step int64, last bool) bool

	mu      sync.Mutex
	meter   diagnose.Meter
	lines   []string // since the last look, the newest
	pending bool     // a look is on its way
	off     bool
}

// Feed takes what came through a pipe, and gives the end of it that is no whole line yet, for the next time. A bar that
// is drawn over ends with the next one.
func (p *Printed) Feed(part, data []byte) []byte {
	end := bytes.LastIndexAny(data, "\r\n")
	if end < 0 {
		part = append(part, data...)
		return part[max(0, len(part)-diagnose.MaxStepLine):]
	}
	head := data[max(0, end-printedLines*diagnose.MaxStepLine):end]
	if len(head) == end { // else the beginning is of no use
		head = append(part, head...)
	}
	p.add(head)
	rest := data[end+1:]
	return append(part[:0], rest[max(0, len(rest)-diagnose.MaxStepLine):]...)
}

// add keeps the newest lines for the next look.
func (p *Printed) add(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return
	}
	var fresh []string
	for len(data) > 0 && len(fresh) < printedLines {
		i := bytes.LastIndexAny(data, "\r\n") + 1
		if i < len(data) {
			fresh = append(fresh, string(data[i:]))
		}
		data = data[:max(i-1, 0)]
	}
	for i := len(fresh) - 1; i >= 0; i-- {
		p.lines = append(p.lines, fresh[i])
	}
	p.lines = p.lines[max(0, len(p.lines)-2*printedLines):]
	if !p.pending && len(p.lines) > 0 {
		p.pending = true
		time.AfterFunc(printedEvery, p.look)
	}
}

// look reads the lines and tells the newest.
func (p *Printed) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meter.Rules = stepRules()
	var step int64
	var said, last bool
	for _, line := range p.lines {
		if n, s, l := p.meter.Line(line); s {
			said = true
			if n > 0 {
				step, last = n, l
			}
		}
	}
	p.pending, p.lines = false, p.lines[:0]
	if said && !p.Tell(step, last) {
		p.off = true
	}
}

// Printed is a step that a local rank printed, or with 0 another line of its progress. It counts only where the rank does
// not speak for itself: false.
func (r *Set) Printed(local int, step int64, last bool, generation int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.linked[local] || generation != r.now.Number {
		return false
	}
	now := time.Now()
	p := &r.stall.pulses[local]
	p.printed, r.said.Printed = true, true
	if step == 0 {
		p.first, p.last = nil, now
		return true
	}
	w := &word.Progress{Step: step}
	if steps := step - p.step; p.begun && !p.over && steps > 0 {
		w.T = now.Sub(p.last).Seconds() / float64(steps)
	}
	p.over = last // what comes then is no step
	r.hear(local, word.Word{Progress: w})
	return true
}

// slowest is the newest step that all local ranks made, as far as is known; those that say nothing where others print don't count. mu held.
func (r *Set) slowest() int64 {
	var least int64
	none := true
	for i, step := range r.steps {
		if r.said.Printed && !r.linked[i] && !r.stall.pulses[i].printed {
			continue
		}
		if step = max(step, r.at[i]); none || step < least {
			least, none = step, false
		}
	}
	return least
}

// soughtEvery is how often the process of a rank that prints is looked for: that may be a look at all there are.
const soughtEvery = 10 * time.Second

// Unnamed are the local ranks that print, and whose process is to be looked for.
func (r *Set) Unnamed(now time.Time) (list []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for local := range r.stall.pulses {
		if p := &r.stall.pulses[local]; p.printed && p.pid == 0 && now.Sub(p.sought) >= soughtEvery {
			p.sought = now
			list = append(list, local)
		}
	}
	return list
}

func (r *Set) Name(local, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := &r.stall.pulses[local]; p.printed && p.pid == 0 {
		p.pid = pid
	}
}
