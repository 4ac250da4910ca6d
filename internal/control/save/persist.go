package save

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How steps go from memory to the tiers: the leader picks one that every rank holds, tells it with the
// watermark until all launchers have written their parts, and commits those. Nothing of this is written
// down: what launchers have written they say again to whoever leads.

// fullEvery is after how many checkpoints one relies on nothing older, so that bytes that rot don't live on.
const fullEvery = 32

// saving is where a task stands on that way, in one generation.
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

// clone is a copy that can be changed without changing v.
func (v *saving) clone() *saving {
	if v == nil {
		return nil
	}
	out := *v
	out.last, out.committed, out.busy, out.failed = maps.Clone(v.last), maps.Clone(v.committed), maps.Clone(v.busy), maps.Clone(v.failed)
	return &out
}

// persist says what goes with the watermark of a unit, and what is to be committed. saver is whose parts make a checkpoint.
func (d *decision) persist(saver *gang.Unit, mark *link.Watermark) {
	v := d.next.saving
	if v == nil || v.generation != mark.Generation {
		v = newSaving(mark.Generation, saver.Rendezvous.Restore, d.now)
		d.next.saving = v
	}
	for _, done := range d.next.ended {
		if v.order != nil && done.err == nil && done.Generation == v.generation && done.Step >= v.order.Step {
			d.plan.wrote = append(d.plan.wrote, wrote{done.Tier, d.now.Sub(v.ordered)})
		}
		v.settle(done, d.now)
	}
	d.next.ended = nil
	d.vouch(saver, v)
	for _, tier := range tiers {
		if p, ok := proposal(saver, tier, v); ok && !v.busy[tier] {
			v.busy[tier] = true
			d.plan.commits = append(d.plan.commits, commit{tier, p})
		}
	}
	if v.order != nil && v.answered(saver.Members) {
		for _, tier := range v.order.Tiers {
			if last := v.last[tier]; last.step < v.order.Step { // nothing came of it: not again at once
				v.last[tier] = lastSave{v.order.Step, d.now, last.count}
			}
		}
		v.order = nil
	}
	end := partingOf(saver, mark.Generation, mark.Step)
	want, denied := d.sight.wanted(saver, v)
	mark.Denied = denied
	if v.order == nil && end != hopeless && mark.Step > saver.Rendezvous.Restore {
		atOnce := func(tier string) bool { return end == complete || want[tier] > 0 && mark.Step >= want[tier] }
		v.ordered = d.now
		if v.order = d.due(v, mark.Step, atOnce); v.order != nil && end == complete {
			v.urgent = mark.Step
		}
	}
	mark.Persist = v.order
	d.letGo(saver, v, mark, end)
	for _, tier := range tiers {
		if done, ok := v.committed[tier]; ok {
			mark.Committed = append(mark.Committed, done)
		}
	}
}

// due is the next order; nil: none yet. What is wanted in a tier at once does not wait for its interval.
func (d *decision) due(v *saving, step int64, atOnce func(tier string) bool) *link.Persist {
	p := link.Persist{Step: step}
	for _, name := range tiers {
		t, last := tierOf(d.sight.Task, name), v.last[name]
		enough := t.EverySteps > 0 && step-last.step >= t.EverySteps || t.Every > 0 && d.now.Sub(last.at) >= t.Every.Std() && step > last.step || atOnce(name) && step > last.step
		if t.Disabled || !enough || v.busy[name] || !d.sight.tiers[name].open {
			continue
		}
		if name == link.TierShared && d.hasNoRoom() {
			continue // it stays in memory and on the nodes
		}
		p.Tiers = append(p.Tiers, name)
		p.Full = p.Full || last.count%fullEvery == fullEvery-1
	}
	if len(p.Tiers) == 0 {
		return nil
	}
	slices.Sort(p.Tiers)
	return &p
}

// hasNoRoom says that the shared store takes no more of this task. Where that is not known the plan asks, and what is
// decided here does not count.
func (d *decision) hasNoRoom() bool {
	if d.sight.full == nil {
		d.plan.askRoom = true
		return true
	}
	return *d.sight.full
}

// answered says that all launchers have said what became of the order, and all that could be is committed.
func (v *saving) answered(members gang.Members) bool {
	for _, tier := range v.order.Tiers {
		if v.busy[tier] {
			return false
		}
		for i := range members {
			if said := persisted(&members[i], tier, v.generation); said == nil || said.Step < v.order.Step {
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
func persisted(m *gang.Member, tier string, generation int64) *link.Persisted {
	for i := range m.Said.Persisted {
		if p := &m.Said.Persisted[i]; p.Tier == tier && p.Generation == generation {
			return p
		}
	}
	return nil
}

// proposal is the checkpoint that all launchers have written and nobody has committed.
func proposal(u *gang.Unit, tier string, v *saving) (ckpt.Proposal, bool) {
	p := ckpt.Proposal{Generation: uint64(v.generation), World: uint32(u.World)}
	for i := range u.Members {
		said := persisted(&u.Members[i], tier, v.generation)
		if said == nil || said.Error != "" || i > 0 && uint64(said.Step) != p.Step {
			return p, false
		}
		p.Step = uint64(said.Step)
		var refs []ckpt.PartRef
		dec := json.NewDecoder(bytes.NewReader(said.Parts))
		dec.DisallowUnknownFields()
		if dec.Decode(&refs) != nil || len(refs) != u.Members[i].Ranks {
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
