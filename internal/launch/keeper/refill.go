package keeper

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	// lookEvery is how often a restore looks whether it is still wanted.
	lookEvery = 100 * time.Millisecond
	// restorers is how many ranks of a launcher are restored at once; each reads several packs at once.
	restorers = 4
)

// restorer brings the states that a generation begins from to its ranks, before they start. It is of the loop that starts
// generations.
type restorer struct {
	tiers  *tiers
	Folder *saveFolder // nil: the script does not save itself
	peers  *peers      // nil: states are kept here alone
	ranks  *rankset.Set
	local  int // ranks here
	slots  func() shm.Slots
	wanted func(generation int64) bool      // no stop, and no newer one
	resume string                           // $FERMI_RESUME_FROM; "": none
	peer   bool                             // a state of this generation came from another launcher
	note   func(format string, args ...any) // into the user's log
	clock  clock.Clock
	log    *slog.Logger
}

// Refill puts the checkpoint that a generation starts from into the slots of its ranks, which then find it
// as they find what they saved themselves. False: it can't be had here, which the leader was told, or is
// not wanted any more; another generation or a stop follows.
func (r *restorer) Refill(ctx context.Context, g link.Generation) (bool, error) {
	r.ranks.Report.Restored("", time.Time{})
	if r.peer {
		r.ranks.Report.Restored(engine.FromPeer, r.clock.Now().UTC())
	}
	r.resume = ""
	if r.Folder != nil && r.resumeOwn(g) {
		return true, nil
	}
	if g.Origin == nil {
		return true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { r.whileWanted(ctx, cancel, g.Number, lookEvery) })
	begun := r.clock.Now()
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		err := r.restoreAll(ctx, g)
		switch {
		case err == nil:
			r.log.Info("restored from a checkpoint", "step", g.Restore, "generation", g.Number, "took", r.clock.Now().Sub(begun))
			return true, nil
		case ctx.Err() != nil:
			return false, nil
		case fault.Is(err, fault.Full):
			return false, err
		case final(err):
			r.log.Warn("the checkpoint can't be restored here", "step", g.Restore, "error", err)
			r.ranks.Report.Refuse(*g.Origin)
			return false, nil
		}
		r.log.Warn("the checkpoint is not restored yet", "step", g.Restore, "error", err)
		select {
		case <-ctx.Done():
			return false, nil
		case <-r.clock.After(pause):
		}
	}
}

// whileWanted cancels what a stop or a newer generation makes useless.
func (r *restorer) whileWanted(ctx context.Context, cancel func(), generation int64, every time.Duration) {
	defer cancel()
	for ctx.Err() == nil {
		if !r.wanted(generation) {
			return
		}
		select {
		case <-ctx.Done():
		case <-r.clock.After(every):
		}
	}
}

// restoreAll fills one slot of every rank here; its others are emptied.
func (r *restorer) restoreAll(ctx context.Context, g link.Generation) error {
	if r.Folder != nil {
		return r.resumeFiles(ctx, g)
	}
	tiers, err := r.tiers.nearestFirst(ctx, *g.Origin)
	if err != nil {
		return err
	}
	from := make([]string, r.local)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(restorers)
	for local := range from {
		group.Go(func() (err error) {
			from[local], err = r.restoreRank(ctx, g, tiers, local)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if slices.Sort(from); from[0] == from[len(from)-1] {
		r.ranks.Report.Restored(from[0], r.clock.Now().UTC())
	}
	return nil
}

// restoreRank fills the slot of one rank here, and says from which tier.
func (r *restorer) restoreRank(ctx context.Context, g link.Generation, tiers []stored, local int) (string, error) {
	memory := r.slots().Folder
	if err := memory.Remove(shm.Names(local, word.MaxSlots)...); err != nil {
		return "", err
	}
	f, err := memory.Replace(shm.Name(local, 0), 0o600)
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

// resumeFiles puts the checkpoint that a generation starts from into the folder, if it is not there, and
// remembers its path for the ranks.
func (r *restorer) resumeFiles(ctx context.Context, g link.Generation) error {
	if e, ok := r.Folder.bring(g.Restore); ok && r.ours(g) {
		return r.resumeAt(e.Name, engine.FromFolder)
	}
	tiers, err := r.tiers.nearestFirst(ctx, *g.Origin)
	if err != nil {
		return err
	}
	memory := r.slots().Folder
	f, err := memory.Replace(nameFiles, 0o600)
	if err != nil {
		return noMemory(err)
	}
	defer memory.Remove(nameFiles)
	from, err := restoreNearest(ctx, tiers, g.Origin.Name, ckpt.Target{World: 1, Generation: uint64(g.Number), File: f})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	slot, err := ckpt.ReadSlot(f, nil)
	if err != nil {
		return err
	}
	defer slot.Close()
	folder, err := r.Folder.Open()
	if err != nil {
		return err
	}
	if err := folder.Make(); err != nil {
		return err
	}
	name, err := r.Folder.Place(slot, folder)
	if err == nil {
		err = r.resumeAt(name, from)
	}
	return err
}

func (r *restorer) resumeAt(name, from string) (err error) {
	if r.resume, err = r.Folder.pathOf(name); err == nil {
		r.ranks.Report.Restored(from, r.clock.Now().UTC())
		r.log.Info("the script goes on from its own file", "path", r.resume, "from", from)
		if r.note != nil {
			r.note("fermi: FERMI_RESUME_FROM=%s (%s)", r.resume, from)
		}
	}
	return err
}

// ours says that a generation begins from a checkpoint of its own task.
func (r *restorer) ours(g link.Generation) bool {
	return g.Origin == nil || g.Origin.TaskID == r.tiers.taskID
}

// resumeOwn has the ranks begin from the newest whole entry of their own folder, where all of them are here and it is
// newer than what the leader knows of.
func (r *restorer) resumeOwn(g link.Generation) bool {
	if g.FirstRank != 0 || g.World > r.local {
		return false
	}
	r.Folder.recall()
	r.Folder.sweep(false)
	for _, step := range r.Folder.newest() {
		if r.ours(g) && step <= g.Restore {
			return false
		}
		if e, ok := r.Folder.bring(step); ok {
			return r.resumeAt(e.Name, engine.FromFolder) == nil
		}
	}
	return false
}

// Check reads what the ranks of a generation go on from, every byte, before those that are new start. A slot that is
// not what it was is emptied: its rank says so. Nobody changes a slot now: ranks are dead, or have left.
func (r *restorer) Check(g link.Generation) {
	defer r.ranks.HoldSlots()()
	if g.Restore == 0 || g.Origin != nil { // nothing, or what was checked on its way here
		return
	}
	// The ranks' cores are idle now; the launcher's own share of them would take too long.
	defer cores.Borrow(max(runtime.NumCPU()-cores.Own(), 0))()
	atOnce := min(max(runtime.NumCPU()/r.local, 1), 8)
	var wg sync.WaitGroup
	for _, local := range r.ranks.Conns.Newcomers() {
		wg.Go(func() { r.checkRank(local, uint64(g.Restore), atOnce) })
	}
	wg.Wait()
}

func (r *restorer) checkRank(local int, step uint64, atOnce int) {
	r.slots().Each(local, func(f *os.File) {
		if err := ckpt.Check(f, step, atOnce); err != nil {
			r.log.Warn("a state in memory is damaged", "rank", local, "step", step, "error", errors.Join(err, ckpt.Wipe(f)))
		}
	})
}
