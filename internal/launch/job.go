package launch

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/link"
)

// persisting is a step on its way to tiers; it ends with its generation.
type persisting struct {
	generation, step int64
	world            int
	tiers            []string
	full             bool
	metrics          map[string]float64
	over             chan struct{} // closed when its generation has ended
}

// order takes up what the leader wants persisted, mu held. Slots that are read now come first.
func (r *ranks) order(p *link.Persist) {
	if p != nil {
		r.wanted = p
	}
	p = r.wanted
	if p == nil || r.job != nil || p.Step <= r.ordered {
		return
	}
	r.ordered = p.Step
	job := &persisting{generation: r.now.Number, step: p.Step, world: r.now.World, tiers: p.Tiers, full: p.Full, over: make(chan struct{})}
	if r.files && r.now.FirstRank > 0 {
		return // who has rank 0 does
	}
	if r.decides() && !r.files { // the watermark is our own, and may be further by now
		job.step = max(job.step, r.mark)
	}
	if !r.files && (r.mark > job.step || !slices.Contains(r.common(), job.step)) {
		r.notePersisted(job, nil, errors.New("the ranks don't hold it any more"))
		return
	}
	job.metrics = r.scores.at(job.step)
	r.job = job
	r.tellMark()
	bell.Ring(r.persist)
}

// keeping is the step whose slots stay; 0: none. mu held.
func (r *ranks) keeping() int64 {
	if r.job == nil {
		return 0
	}
	return r.job.step
}

// tellMark tells all ranks where the watermark is and what is kept, mu held.
func (r *ranks) tellMark() {
	mark, keep := r.mark, r.keeping()
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
	}
}

// abandon ends what is being persisted with its generation, mu held.
func (r *ranks) abandon() {
	if r.job != nil {
		close(r.job.over)
	}
	r.job, r.wanted, r.ordered, r.said.Persisted = nil, nil, 0, nil
}

// persisted is what became of a job in one of its tiers: the parts, or why there are none. The leader hears of it at
// once, so that a slow tier keeps no other waiting.
func (r *ranks) persisted(job *persisting, tier string, parts []ckpt.PartRef, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != job {
		return // of a generation that is over
	}
	if late := r.scores.at(job.step); late != nil { // it may have been reported after it was saved
		job.metrics = late
	}
	one := *job
	one.tiers = []string{tier}
	r.notePersisted(&one, parts, failed)
	r.report()
}

// finished lets go of the slots of a job and takes up the next.
func (r *ranks) finished(job *persisting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != job {
		return
	}
	r.job = nil
	r.order(nil)
	r.tellMark()
	r.report()
}

// notePersisted files the newest of each tier, mu held.
func (r *ranks) notePersisted(job *persisting, parts []ckpt.PartRef, failed error) {
	list := slices.Clone(r.said.Persisted)
	for _, tier := range job.tiers {
		p := link.Persisted{Tier: tier, Generation: job.generation, Step: job.step, Metrics: job.metrics}
		raw, err := json.Marshal(parts)
		if err = errors.Join(failed, err); err != nil {
			p.Error = err.Error()
		} else {
			p.Parts = raw
		}
		list = append(slices.DeleteFunc(list, func(old link.Persisted) bool { return old.Tier == tier }), p)
	}
	r.said.Persisted = list
	r.later(savedPause)
}

// wantedNow is the job to do; nil: none. committed is what the leader told of.
func (r *ranks) wantedNow() (job *persisting, committed []link.Committed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job, r.committed
}
