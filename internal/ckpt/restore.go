package ckpt

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Target is a rank that gets a state, as a slot that its process finds.
type Target struct {
	Rank, World uint32
	// Generation is the one that begins: the slot says it.
	Generation uint64
	Path       string
	// File is the slot where somebody else opened it; Path is not looked at then. It stays open.
	File *os.File
}

// empty makes the slot ready to be filled; done ends that.
func (t *Target) empty(data uint64, tree []byte) (slot *newSlot, done func() error, err error) {
	if t.File != nil {
		slot, err = emptySlot(t.File, data, tree)
		return slot, func() error { return nil }, err
	}
	if slot, err = createSlot(t.Path, data, tree); err != nil {
		return nil, nil, err
	}
	return slot, slot.close, nil
}

// Restored says what the targets got.
type Restored struct {
	Name             string
	Generation, Step uint64
	// Refused are the newer checkpoints that were not whole. Drop them, else the next save relies on
	// what is left of them.
	Refused []Refusal
}

// Refusal is a checkpoint that can't be restored, and why.
type Refusal struct {
	Name string
	Why  error
}

// Restore fills one target's slot from the named checkpoint, every byte verified. On an error the
// slot is empty.
func (r *Repo) Restore(ctx context.Context, name string, t Target) error {
	if t.World == 0 || t.World > MaxWorld || t.Rank >= t.World {
		return fault.New(fault.Invalid, "NoSuchRank", fault.T("There is no rank %d.", "进程 %d 不存在。", t.Rank))
	}
	src, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	l, err := src.layoutOf(ctx, t.Rank, t.World)
	if err != nil {
		return err
	}
	slot, done, err := t.empty(l.data, l.tree)
	if err != nil {
		return err
	}
	err = src.fetch(ctx, l.pieces, slot)
	for _, g := range l.gaps {
		err = errors.Join(err, slot.WriteAt(make([]byte, g.length), int64(g.at)))
	}
	if err == nil {
		err = slot.seal(Header{Rank: t.Rank, World: t.World, Generation: t.Generation, Step: src.m.Step})
	}
	return errors.Join(err, done())
}

// RestoreNewest fills the slots of all targets from one checkpoint: the newest that is whole for all of
// them. Each takes the first tier that has it whole. A failure of the moment is returned as it
// is: it is no reason to go back to an older state.
func RestoreNewest(ctx context.Context, tiers []*Repo, targets []Target) (*Restored, error) {
	names, err := newestFirst(ctx, tiers)
	if err != nil {
		return nil, err
	}
	out, whys := &Restored{}, []error(nil)
	for _, name := range names {
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(readers)
		for _, t := range targets {
			group.Go(func() error { return restoreNearest(inner, tiers, name, t) })
		}
		err := group.Wait()
		if err == nil {
			out.Name = name
			out.Generation, out.Step, err = parseName(name)
			return out, err
		}
		if passing(ctx, err) || fault.Is(err, fault.Full) {
			return nil, err
		}
		out.Refused = append(out.Refused, Refusal{name, err})
		whys = append(whys, err)
	}
	return nil, fault.New(fault.NotFound, "NoCheckpoint", fault.T(
		"There is no checkpoint to restore; %d were refused.", "没有可恢复的检查点；有 %d 个被拒绝。", len(out.Refused))).
		Because(errors.Join(whys...))
}

func newestFirst(ctx context.Context, tiers []*Repo) ([]string, error) {
	var names []string
	for _, r := range tiers {
		more, err := r.names(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.Reverse(names)
	return names, nil
}

func restoreNearest(ctx context.Context, tiers []*Repo, name string, t Target) error {
	var why error
	for _, r := range tiers {
		err := r.Restore(ctx, name, t)
		if err == nil {
			return nil
		}
		if passing(ctx, err) || fault.Is(err, fault.Full) {
			return err
		}
		// What another tier says of a checkpoint that it does not have is no news.
		if why == nil || fault.Is(why, fault.NotFound) {
			why = err
		}
	}
	return why
}
