package figure

import (
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

// Pace writes down how fast the task trains.
func (t *Turn) Pace() {
	ends, ok := t.measurable()
	if !ok {
		return
	}
	sum, ranks, peak, reports := t.crew().pace(t.After.Generation)
	if !reports {
		return
	}
	every := min(max(t.Now.Sub(*t.After.StartedAt)/10, paceFirst), paceLast)
	wait := every
	if old := t.After.Pace; old != nil {
		wait = every - t.Now.Sub(old.At)
	}
	if sum.Seconds > 0 && (t.After.Pace == nil || wait <= 0 || ends) {
		t.After.Pace, t.Changed, wait = paceFrom(sum, ranks, peak), true, every
		t.After.Pace.At, t.After.Pace.Step = t.Now, t.crew().progress("", t.After.Generation).step
	}
	if !ends {
		t.wakeIn(max(wait, stepLook))
	}
}

// measurable: it runs, or ends in this turn.
func (t *Turn) measurable() (ends, ok bool) {
	ends = t.After.Phase.Finished() && !t.Before.Phase.Finished()
	return ends, (t.After.Phase == api.PhaseRunning || ends) && t.After.StartedAt != nil && !t.Over
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
