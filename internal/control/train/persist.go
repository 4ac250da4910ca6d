package train

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How steps go from memory to the tiers: the leader picks one that every rank holds, tells it with the
// watermark until all launchers have written their parts, and commits those. Nothing of this is written
// down: what launchers have written they say again to whoever leads.

// fullEvery is after how many checkpoints one relies on nothing older, so that bytes that rot don't live on.
const fullEvery = 32

// saving is where a task stands on that way, in one generation; of the watermark loop alone.
type saving struct {
	generation int64
	order      *link.Persist
	ordered    time.Time                 // when
	last       map[string]lastSave       // by tier
	committed  map[string]link.Committed // by tier
	busy       map[string]bool           // tiers that are being committed
	failed     map[string]int64          // by tier: the step that came to nothing
	urgent     int64                     // the step that was ordered because ranks had ended; 0: none
	parted     bool                      // what became of it was told
	vouched    bool                      // for the checkpoint that the generation began from
}

// lastSave is from when on the next one is counted.
type lastSave struct {
	step  int64
	at    time.Time
	count int
}

// outcome is how a commit ended.
type outcome struct {
	link.Committed
	err error
}

func newSaving(generation, from int64, now time.Time) *saving {
	v := &saving{generation: generation, last: map[string]lastSave{}, committed: map[string]link.Committed{}, busy: map[string]bool{}, failed: map[string]int64{}}
	for _, tier := range tiers {
		v.last[tier] = lastSave{step: from, at: now}
	}
	return v
}

// persist says what goes with the watermark, and commits what is written.
func (c *Controller) persist(ctx context.Context, w *watermarks, s *seen, mark *link.Watermark) {
	id, now := s.task.Meta.ID, c.cfg.Clock.Now()
	v := w.saving[id]
	if v == nil || v.generation != mark.Generation {
		v = newSaving(mark.Generation, s.task.Status.Rendezvous.Restore, now)
		w.saving[id] = v
	}
	for _, done := range w.outcomes(id) {
		if v.order != nil && done.err == nil && done.Generation == v.generation && done.Step >= v.order.Step {
			c.wrote(id, done.Tier, now.Sub(v.ordered))
		}
		v.settle(done, now)
	}
	c.vouch(ctx, w, s, v)
	for _, tier := range tiers {
		if p, ok := s.proposal(tier, v); ok && !v.busy[tier] {
			v.busy[tier] = true
			c.commitLater(ctx, w, s.task, tier, p)
		}
	}
	if v.order != nil && v.answered(s) {
		for _, tier := range v.order.Tiers {
			if last := v.last[tier]; last.step < v.order.Step { // nothing came of it: not again at once
				v.last[tier] = lastSave{v.order.Step, now, last.count}
			}
		}
		v.order = nil
	}
	end := s.parting(mark.Generation, mark.Step)
	want, denied := c.wanted(s, v)
	mark.Denied = denied
	if v.order == nil && end != hopeless && mark.Step > s.task.Status.Rendezvous.Restore {
		atOnce := func(tier string) bool { return end == complete || want[tier] > 0 && mark.Step >= want[tier] }
		v.ordered = now
		if v.order = c.due(ctx, s.task, v, mark.Step, now, atOnce); v.order != nil && end == complete {
			v.urgent = mark.Step
		}
	}
	mark.Persist = v.order
	c.letGo(ctx, s, v, mark, end)
	for _, tier := range tiers {
		if done, ok := v.committed[tier]; ok {
			mark.Committed = append(mark.Committed, done)
		}
	}
}

// due is the next order; nil: none yet. What is wanted in a tier at once does not wait for its interval.
func (c *Controller) due(ctx context.Context, task *api.TrainingTask, v *saving, step int64, now time.Time, atOnce func(tier string) bool) *link.Persist {
	p := link.Persist{Step: step}
	for _, tier := range tiers {
		t, last := tierOf(task, tier), v.last[tier]
		enough := t.EverySteps > 0 && step-last.step >= t.EverySteps || t.Every > 0 && now.Sub(last.at) >= t.Every.Std() && step > last.step || atOnce(tier) && step > last.step
		if t.Disabled || !enough || v.busy[tier] {
			continue
		}
		if repo, err := c.cfg.Repo(tier, task.Meta.ID); err != nil || repo == nil {
			continue
		}
		if tier == link.TierShared && c.cfg.Room != nil && !c.cfg.Room(ctx, task) {
			continue // it stays in memory and on the nodes
		}
		p.Tiers = append(p.Tiers, tier)
		p.Full = p.Full || last.count%fullEvery == fullEvery-1
	}
	if len(p.Tiers) == 0 {
		return nil
	}
	slices.Sort(p.Tiers)
	return &p
}

// answered says that all launchers have said what became of the order, and all that could be is committed.
func (v *saving) answered(s *seen) bool {
	for _, tier := range v.order.Tiers {
		if v.busy[tier] {
			return false
		}
		for i := range s.members {
			if said := s.members[i].persisted(tier, v.generation); said == nil || said.Step < v.order.Step {
				return false
			}
		}
	}
	return true
}

func (v *saving) settle(done outcome, now time.Time) {
	if done.Generation != v.generation {
		return
	}
	v.busy[done.Tier] = false
	switch {
	case done.err == nil:
		v.committed[done.Tier] = done.Committed
		v.last[done.Tier] = lastSave{done.Step, now, v.last[done.Tier].count + 1}
	case !mayYet(done.err):
		v.failed[done.Tier] = done.Step
	}
}

// persisted is what a launcher said of a tier in the generation; nil: nothing.
func (m *member) persisted(tier string, generation int64) *link.Persisted {
	for i := range m.said.Persisted {
		if p := &m.said.Persisted[i]; p.Tier == tier && p.Generation == generation {
			return p
		}
	}
	return nil
}

// proposal is the checkpoint that all launchers have written and nobody has committed.
func (s *seen) proposal(tier string, v *saving) (ckpt.Proposal, bool) {
	p := ckpt.Proposal{Generation: uint64(v.generation), World: uint32(s.world)}
	for i := range s.members {
		said := s.members[i].persisted(tier, v.generation)
		if said == nil || said.Error != "" || i > 0 && uint64(said.Step) != p.Step {
			return p, false
		}
		p.Step = uint64(said.Step)
		var refs []ckpt.PartRef
		dec := json.NewDecoder(bytes.NewReader(said.Parts))
		dec.DisallowUnknownFields()
		if dec.Decode(&refs) != nil || len(refs) != s.members[i].ranks {
			return p, false
		}
		p.Parts = append(p.Parts, refs...)
		if len(said.Metrics) > 0 { // who has rank 0 has them
			p.Metrics = said.Metrics
		}
	}
	step := int64(p.Step)
	return p, step > 0 && step > v.committed[tier].Step && step != v.failed[tier]
}

// mayYet says that a commit may succeed later. One that came too late for what it relies on does not.
func mayYet(err error) bool {
	return fault.CodeOf(err).Retry() && fault.ReasonOf(err) != "SaveTooSlow"
}

// commitRetry is when a store that did not answer is tried again.
const commitRetry = 2 * time.Second

// commitLater commits beside the loop, which then looks at the task again.
func (c *Controller) commitLater(ctx context.Context, w *watermarks, task *api.TrainingTask, tier string, p ckpt.Proposal) {
	w.commits.Go(func() {
		err := c.commitCheckpoint(ctx, task, tier, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.cfg.Log.Warn("a checkpoint was not committed", "task", task.Meta.ID, "tier", tier, "step", p.Step, "error", err)
		}
		if err != nil && mayYet(err) {
			select {
			case <-ctx.Done():
				return
			case <-c.cfg.Clock.After(commitRetry):
			}
		}
		w.mu.Lock()
		w.ended[task.Meta.ID] = append(w.ended[task.Meta.ID], outcome{link.Committed{Tier: tier, Generation: int64(p.Generation), Step: int64(p.Step)}, err})
		w.mu.Unlock()
		c.Saved(task.Meta.ID, false)
	})
}

// outcomes are the commits of a task that have ended since.
func (w *watermarks) outcomes(id string) []outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ended[id]
	delete(w.ended, id)
	return out
}
