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

var errTooLate = errors.New("the time that the task had to end was over")

// jobs are what the leader wants persisted, and what waits for it. The Set locks them.
type jobs struct {
	// Changed has one after the job to do, or what is committed, changed; Released after the leader said that nothing more is persisted of
	// ranks that ended.
	Changed, Released chan struct{}

	files     bool              // the script saves itself: what lies in memory is not persisted
	job       *Job              // what is being persisted: its slots stay; nil: nothing
	wanted    *link.Persist     // the newest that the leader ordered
	ordered   int64             // the order that was taken up last
	committed []link.Committed  // as the leader told
	wants     map[int]link.Want // steps that local ranks wait for
	scores    scores            // what rank 0 reported, if it is here
}

func newJobs(files bool) jobs {
	return jobs{Changed: make(chan struct{}, 1), Released: make(chan struct{}, 1), files: files, wants: map[int]link.Want{}}
}

// begin is a new generation: what is being persisted ends with the last one.
func (j *jobs) begin(restore int64) {
	if j.job != nil {
		close(j.job.Over)
	}
	j.job, j.wanted, j.ordered = nil, nil, 0
	clear(j.wants)
	j.scores.rewind(restore)
}

// keeping is the step whose slots stay; 0: none.
func (j *jobs) keeping() int64 {
	if j.job == nil {
		return 0
	}
	return j.job.Step
}

// order takes up what the leader wants persisted, mu held. Slots that are read now come first.
func (s *stand) order(p *link.Persist) {
	if p != nil {
		s.wanted = p
	}
	p = s.wanted
	if p == nil || s.job != nil || p.Step <= s.ordered {
		return
	}
	s.ordered = p.Step
	job := &Job{Generation: s.now.Number, Step: p.Step, World: s.now.World, Tiers: p.Tiers, Full: p.Full, Over: make(chan struct{})}
	if s.files && s.now.FirstRank > 0 {
		return // who has rank 0 does
	}
	if s.hold.all && !s.files { // the watermark is our own, and may be further by now
		job.Step = max(job.Step, s.hold.mark)
	}
	if !s.files && (s.hold.mark > job.Step || !slices.Contains(s.hold.common(), job.Step)) {
		s.notePersisted(job, nil, errors.New("the ranks don't hold it any more"))
		return
	}
	job.metrics = s.scores.at(job.Step)
	s.job = job
	s.tellMark()
	bell.Ring(s.Changed)
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
func (s *stand) notePersisted(job *Job, parts []ckpt.PartRef, failed error) {
	list := slices.Clone(s.said.Persisted)
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
	s.said.Persisted = list
	s.later(savedPause)
}

// WantedNow is the job to do; nil: none. committed is what the leader told of.
func (r *Set) WantedNow() (job *Job, committed []link.Committed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job, r.committed
}

// WaitsLast tells the leader that the launcher waits; false: its ranks hold nothing in common.
func (r *Set) WaitsLast(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hold.common()) == 0 && !r.files || r.files && r.said.Keeping.File == 0 {
		return false
	}
	select {
	case <-r.Released: // of nobody who waited
	default:
	}
	r.said.Keeping.Ended, r.said.Keeping.Wants = reason, nil // who could want more has ended
	r.report()
	return true
}

// Late tells the leader that what is being persisted comes to nothing.
func (r *Set) Late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != nil {
		left := *r.job
		left.Tiers = slices.DeleteFunc(slices.Clone(left.Tiers), func(tier string) bool {
			return slices.ContainsFunc(r.said.Persisted, func(p link.Persisted) bool { return p.Tier == tier && p.Step == left.Step })
		})
		r.notePersisted(&left, nil, errTooLate)
	}
	r.report()
}

// Filed tells the leader of a newer complete entry in the folder that a script saves to.
func (r *Set) Filed(step int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step > r.said.Keeping.File && step > r.now.Restore {
		r.said.Keeping.File = step
		r.later(savedPause)
	}
}
