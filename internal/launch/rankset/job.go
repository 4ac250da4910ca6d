package rankset

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Job is a step on its way to tiers; it ends with its generation.
type Job struct {
	Generation, Step int64
	World            int
	Tiers            []string
	Full             bool
	metrics          map[string]float64
	Over             chan struct{} // closed when its generation has ended
}

// order takes up what the leader wants persisted, mu held. Slots that are read now come first.
func (r *Set) order(p *link.Persist) {
	if p != nil {
		r.wanted = p
	}
	p = r.wanted
	if p == nil || r.job != nil || p.Step <= r.ordered {
		return
	}
	r.ordered = p.Step
	job := &Job{Generation: r.now.Number, Step: p.Step, World: r.now.World, Tiers: p.Tiers, Full: p.Full, Over: make(chan struct{})}
	if r.Files && r.now.FirstRank > 0 {
		return // who has rank 0 does
	}
	if r.decides() && !r.Files { // the watermark is our own, and may be further by now
		job.Step = max(job.Step, r.mark)
	}
	if !r.Files && (r.mark > job.Step || !slices.Contains(r.common(), job.Step)) {
		r.notePersisted(job, nil, errors.New("the ranks don't hold it any more"))
		return
	}
	job.metrics = r.scores.at(job.Step)
	r.job = job
	r.tellMark()
	bell.Ring(r.Persist)
}

// keeping is the step whose slots stay; 0: none. mu held.
func (r *Set) keeping() int64 {
	if r.job == nil {
		return 0
	}
	return r.job.Step
}

// tellMark tells all ranks where the watermark is and what is kept, mu held.
func (r *Set) tellMark() {
	mark, keep := r.mark, r.keeping()
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
	}
}

// abandon ends what is being persisted with its generation, mu held.
func (r *Set) abandon() {
	if r.job != nil {
		close(r.job.Over)
	}
	r.job, r.wanted, r.ordered, r.said.Persisted = nil, nil, 0, nil
}

// Persisted is what became of a job in one of its tiers: the parts, or why there are none. The leader hears of it at
// once, so that a slow tier keeps no other waiting.
func (r *Set) Persisted(job *Job, tier string, parts []ckpt.PartRef, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != job {
		return // of a generation that is over
	}
	if late := r.scores.at(job.Step); late != nil { // it may have been reported after it was saved
		job.metrics = late
	}
	one := *job
	one.Tiers = []string{tier}
	r.notePersisted(&one, parts, failed)
	r.report()
}

// Finished lets go of the slots of a job and takes up the next.
func (r *Set) Finished(job *Job) {
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
func (r *Set) notePersisted(job *Job, parts []ckpt.PartRef, failed error) {
	list := slices.Clone(r.said.Persisted)
	for _, tier := range job.Tiers {
		p := link.Persisted{Tier: tier, Generation: job.Generation, Step: job.Step, Metrics: job.metrics}
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

// WantedNow is the job to do; nil: none. committed is what the leader told of.
func (r *Set) WantedNow() (job *Job, committed []link.Committed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job, r.committed
}
