package launch

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	// lookEvery is how often a restore looks whether it is still wanted.
	lookEvery = 100 * time.Millisecond
	// restorers is how many ranks of a launcher are restored at once; each reads several packs at once.
	restorers = 4
)

// refill puts the checkpoint that a generation starts from into the slots of its ranks, which then find it
// as they find what they saved themselves. False: it can't be had here, which the leader was told, or is
// not wanted any more; another generation or a stop follows.
func (l *launcher) refill(ctx context.Context, g link.Generation) (bool, error) {
	l.ranks.restored("", time.Time{})
	if l.resume = ""; g.Origin == nil {
		return true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go l.whileWanted(ctx, cancel, g.Number)
	begun := l.clock.Now()
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		err := l.restoreAll(ctx, g)
		switch {
		case err == nil:
			l.log.Info("restored from a checkpoint", "step", g.Restore, "generation", g.Number, "took", l.clock.Now().Sub(begun))
			return true, nil
		case ctx.Err() != nil:
			return false, nil
		case fault.Is(err, fault.Full):
			return false, err
		case final(err):
			l.log.Warn("the checkpoint can't be restored here", "step", g.Restore, "error", err)
			l.ranks.refuse(*g.Origin)
			return false, nil
		}
		l.log.Warn("the checkpoint is not restored yet", "step", g.Restore, "error", err)
		select {
		case <-ctx.Done():
			return false, nil
		case <-l.clock.After(pause):
		}
	}
}

// final says that trying again brings the same: the bytes are damaged, or not there.
func final(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && !f.Code.Retry()
}

// whileWanted cancels a restore that a stop or a newer generation makes useless.
func (l *launcher) whileWanted(ctx context.Context, cancel func(), generation int64) {
	defer cancel()
	for ctx.Err() == nil {
		if _, asked := l.stop.wish(); asked || l.wishedStop() || l.orders.after(generation) != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-l.clock.After(lookEvery):
		}
	}
}

// restoreAll fills one slot of every rank here; its others are emptied.
func (l *launcher) restoreAll(ctx context.Context, g link.Generation) error {
	if l.replica.CheckpointFolder != "" {
		return l.resumeFiles(ctx, g)
	}
	tiers, err := l.nearestFirst(ctx, *g.Origin)
	if err != nil {
		return err
	}
	from := make([]string, max(l.replica.Ranks, 1))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(restorers)
	for local := range from {
		group.Go(func() (err error) {
			from[local], err = l.restoreRank(ctx, g, tiers, local)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if slices.Sort(from); from[0] == from[len(from)-1] {
		l.ranks.restored(from[0], l.clock.Now().UTC())
	}
	return nil
}

// restoreRank fills the slot of one rank here, and says from which tier.
func (l *launcher) restoreRank(ctx context.Context, g link.Generation, tiers []stored, local int) (string, error) {
	memory := l.slots().folder
	if err := memory.Remove(slotNames(local, word.MaxSlots)...); err != nil {
		return "", err
	}
	f, err := memory.Replace(slotName(local, 0), 0o600)
	if err != nil {
		return "", noMemory(err)
	}
	defer f.Close()
	t := ckpt.Target{Rank: uint32(g.FirstRank + local), World: uint32(g.World), Generation: uint64(g.Number), File: f}
	return restoreNearest(ctx, tiers, g.Origin.Name, t)
}

// noMemory is what ckpt says where a slot can't be made.
func noMemory(err error) error {
	_, err = ckpt.ReadSlot(nil, err)
	return err
}

// stored is the checkpoints of a task in a tier.
type stored struct {
	tier string
	repo *ckpt.Repo
}

// nearestFirst are the tiers that may have the checkpoint. What lies on the node's disk is of use only
// with the record that the server keeps.
func (l *launcher) nearestFirst(ctx context.Context, from link.Origin) ([]stored, error) {
	var out []stored
	local, err := l.repo(link.TierLocal, from.TaskID)
	if err != nil {
		return nil, err
	}
	if local != nil {
		switch err := l.adopt(ctx, local, from); {
		case err == nil:
			out = append(out, stored{link.TierLocal, local})
		case final(err), link.Permanent(err): // it is in the shared tier alone, or another one lies here under its name
		default:
			return nil, err
		}
	}
	shared, err := l.repo(link.TierShared, from.TaskID)
	if err != nil {
		return nil, err
	}
	if shared != nil {
		out = append(out, stored{link.TierShared, shared})
	}
	return out, nil
}

// restoreNearest takes the first tier that has it whole, and says which. One where it is damaged, seen twice in the same
// place, loses it, so that no save relies on what is left.
func restoreNearest(ctx context.Context, tiers []stored, name string, t ckpt.Target) (string, error) {
	err := error(fault.New(fault.NotFound, "NoCheckpoint", fault.T("No tier here has the checkpoint.", "此处没有任何层级保存该检查点。")))
	for _, s := range tiers {
		if err = s.repo.Restore(ctx, name, t); err == nil {
			return s.tier, nil
		}
		if !final(err) || fault.Is(err, fault.Full) {
			return "", err
		}
		if ckpt.Lost(err) {
			err = errors.Join(err, s.repo.Drop(ctx, name))
		}
	}
	return "", err
}

// restored is where all of the ranks' states were read, which the leader hears with the generation that begins from them.
func (r *ranks) restored(tier string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Restored, r.said.RestoredAt = tier, at
}

// refuse tells the leader that a checkpoint can't be had here.
func (r *ranks) refuse(from link.Origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Refused = &from
	r.report()
}
