package launch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
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

func newFolder() *saves { return &saves{known: map[int64]watch.Entry{}} }

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

// savesFolder is the watched folder within the code, whatever links lie on the way: it is looked at, made and filled by the steward.
func (l *launcher) savesFolder() (*steward.Folder, error) {
	base, err := l.codeBase()
	if err != nil {
		return nil, err
	}
	return l.steward.In(base.base).Below(path.Join(base.sub, l.folderPath())), nil
}

// folderPath is the watched folder, as seen from the code.
func (l *launcher) folderPath() string {
	return path.Join(l.replica.WorkingDir, path.Clean(l.replica.CheckpointFolder))
}

// watcher looks at the folder; nil: it is not there yet.
func (l *launcher) watcher(quiet time.Duration) (*watch.Watcher, error) {
	folder, err := l.savesFolder()
	if err != nil {
		return nil, err
	}
	w, err := watch.New(watch.Config{Folder: folder, Clock: l.clock, Quiet: quiet})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w, err
}

// watchFolder tells the leader what is complete, until ctx ends.
func (l *launcher) watchFolder(ctx context.Context) {
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
			w, err = l.watcher(0)
		}
		if w != nil {
			var list []watch.Entry
			list, err = w.Look()
			l.ranks.filed(l.folder.note(list))
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			l.log.Warn("the folder with checkpoints can't be watched", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-l.clock.After(folderPause):
		}
	}
}

// lookLast takes what ranks that ended well left behind: nobody writes any more.
func (l *launcher) lookLast(reason string) {
	if l.replica.CheckpointFolder == "" || reason != engine.ReasonSucceeded {
		return
	}
	w, err := l.watcher(1)
	if err != nil || w == nil {
		return
	}
	defer w.Close()
	if _, err := w.Look(); err == nil {
		list, _ := w.Look() // later by the clock, if only just: nothing has changed in between
		l.ranks.filed(l.folder.note(list))
	}
}

// filed tells the leader of a newer complete entry.
func (r *ranks) filed(step int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step > r.said.Keeping.File && step > r.now.Restore {
		r.said.Keeping.File = step
		r.later(savedPause)
	}
}

// writeFiles puts a complete entry into a tier, as the one part of a checkpoint. The save is there also when it failed.
func (l *launcher) writeFiles(ctx context.Context, repo *ckpt.Repo, job *persisting) (*ckpt.Save, []ckpt.PartRef, error) {
	entry, ok := l.folder.entry(job.step)
	if !ok {
		return nil, nil, errors.New("the folder does not have it any more")
	}
	root, err := l.savesFolder()
	if err != nil {
		return nil, nil, err
	}
	save, err := repo.Begin(ctx, uint64(job.generation), uint64(job.step), 1, job.full)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, f := range entry.Files {
		names = append(names, f.Path)
	}
	slot, err := ckpt.FilesSlot(root, names, ckpt.Header{World: 1, Generation: uint64(job.generation), Step: uint64(job.step)})
	if err != nil {
		return save, nil, err
	}
	ref, err := save.Rank(ctx, slot)
	if err = errors.Join(err, slot.Close()); err != nil {
		return save, nil, err
	}
	if same, err := l.unchanged(entry); err != nil || !same {
		return save, nil, errors.Join(errors.New("it changed while it was read"), err)
	}
	return save, []ckpt.PartRef{ref}, nil
}

func (l *launcher) unchanged(e watch.Entry) (bool, error) {
	w, err := l.watcher(0)
	if err != nil || w == nil {
		return false, err
	}
	defer w.Close()
	return w.Unchanged(e)
}

// resumeFiles puts the checkpoint that a generation starts from into the folder, if it is not there, and
// remembers its path for the ranks.
func (l *launcher) resumeFiles(ctx context.Context, g link.Generation) error {
	if e, ok := l.folder.entry(g.Restore); ok {
		if same, err := l.unchanged(e); err == nil && same {
			return l.resumeFrom(e.Name)
		}
	}
	tiers, err := l.nearestFirst(ctx, *g.Origin)
	if err != nil {
		return err
	}
	memory := l.slots().folder
	f, err := memory.Replace(nameFiles, 0o600)
	if err != nil {
		return noMemory(err)
	}
	defer memory.Remove(nameFiles)
	if _, err := restoreNearest(ctx, tiers, g.Origin.Name, ckpt.Target{World: 1, Generation: uint64(g.Number), File: f}); err != nil {
		return errors.Join(err, f.Close())
	}
	slot, err := ckpt.ReadSlot(f, nil)
	if err != nil {
		return err
	}
	defer slot.Close()
	folder, err := l.savesFolder()
	if err != nil {
		return err
	}
	if err := folder.Make(); err != nil {
		return err
	}
	name, err := l.placeFiles(slot, folder)
	if err == nil {
		err = l.resumeFrom(name)
	}
	return err
}

// nameFiles is a checkpoint of files on its way into the folder, in the ranks' memory.
const nameFiles = "files"

func (l *launcher) resumeFrom(name string) error {
	base, err := l.codeBase()
	if err == nil {
		l.resume = filepath.Join(base.at(), l.folderPath(), name)
	}
	return err
}

// placeFiles writes the files beside their place and moves them there when they are whole. What lies there is
// of another state, or torn.
func (l *launcher) placeFiles(slot *ckpt.Slot, root *steward.Folder) (name string, err error) {
	tmp := ".fermi-" + string(l.replica.Name)
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
