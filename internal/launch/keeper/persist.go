package keeper

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
)

// What lies in memory goes further: the leader names a step that all ranks hold, every launcher writes what
// its ranks have of it to the tiers, and the leader makes a checkpoint of the parts. Ranks go on meanwhile;
// the slots that are read are kept for that long (the word "keep" beside the watermark).

// persister writes steps to tiers. Its run is the one who does.
type persister struct {
	tiers  *tiers
	folder *saveFolder // that the script saves to itself; nil: what lies in memory is persisted
	ranks  *rankset.Set
	local  int // ranks here
	slots  func() shm.Slots
	keep   ckpt.Retention     // what stays on the node's own disk
	flush  chan chan struct{} // settle what is committed, and close it
	log    *slog.Logger
}

// saved is a save of this launcher that waits to be committed.
type saved struct {
	save             *ckpt.Save
	generation, step int64
}

// run writes steps to tiers as the leader orders them, until ctx ends.
func (p *persister) run(ctx context.Context) {
	pending := map[string]saved{}
	for {
		var flushed chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-p.ranks.Changed:
		case flushed = <-p.flush:
		}
		job, committed := p.ranks.WantedNow()
		for _, c := range committed {
			if s, ok := pending[c.Tier]; ok && s.generation == c.Generation && s.step <= c.Step {
				p.settle(ctx, c, s)
				delete(pending, c.Tier)
			}
		}
		if job != nil {
			p.work(ctx, job, pending)
			runtime.GC() // what is pooled survives one of them
			debug.FreeOSMemory()
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// work does one job, tier by tier: the slots are read once for each.
func (p *persister) work(ctx context.Context, job *rankset.Job, pending map[string]saved) {
	inner, cancel := context.WithCancel(ctx)
	var over sync.WaitGroup
	defer over.Wait()
	defer cancel()
	over.Go(func() {
		select {
		case <-job.Over:
			cancel()
		case <-inner.Done():
		}
	})
	for _, tier := range job.Tiers {
		save, refs, err := p.write(inner, tier, job)
		if old, ok := pending[tier]; ok && save != nil { // it was never committed
			_ = old.save.End(ctx)
		}
		if save != nil {
			pending[tier] = saved{save, job.Generation, job.Step}
		}
		if err != nil && inner.Err() == nil {
			p.log.Warn("a step was not persisted", "step", job.Step, "tier", tier, "error", err)
		}
		p.ranks.Persisted(job, tier, refs, err)
	}
	p.ranks.Finished(job)
}

// write puts what all ranks here have of a step into a tier. The save is there also when it failed.
func (p *persister) write(ctx context.Context, tier string, job *rankset.Job) (*ckpt.Save, []ckpt.PartRef, error) {
	repo, err := p.tiers.repo(tier, p.tiers.taskID)
	if err != nil || repo == nil {
		return nil, nil, errors.Join(errors.New("there is no such place for checkpoints"), err)
	}
	if p.folder != nil {
		return p.folder.write(ctx, repo, job)
	}
	save, err := repo.Begin(ctx, uint64(job.Generation), uint64(job.Step), uint32(job.World), job.Full)
	if err != nil {
		return nil, nil, err
	}
	if tier == link.TierShared && p.local < job.World {
		save.Share()
	}
	var refs []ckpt.PartRef
	for local := range p.local {
		slot, err := p.slots().With(local, job.Step)
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
func (p *persister) settle(ctx context.Context, c link.Committed, s saved) {
	err := func() error {
		repo, err := p.tiers.repo(c.Tier, p.tiers.taskID)
		if err != nil || c.Tier != link.TierLocal || c.Step != s.step {
			return err
		}
		if err := p.tiers.adopt(ctx, repo, link.Origin{TaskID: p.tiers.taskID, Name: (&ckpt.Manifest{Generation: uint64(c.Generation), Step: uint64(c.Step)}).Name()}); err != nil {
			return err
		}
		keep := p.keep
		keep.Held = func(name string) bool { return p.tiers.recorded(ctx, name) }
		_, err = repo.Collect(ctx, keep)
		return err
	}()
	if err = errors.Join(err, s.save.End(ctx)); err != nil && ctx.Err() == nil {
		p.log.Warn("a checkpoint was not put into order", "step", c.Step, "tier", c.Tier, "error", err)
	}
}
