package train

import (
	"maps"
	"math"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How often a task with checkpoint.auto saves: found anew whenever its pace is written down, and in the same write. Launchers
// are told with their generation (follow) and say what they were told; the tiers go by the status.

const (
	// failurePrior is how long one node goes between failures before any was seen. Llama 3's published run had 419 unexpected ones
	// in 54 days on 2,048 nodes: one in 264 node-days. A month is nine times as careful: scripts fail too. The interval goes with
	// the root of it, so that a wrong guess costs little, and what is seen soon outweighs it (ckpt.MTBF).
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

// tunes writes down how often the task saves.
func (s *seen) tunes(p *plan, now time.Time) {
	if !s.task.Spec.Tunes(api.MemoryTier) || p.status.Phase != api.PhaseRunning || p.status.Pace == nil || p.status.Pace == s.task.Status.Pace {
		return
	}
	if slices.ContainsFunc(s.members, func(m member) bool { return m.said.Printed }) {
		return // scripts without the SDK save nothing here
	}
	var list []api.SaveInterval
	for _, tier := range []string{api.MemoryTier, link.TierLocal, link.TierShared} {
		if one := s.tuned(&p.status, tier, now); one != nil {
			list = append(list, *one)
		}
	}
	p.status.Intervals = list
}

// tuned is the interval of one tier; nil: it has its own, or nothing is known of it yet.
func (s *seen) tuned(status *api.TrainingTaskStatus, tier string, now time.Time) *api.SaveInterval {
	step := status.Pace.StepTime.Std()
	if step <= 0 || !s.task.Spec.Tunes(tier) {
		return nil
	}
	c, least := ckpt.Cost{Step: step}, leastSteps*step
	if tier == api.MemoryTier {
		if c.Stall = s.stall(); c.Stall == 0 {
			return untimed(step)
		}
	} else {
		if c.Drain = s.took[tier]; c.Drain == 0 {
			return status.Interval(tier) // a leader that is new has written none yet
		}
		c.Stall, least = c.Drain/writeShare, 2*c.Drain
	}
	if old := status.Interval(tier); old != nil && old.Lost > 0 {
		c.Was = uint64(max(old.Steps, 0))
	}
	seen := failuresOf(status, now, tier != api.MemoryTier)
	c.Seen, c.Over, c.Recovery = seen.count, seen.over, seen.back
	c.MTBF = ckpt.MTBF(seen.count, seen.over, failurePrior/time.Duration(max(s.nodes(), 1)))
	t, err := ckpt.Interval(c, least, max(mostAtStake, least))
	if err != nil {
		return nil // times that can't be: clocks went back
	}
	return &api.SaveInterval{Tier: tier, Steps: int64(t.Steps), Every: api.Duration(t.Every), Lost: t.Lost, Why: t.Why}
}

// stall is what a save costs the slowest rank; 0: none was timed.
func (s *seen) stall() time.Duration {
	var most float64
	for i := range s.members {
		most = max(most, s.members[i].said.Saves.Stall)
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

// every is how many steps apart ranks are asked to save; 0: they are not.
func every(status *api.TrainingTaskStatus) int64 {
	if i := status.Interval(api.MemoryTier); i != nil {
		return i.Steps
	}
	return 0
}

// tierOf is how a task uses a tier, by what was measured where it does not say.
func tierOf(task *api.TrainingTask, tier string) api.CheckpointTier {
	t := task.Spec.LocalTier()
	if tier == link.TierShared {
		t = task.Spec.SharedTier()
	}
	if i := task.Status.Interval(tier); i != nil && task.Spec.Tunes(tier) {
		t.Every, t.EverySteps = i.Every, 0
	}
	return t
}

// wrote remembers how long it took until a tier had a step.
func (c *Controller) wrote(taskID, tier string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[taskID]; !ok { // it is gone
		return
	}
	if c.took[taskID] == nil {
		c.took[taskID] = map[string]time.Duration{}
	}
	c.took[taskID][tier] = took
}

func (c *Controller) tookOf(taskID string) map[string]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.took[taskID])
}
