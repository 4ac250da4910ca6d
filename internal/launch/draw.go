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

// drawReport is what a rank reported of a step.
func (l *launcher) drawReport(generation int64, rank int, at time.Time, p *word.Progress) {
	if p.T > 0 {
		l.points.Add(generation, rank, curveStepTime, at, p.Step, p.T)
	}
	for name, v := range p.Metrics {
		if constant[name] {
			continue
		}
		if of, not := strings.CutSuffix(name, ".nonfinite"); not {
			name, v = of, notFinite(v)
		}
		l.points.Add(generation, rank, name, at, p.Step, v)
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
