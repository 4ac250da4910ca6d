package save

import (
	"math"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt/interval"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How often a task with checkpoint.auto saves: found anew whenever its pace is written down, and in the same write. Launchers
// are told with their generation (follow) and say what they were told; the tiers go by the status.

const (
	// failurePrior is how long one node goes between failures before any was seen. Llama 3's published run had 419 unexpected ones
	// in 54 days on 2,048 nodes: one in 264 node-days. A month is nine times as careful: scripts fail too. The interval goes with
	// the root of it, so that a wrong guess costs little, and what is seen soon outweighs it (interval.MTBF).
	failurePrior = 30 * 24 * time.Hour
	// mostAtStake bounds every interval: what is measured says nothing of what nobody expects.
	mostAtStake = time.Hour
	// untimedEvery is between two saves until one was timed.
	untimedEvery = 10 * time.Second
	// leastSteps is how soon after a save the ranks of a process group can agree on the next (sdk: _agree.py).
	leastSteps = 3
	// writeShare: a launcher that writes takes one core in so many from training.
	writeShare = 16
)

// Measured is what the intervals of a task follow from.
type Measured struct {
	Spec    *api.TrainingTaskSpec
	Status  *api.TrainingTaskStatus // as it will be written; with a pace
	Members gang.Members
	Nodes   int // that it is on
	// Took is how long the last checkpoint took until a tier had it.
	Took map[string]time.Duration
}

// Intervals is how often a task saves, by tier.
func Intervals(m Measured, now time.Time) (list []api.SaveInterval) {
	for _, tier := range []string{api.MemoryTier, link.TierLocal, link.TierShared} {
		if one := m.tuned(tier, now); one != nil {
			list = append(list, *one)
		}
	}
	return list
}

// tuned is the interval of one tier; nil: it has its own, or nothing is known of it yet.
func (m *Measured) tuned(tier string, now time.Time) *api.SaveInterval {
	step := m.Status.Pace.StepTime.Std()
	if step <= 0 || !m.Spec.Tunes(tier) {
		return nil
	}
	c, least := interval.Cost{Step: step}, leastSteps*step
	if tier == api.MemoryTier {
		if c.Stall = m.stall(); c.Stall == 0 {
			return untimed(step)
		}
	} else {
		if c.Drain = m.Took[tier]; c.Drain == 0 {
			return m.Status.Interval(tier) // a leader that is new has written none yet
		}
		c.Stall, least = c.Drain/writeShare, 2*c.Drain
	}
	if old := m.Status.Interval(tier); old != nil && old.Lost > 0 {
		c.Was = uint64(max(old.Steps, 0))
	}
	past := failuresOf(m.Status, now, tier != api.MemoryTier)
	c.Seen, c.Over, c.Recovery = past.count, past.over, past.back
	c.MTBF = interval.MTBF(past.count, past.over, failurePrior/time.Duration(max(m.Nodes, 1)))
	t, err := interval.Tune(c, least, max(mostAtStake, least))
	if err != nil {
		return nil // times that can't be: clocks went back
	}
	return &api.SaveInterval{Tier: tier, Steps: int64(t.Steps), Every: api.Duration(t.Every), Lost: t.Lost, Why: t.Why}
}

// stall is what a save costs the slowest rank; 0: none was timed.
func (m *Measured) stall() time.Duration {
	var most float64
	for i := range m.Members {
		most = max(most, m.Members[i].Said.Saves.Stall)
	}
	return time.Duration(most * float64(time.Second))
}

// untimed has ranks save so that one can be timed.
func untimed(step time.Duration) *api.SaveInterval {
	steps := max(int64(math.Ceil(float64(untimedEvery)/float64(step))), leastSteps)
	return &api.SaveInterval{
		Tier: api.MemoryTier, Steps: steps, Every: api.Duration(time.Duration(steps) * step),
		Why: fault.T("Every %d steps, until it was timed how long a save stalls training.", "每 %d 步保存一次，直到测得保存使训练停顿的时间。", steps),
	}
}

// failures is what was seen of them.
type failures struct {
	count uint64
	over  time.Duration // that they were seen in
	back  time.Duration // from one to the next step, on average; 0: not known
}

// failuresOf are the newest that are kept, so that a task that begins to fail more often is soon known to; reloaded: only
// those after which memory had nothing.
func failuresOf(status *api.TrainingTaskStatus, now time.Time, reloaded bool) (out failures) {
	var last []api.Recovery
	if in := status.Interruptions; in != nil {
		last = in.Last
	}
	since := *status.StartedAt
	if len(last) == api.MaxRecoveries { // there may have been more before
		since, last = last[0].FailedAt, last[1:]
	}
	var back time.Duration
	var came int
	for i := range last {
		r := &last[i]
		if reloaded && !r.Reloaded {
			continue
		}
		out.count++
		if r.SteppedAt != nil {
			back, came = back+max(r.SteppedAt.Sub(r.FailedAt), 0), came+1
		}
	}
	if came > 0 {
		out.back = back / time.Duration(came)
	}
	out.over = max(now.Sub(since), 0)
	return out
}

// Every is how many steps apart ranks are asked to save; 0: they are not.
func Every(status *api.TrainingTaskStatus) int64 {
	if i := status.Interval(api.MemoryTier); i != nil {
		return i.Steps
	}
	return 0
}
