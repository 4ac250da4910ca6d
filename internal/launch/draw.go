package launch

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/curve"
)

// What curves are called that no script reports.
const (
	curveStepTime     = "step_time"             // seconds, of each rank
	curveCPU          = "system/cpu"            // cores that the replica's processes use
	curveMemory       = "system/memory"         // bytes that they hold
	curveDeviceBusy   = "system/device_busy/"   // and its number: share of time, 0 to 1
	curveDeviceMemory = "system/device_memory/" // likewise: bytes
)

// constant are reported again and again and never change: a line of them says nothing.
var constant = map[string]bool{"parameters": true}

// reports draws what ranks report. It is called by one at a time.
type reports struct {
	points *curve.Source
	last   map[int]stamp // of each rank
}

// stamp is when a step was reported.
type stamp struct {
	generation, step int64
	at               time.Time
}

// gathered is how long a report may have waited for others before it came.
const gathered = 2 * time.Second

// when is the time of a report. Those of short steps come several at once: each is as long after the one before as its rank says.
func (r *reports) when(generation int64, rank int, now time.Time, p *word.Progress) time.Time {
	at := now
	if was, known := r.last[rank]; known && was.generation == generation && p.T > 0 && p.Step > was.step {
		passed := time.Duration(min(p.T*float64(p.Step-was.step), 1e6) * float64(time.Second))
		if told := was.at.Add(passed); !told.After(now) && now.Sub(told) <= gathered {
			at = told
		}
	}
	r.last[rank] = stamp{generation, p.Step, at}
	return at
}

// draw is what a rank reported of a step.
func (r *reports) draw(generation int64, rank int, now time.Time, p *word.Progress) {
	at := r.when(generation, rank, now, p)
	if p.T > 0 {
		r.points.Add(generation, rank, curveStepTime, at, p.Step, p.T)
	}
	for name, v := range p.Metrics {
		if constant[name] {
			continue
		}
		if of, not := strings.CutSuffix(name, ".nonfinite"); not {
			name, v = of, notFinite(v)
		}
		r.points.Add(generation, rank, name, at, p.Step, v)
	}
}

// notFinite is the value that the SDK could not put into JSON.
func notFinite(sort float64) float64 {
	switch sort {
	case 2:
		return math.Inf(1)
	case 3:
		return math.Inf(-1)
	}
	return math.NaN()
}

// drawPrinted is what a rank printed beside a step.
func (r *runner) drawPrinted(g link.Generation, local int, step int64, values map[string]float64) {
	at := r.clock.Now()
	for name, v := range values {
		r.points.Add(g.Number, g.FirstRank+local, name, at, step, v)
	}
}

// pen draws what a tree uses.
type pen struct {
	points *curve.Source
	last   link.Usage // as drawn
}

func (p *pen) drawUse(generation, step int64, u link.Usage) {
	before := p.last
	p.last = u
	if span := u.At.Sub(before.At); !before.At.IsZero() && span > 0 && u.CPU >= before.CPU {
		p.points.Add(generation, history.OfReplica, curveCPU, u.At, step, (u.CPU-before.CPU).Seconds()/span.Seconds())
	}
	p.points.Add(generation, history.OfReplica, curveMemory, u.At, step, float64(u.RSS))
}

// drawDevices is what the driver says of the replica's devices.
func (r *runner) drawDevices(g link.Generation, list []engine.Reading) {
	at, step := r.clock.Now(), r.ranks.Progress.StepOf(0)
	for i, d := range list {
		if d.Lost {
			continue
		}
		n := strconv.Itoa(i)
		r.points.Add(g.Number, history.OfReplica, curveDeviceBusy+n, at, step, d.Busy)
		r.points.Add(g.Number, history.OfReplica, curveDeviceMemory+n, at, step, float64(d.Used))
	}
}
