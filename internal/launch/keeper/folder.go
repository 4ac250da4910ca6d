package keeper

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Scripts that save themselves (spec.checkpoint.folder). The launcher of rank 0 watches the folder; what is complete
// there becomes a checkpoint of files with one part. A generation that begins from one finds it in the folder of every
// replica, and its path in $FERMI_RESUME_FROM: all ranks begin from the same.

// folderPause is how often the folder is looked at.
const folderPause = time.Second

// folderKnown is how many complete entries are remembered: those that the leader may still ask for.
const folderKnown = 8

// saves are what a script saved in its folder.
type saves struct {
	mu    sync.Mutex
	known map[int64]watch.Entry // by step, what was complete
	since time.Time             // when the ranks of the generation started: what is older may be torn
	first bool                  // rank 0 is here
}

func newFolder(cfg Config) *saveFolder {
	return &saveFolder{
		saves: saves{known: map[int64]watch.Entry{}}, code: cfg.Code, path: path.Join(cfg.Replica.WorkingDir, path.Clean(cfg.Replica.CheckpointFolder)),
		mark: ".fermi-" + string(cfg.Replica.Name), owner: cfg.Steward, told: cfg.Ranks.Filed, clock: cfg.Clock, log: cfg.Log,
	}
}

// begin is a new generation, whose ranks have not started.
func (f *saves) begin(g link.Generation, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.first = now, g.FirstRank == 0
}

// note remembers what is complete and gives the newest step of it; 0: none. Of entries that have a number in
// their name only those count; without any the time of the last change does.
func (f *saves) note(list []watch.Entry) (newest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list = slices.DeleteFunc(slices.Clone(list), func(e watch.Entry) bool { return !e.Modified.After(f.since) })
	numbered := slices.ContainsFunc(list, func(e watch.Entry) bool { return e.Step > 0 })
	for _, e := range list {
		step := int64(e.Step)
		if !numbered {
			step = e.Modified.Unix()
		}
		if step > 0 && f.first {
			f.known[step], newest = e, max(newest, step)
		}
	}
	for len(f.known) > folderKnown {
		oldest := int64(0)
		for step := range f.known {
			if oldest == 0 || step < oldest {
				oldest = step
			}
		}
		delete(f.known, oldest)
	}
	return newest
}

func (f *saves) entry(step int64) (watch.Entry, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.known[step]
	return e, ok
}

// saveFolder is the folder that a script saves to.
type saveFolder struct {
	saves
	code  func() (base, sub string, err error) // where the code lies: sub in base, and nothing leads out of base
	path  string                               // of the folder, as seen from the code
	mark  string                               // of what is on its way into it
	owner *steward.Steward
	told  func(step int64) // the newest that is complete; 0: none
	clock clock.Clock
	log   *slog.Logger
}

// Open is the watched folder within the code, whatever links lie on the way: it is looked at, made and filled by the steward.
func (f *saveFolder) Open() (*steward.Folder, error) {
	base, sub, err := f.code()
	if err != nil {
		return nil, err
	}
	return f.owner.In(base).Below(path.Join(sub, f.path)), nil
}

// Watcher looks at the folder; nil: it is not there yet.
func (f *saveFolder) Watcher(quiet time.Duration) (*watch.Watcher, error) {
	root, err := f.Open()
	if err != nil {
		return nil, err
	}
	w, err := watch.New(watch.Config{Folder: root, Clock: f.clock, Quiet: quiet})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w, err
}

// watch tells the leader what is complete, until ctx ends.
func (f *saveFolder) watch(ctx context.Context) {
	var w *watch.Watcher
	defer func() {
		if w != nil {
			w.Close()
		}
	}()
	told := ""
	for ctx.Err() == nil {
		var err error
		if w == nil {
			w, err = f.Watcher(0)
		}
		if w != nil {
			var list []watch.Entry
			list, err = w.Look()
			f.told(f.note(list))
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			f.log.Warn("the folder with checkpoints can't be watched", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-f.clock.After(folderPause):
		}
	}
}

// lookLast takes what ranks that ended well left behind: nobody writes any more.
func (f *saveFolder) lookLast(reason string) {
	if f == nil || reason != engine.ReasonSucceeded {
		return
	}
	w, err := f.Watcher(1)
	if err != nil || w == nil {
		return
	}
	defer w.Close()
	if _, err := w.Look(); err == nil {
		list, _ := w.Look() // later by the clock, if only just: nothing has changed in between
		f.told(f.note(list))
	}
}

// write puts a complete entry into a tier, as the one part of a checkpoint. The save is there also when it failed.
func (f *saveFolder) write(ctx context.Context, repo *ckpt.Repo, job *rankset.Job) (*ckpt.Save, []ckpt.PartRef, error) {
	entry, ok := f.entry(job.Step)
	if !ok {
		return nil, nil, errors.New("the folder does not have it any more")
	}
	root, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	save, err := repo.Begin(ctx, uint64(job.Generation), uint64(job.Step), 1, job.Full)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, file := range entry.Files {
		names = append(names, file.Path)
	}
	slot, err := ckpt.FilesSlot(root, names, ckpt.Header{World: 1, Generation: uint64(job.Generation), Step: uint64(job.Step)})
	if err != nil {
		return save, nil, err
	}
	ref, err := save.Rank(ctx, slot)
	if err = errors.Join(err, slot.Close()); err != nil {
		return save, nil, err
	}
	if same, err := f.unchanged(entry); err != nil || !same {
		return save, nil, errors.Join(errors.New("it changed while it was read"), err)
	}
	return save, []ckpt.PartRef{ref}, nil
}

func (f *saveFolder) unchanged(e watch.Entry) (bool, error) {
	w, err := f.Watcher(0)
	if err != nil || w == nil {
		return false, err
	}
	defer w.Close()
	return w.Unchanged(e)
}

// nameFiles is a checkpoint of files on its way into the folder, in the ranks' memory.
const nameFiles = "files"

// pathOf is where an entry of the folder lies.
func (f *saveFolder) pathOf(name string) (string, error) {
	base, sub, err := f.code()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, sub, f.path, name), nil
}

// Place writes the files beside their place and moves them there when they are whole. What lies there is
// of another state, or torn.
func (f *saveFolder) Place(slot *ckpt.Slot, root *steward.Folder) (name string, err error) {
	tmp := f.mark
	if err := cmp.Or(root.RemoveAll(tmp), root.MkdirAll(tmp+"/new", 0o700)); err != nil {
		return "", err
	}
	defer root.RemoveAll(tmp)
	within := root.Below(tmp + "/new")
	if err := ckpt.WriteFiles(slot, within); err != nil {
		return "", err
	}
	found, err := within.List(".", watch.MaxEntries)
	if err != nil || len(found) != 1 {
		return "", errors.Join(fault.New(fault.Invalid, "Damaged", fault.T("The checkpoint is not of one file or folder.", "该检查点不是单个文件或目录。")), err)
	}
	name = found[0].Name()
	if err := root.Rename(name, tmp+"/old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	err = root.Rename(tmp+"/new/"+name, name)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		err = nil // another replica with the same folder was quicker
	}
	return name, err
}
