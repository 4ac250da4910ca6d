package train

import (
	_ "embed"
	"encoding/json"
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The pace is written when it is a tenth of the task's age old, so that a long task costs few writes, and
// at the end.
const (
	paceFirst = 10 * time.Second
	paceLast  = 5 * time.Minute
)

// speed writes down how fast the task trains.
func (s *seen) speed(p *plan, now time.Time) {
	ends, ok := s.measurable(p)
	if !ok {
		return
	}
	sum, ranks, peak, reports := s.sumPace(p.status.Generation)
	if !reports {
		return
	}
	every := min(max(now.Sub(*p.status.StartedAt)/10, paceFirst), paceLast)
	wait := every
	if old := p.status.Pace; old != nil {
		wait = every - now.Sub(old.At)
	}
	if sum.Seconds > 0 && (p.status.Pace == nil || wait <= 0 || ends) {
		step, _ := s.slowest("", p.status.Generation)
		for i := range s.members {
			if m := &s.members[i]; m.said.Printed && m.said.Generation == int64(p.status.Generation) {
				step = max(step, m.said.Step) // others say nothing
			}
		}
		p.status.Pace, p.commit, wait = paceFrom(sum, ranks, peak), true, every
		p.status.Pace.At, p.status.Pace.Step = now, step
	}
	if wait = max(wait, stepLook); !ends && (p.wake == 0 || p.wake > wait) {
		p.wake = wait
	}
}

// measurable: it runs, or ends in this turn.
func (s *seen) measurable(p *plan) (ends, ok bool) {
	ends = p.status.Phase.Finished() && !s.task.Status.Phase.Finished()
	return ends, (p.status.Phase == api.PhaseRunning || ends) && p.status.StartedAt != nil && !p.archive && !p.erase
}

// sumPace adds up what the launchers of the generation tell. reports: all of them tell of steps.
func (s *seen) sumPace(generation int) (sum link.Pace, ranks int, peak float64, reports bool) {
	known := true
	printed := slices.ContainsFunc(s.members, func(m member) bool { return m.said.Printed })
	for i := range s.members {
		m := &s.members[i]
		if s.alone(m.role) != "" || printed && !m.said.Watched { // mostly only the first rank prints
			continue
		}
		if m.said.Generation != int64(generation) || m.said.SteppedAt.IsZero() {
			return link.Pace{}, 0, 0, false
		}
		sum.Steps += m.said.Pace.Steps
		sum.Seconds += m.said.Pace.Seconds
		sum.Samples += m.said.Pace.Samples
		sum.Tokens += m.said.Pace.Tokens
		sum.Flops += m.said.Pace.Flops
		sum.Waited += m.said.Pace.Waited
		sum.Skipped = max(sum.Skipped, m.said.Pace.Skipped)
		if scale := m.said.Pace.Scale; scale > 0 && (sum.Scale == 0 || scale < sum.Scale) {
			sum.Scale = scale
		}
		ranks, peak, known, reports = ranks+m.ranks, peak+m.peak, known && m.peak > 0, true
	}
	if !known {
		peak = 0
	}
	return sum, ranks, peak, reports
}

// paceFrom makes rates of sums: all ranks work at the same time, so that the time that passed is the mean
// of theirs.
func paceFrom(sum link.Pace, ranks int, peak float64) *api.Pace {
	passed := sum.Seconds / float64(ranks)
	out := &api.Pace{
		StepTime:         api.Duration(sum.Seconds / float64(max(sum.Steps, 1)) * float64(time.Second)),
		SamplesPerSecond: sum.Samples / passed, TokensPerSecond: sum.Tokens / passed, FlopsPerSecond: sum.Flops / passed,
		DataWait: min(sum.Waited/sum.Seconds, 1), LossScale: sum.Scale, SkippedSteps: sum.Skipped,
	}
	if peak > 0 {
		out.MFU = out.FlopsPerSecond / peak
	}
	return out
}

//go:embed peaks.json
var peakTable []byte

// peaks is operations a second by folded type of device.
var peaks = sync.OnceValue(func() map[string]float64 {
	var rows map[string]float64
	if err := json.Unmarshal(peakTable, &rows); err != nil {
		panic(err) // part of the program; a test reads it
	}
	out := map[string]float64{}
	for name, tera := range rows {
		out[api.FoldDevice(name)] = tera * 1e12
	}
	return out
})

// peakOf is what the devices can do together; 0 where one is not in the table, or has no hardware.
func peakOf(n *api.Node, mask uint64) (sum float64) {
	if n.Spec.Virtual {
		return 0
	}
	for _, d := range devicesOf(n, mask) {
		peak := peaks()[api.FoldDevice(d.Type)]
		if peak == 0 {
			return 0
		}
		sum += peak
	}
	return sum
}
