package rankset

import (
	"bytes"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/diagnose"
)

const (
	printedEvery = 250 * time.Millisecond // between looks at what a rank prints
	printedLines = 16                     // of each of its pipes, the newest, in one look
	printedLeast = 30 * time.Second       // of silence that is no hang: who only prints announces no pause
)

// stepRules is read when the first rank prints.
var stepRules = sync.OnceValue(diagnose.LoadSteps)

// Printed finds out how far a rank is from what it prints. Its two pipes feed it.
type Printed struct {
	// Tell hears of a line of progress; false: nobody wants to hear more.
	Tell func(PrintedStep) bool
	// Curve hears what else a line with a step says; nil: nobody does.
	Curve func(step int64, values map[string]float64)
	// Origins are the rank's, and outlive its processes; nil: they don't.
	Origins diagnose.Origins

	mu      sync.Mutex
	meter   diagnose.Meter
	lines   []string // since the last look, the newest
	pending bool     // a look is on its way
	off     bool
}

// PrintedStep is what lines tell.
type PrintedStep struct {
	Step   int64 // 0: only that it lives
	From   int64 // how many there were before the first that was told
	Last   bool  // no more of these are expected
	Coarse bool  // it is no step, but of an epoch or a line
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

// Flush looks now, at the end of what a rank prints.
func (p *Printed) Flush() { p.look() }

// look reads the lines and tells the newest.
func (p *Printed) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.meter.Rules = stepRules(); p.Origins != nil {
		p.meter.Origins = p.Origins
	}
	var tells PrintedStep
	said := false
	var drawn []func()
	for _, line := range p.lines {
		if n, s, l := p.meter.Line(line); s {
			said = true
			if n > 0 {
				tells = PrintedStep{Step: n, From: p.meter.From(), Last: l, Coarse: p.meter.Coarse()}
				if values := diagnose.Values(line); p.Curve != nil && len(values) > 0 {
					drawn = append(drawn, func() { p.Curve(n, values) })
				}
			}
		}
	}
	p.pending, p.lines = false, p.lines[:0]
	if said && !p.Tell(tells) {
		p.off = true // it speaks for itself
		return
	}
	for _, draw := range drawn {
		draw()
	}
}

// soughtEvery is how often the process of a rank that prints is looked for: that may be a look at all there are.
const soughtEvery = 10 * time.Second
