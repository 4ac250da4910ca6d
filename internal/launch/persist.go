package launch

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/link"
)

// What lies in memory goes further: the leader names a step that all ranks hold, every launcher writes what
// its ranks have of it to the tiers, and the leader makes a checkpoint of the parts. Ranks go on meanwhile;
// the slots that are read are kept for that long (the word "keep" beside the watermark).

// Stores opens the places that checkpoints go to; nil for those there are none of.
type Stores func(record.Tiers) (local, shared ckpt.Store, err error)

// localGrace is how long an unfinished save on the disk of a node may be silent: the disk is fast, and
// what nobody needs any more is soon deleted.
const localGrace = 30 * time.Minute

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

// saved is a save of this launcher that waits to be committed.
type saved struct {
	save             *ckpt.Save
	generation, step int64
}

// repo is the checkpoints of a task in a tier; nil where there is no such tier here.
func (l *launcher) repo(tier, taskID string) (*ckpt.Repo, error) {
	cfg := ckpt.Config{Store: l.stores()[tier], Prefix: taskID, Clock: l.clock}
	if cfg.Store == nil {
		return nil, nil
	}
	if tier == link.TierLocal {
		cfg.Grace = localGrace
	}
	return ckpt.New(cfg)
}

// openStores finds out where checkpoints may go, when that is asked for: most launchers never do. A tier that
// can't be opened is one that is not there.
func (l *launcher) openStores(open Stores, where record.Tiers) map[string]ckpt.Store {
	out := map[string]ckpt.Store{}
	if open == nil {
		return out
	}
	local, shared, err := open(where)
	if err != nil {
		l.log.Error("a place for checkpoints can't be opened", "error", err)
	}
	for tier, store := range map[string]ckpt.Store{link.TierLocal: local, link.TierShared: shared} {
		if store != nil {
			out[tier] = store
		}
	}
	return out
}

// persist writes steps to tiers as the leader orders them, until ctx ends.
func (l *launcher) persist(ctx context.Context) {
	pending := map[string]saved{}
	for {
		var flushed chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-l.ranks.persist:
		case flushed = <-l.flush:
		}
		job, committed := l.ranks.wantedNow()
		for _, c := range committed {
			if s, ok := pending[c.Tier]; ok && s.generation == c.Generation && s.step <= c.Step {
				l.settle(ctx, c, s)
				delete(pending, c.Tier)
			}
		}
		if job != nil {
			l.work(ctx, job, pending)
			runtime.GC() // what is pooled survives one of them
			debug.FreeOSMemory()
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// work does one job, tier by tier: the slots are read once for each.
func (l *launcher) work(ctx context.Context, job *persisting, pending map[string]saved) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-job.over:
			cancel()
		case <-inner.Done():
		}
	}()
	for _, tier := range job.tiers {
		save, refs, err := l.write(inner, tier, job)
		if old, ok := pending[tier]; ok && save != nil { // it was never committed
			_ = old.save.End(ctx)
		}
		if save != nil {
			pending[tier] = saved{save, job.generation, job.step}
		}
		if err != nil && inner.Err() == nil {
			l.log.Warn("a step was not persisted", "step", job.step, "tier", tier, "error", err)
		}
		l.ranks.persisted(job, tier, refs, err)
	}
	l.ranks.finished(job)
}

// write puts what all ranks here have of a step into a tier. The save is there also when it failed.
func (l *launcher) write(ctx context.Context, tier string, job *persisting) (*ckpt.Save, []ckpt.PartRef, error) {
	repo, err := l.repo(tier, l.replica.TaskID)
	if err != nil || repo == nil {
		return nil, nil, errors.Join(errors.New("there is no such place for checkpoints"), err)
	}
	if l.ranks != nil && l.ranks.files {
		return l.writeFiles(ctx, repo, job)
	}
	save, err := repo.Begin(ctx, uint64(job.generation), uint64(job.step), uint32(job.world), job.full)
	if err != nil {
		return nil, nil, err
	}
	ranks := max(l.replica.Ranks, 1)
	if tier == link.TierShared && ranks < job.world {
		save.Share()
	}
	var refs []ckpt.PartRef
	for local := range ranks {
		slot, err := l.slots().with(local, job.step)
		if err != nil {
			return save, nil, err
		}
		ref, err := save.Rank(ctx, slot)
		if err = errors.Join(err, slot.Close()); err != nil {
			return save, nil, err
		}
		refs = append(refs, ref)
	}
	return save, refs, nil
}

// settle ends a save that became a checkpoint. On the node's own disk its record is put beside its parts,
// so that the next save can rely on them; what the policy does not keep goes.
func (l *launcher) settle(ctx context.Context, c link.Committed, s saved) {
	err := func() error {
		repo, err := l.repo(c.Tier, l.replica.TaskID)
		if err != nil || c.Tier != link.TierLocal || c.Step != s.step {
			return err
		}
		if err := l.adopt(ctx, repo, link.Origin{TaskID: l.replica.TaskID, Name: (&ckpt.Manifest{Generation: uint64(c.Generation), Step: uint64(c.Step)}).Name()}); err != nil {
			return err
		}
		keep := ckpt.Keeping(l.replica.KeepLocal)
		keep.Held = func(name string) bool { return l.recorded(ctx, name) }
		_, err = repo.Collect(ctx, keep)
		return err
	}()
	if err = errors.Join(err, s.save.End(ctx)); err != nil && ctx.Err() == nil {
		l.log.Warn("a checkpoint was not put into order", "step", c.Step, "tier", c.Tier, "error", err)
	}
}

// recorded says that the server still has the record of a checkpoint of this task, pinned or chosen to begin from;
// also where it can't be asked.
func (l *launcher) recorded(ctx context.Context, name string) bool {
	_, err := l.client.FetchManifest(ctx, link.Origin{TaskID: l.replica.TaskID, Name: name})
	return err == nil || !final(err) && !link.Permanent(err)
}

// adopt puts the record of a checkpoint into the node's own repository. Whether its parts are here, and are
// what they were, is seen when they are read.
func (l *launcher) adopt(ctx context.Context, repo *ckpt.Repo, from link.Origin) error {
	raw, err := l.client.FetchManifest(ctx, from)
	if err != nil {
		return err
	}
	m, err := ckpt.DecodeManifest(raw)
	if err != nil {
		return err
	}
	if m.Name() != from.Name {
		return fault.New(fault.Invalid, "Damaged", fault.T("The server sent the record of another checkpoint.", "服务器发送了另一个检查点的记录。"))
	}
	_, err = repo.Commit(ctx, ckpt.Proposal{
		Generation: m.Generation, Step: m.Step, World: m.World, Parts: m.Parts, Metrics: m.Metrics, Here: []uint32{},
	})
	return err
}
