package keeper

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/form"
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
// replica, and its path in $FERMI_RESUME_FROM: all ranks begin from the same. Where all ranks are of one launcher they
// begin from the newest that is whole there, whether or not a tier has it.

const (
	folderPause = time.Second            // how often the folder is looked at
	folderSoon  = 200 * time.Millisecond // and while something new lies there
	folderAgain = 5                      // looks at once, where an entry went away while it was linked
)

// folderKnown is how many complete entries are remembered: those that the leader may still ask for.
const folderKnown = 8

// saves are what a script saved in its folder.
type saves struct {
	mu    sync.Mutex
	known map[int64]found // by step, what was complete
	begun time.Time       // when the first ranks of this launcher started: what is older is a stranger's
	since time.Time       // when the ranks of the generation started: what is older, and does not show that it is whole, may be torn
	first bool            // rank 0 is here
	alone bool            // all ranks are
	ranks int             // of the task
	using map[int64]int   // what is being read
}

func newFolder(cfg Config) *saveFolder {
	f := &saveFolder{
		saves: saves{known: map[int64]found{}, using: map[int64]int{}}, code: cfg.Code, path: path.Join(cfg.Replica.WorkingDir, path.Clean(cfg.Replica.CheckpointFolder)),
		mark: ".fermi-" + string(cfg.Replica.Name), owner: cfg.Steward, told: cfg.Ranks.Filed, writers: cfg.Writers, anew: cfg.Replica.FolderAnew, clock: cfg.Clock, log: cfg.Log,
	}
	f.aside = aside{top: f.top, from: f.path, dir: asidePrefix + cfg.Replica.TaskID}
	return f
}

// begin is a new generation, whose ranks have not started.
func (f *saves) begin(g link.Generation, local int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.first, f.alone, f.ranks = now, g.FirstRank == 0, g.FirstRank == 0 && g.World <= local, g.World
	if f.begun.IsZero() {
		f.begun = now
	}
}

// steps gives entries that count their steps, the least first. Of entries that have a number in
// their name only those count; without any the time of the last change does.
func (f *saves) steps(list []watch.Entry) (out []stepped) {
	list = slices.DeleteFunc(slices.Clone(list), func(e watch.Entry) bool {
		return !e.Modified.After(f.since) && !(e.Whole && !f.begun.IsZero() && e.Modified.After(f.begun))
	})
	numbered := slices.ContainsFunc(list, func(e watch.Entry) bool { return e.Step > 0 })
	for _, e := range list {
		step := int64(e.Step)
		if !numbered {
			step = e.Modified.Unix()
		}
		if step > 0 {
			out = append(out, stepped{step, e})
		}
	}
	slices.SortStableFunc(out, func(a, b stepped) int { return cmp.Compare(a.step, b.step) })
	return out
}

type stepped struct {
	step int64
	watch.Entry
}

// unknown are the newest of what is complete that are not known as they are.
func (f *saves) unknown(list []watch.Entry) (out []stepped) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.steps(list)
	for _, e := range all[max(0, len(all)-asideNewest):] {
		if old, ok := f.known[e.step]; f.first && (!ok || !e.Within(&old.Entry)) {
			out = append(out, e)
		}
	}
	return out
}

// note remembers what is complete and gives the newest step of it; 0: none.
func (f *saves) note(list []watch.Entry) (newest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.steps(list) {
		if !f.first {
			continue
		}
		if old, ok := f.known[e.step]; !ok || !e.Within(&old.Entry) {
			f.known[e.step] = found{Entry: e.Entry}
		}
		newest = max(newest, e.step)
	}
	for step, known := range f.known { // what the script has removed meanwhile, and we have
		if known.aside != "" && f.first {
			newest = max(newest, step)
		}
	}
	return newest
}

// forget gives what need not stay any longer: all that is known but the newest, and of what is linked aside even fewer.
func (f *saves) forget() (drop []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	steps := slices.Sorted(maps.Keys(f.known))
	for i, step := range steps {
		known := f.known[step]
		if f.using[step] > 0 {
			continue
		}
		if known.aside != "" && i < len(steps)-asideNewest {
			drop = append(drop, known.aside)
			known.aside = ""
			f.known[step] = known
		}
		if i < len(steps)-folderKnown {
			delete(f.known, step)
		}
	}
	return drop
}

// hold keeps an entry as it is until done is called.
func (f *saves) hold(step int64) (e found, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok = f.known[step]; !ok {
		return e, nil, false
	}
	f.using[step]++
	return e, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.using[step]--
	}, true
}

// learn puts an entry that is linked aside in the place of what is known of its step; old is what was linked before.
func (f *saves) learn(step int64, e found) (old string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.known[step]; f.using[step] == 0 {
		old = before.aside
	}
	f.known[step] = e
	return old
}

// newest are the steps that are known to be whole, the newest first.
func (f *saves) newest() (steps []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for step, e := range f.known {
		if e.Whole || e.aside != "" {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	slices.Reverse(steps)
	return steps
}

func (f *saves) isAlone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alone
}

// saveFolder is the folder that a script saves to.
type saveFolder struct {
	saves
	aside   aside
	code    func() (base, sub string, err error) // where the code lies: sub in base, and nothing leads out of base
	path    string                               // of the folder, as seen from the code
	mark    string                               // of what is on its way into it
	owner   *steward.Steward
	told    func(step int64) // the newest that is complete; 0: none
	writers func() (open map[uint64]bool, all bool)
	anew    bool             // what earlier launchers left counts no more
	pending map[string]found // linked aside by name, though not known to be complete
	clock   clock.Clock
	log     *slog.Logger
}

// top is where the code lies.
func (f *saveFolder) top() (*steward.Folder, error) {
	base, sub, err := f.code()
	if err != nil {
		return nil, err
	}
	return f.owner.In(base).Below(sub), nil
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
	return f.watcher(quiet, false)
}

// watcher is Watcher's; still: nobody writes there any more.
func (f *saveFolder) watcher(quiet time.Duration, still bool) (*watch.Watcher, error) {
	root, err := f.Open()
	if err != nil {
		return nil, err
	}
	cfg := watch.Config{Folder: root, Clock: f.clock, Quiet: quiet, Still: still, Ranks: func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.ranks
	}}
	if f.writers != nil {
		cfg.Writers = func() (map[uint64]bool, bool) {
			open, all := f.writers()
			return open, all && f.isAlone()
		}
	}
	w, err := watch.New(cfg)
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
		pause := folderPause
		if w == nil {
			w, err = f.Watcher(0)
		}
		if w != nil {
			err = f.look(w)
			if w.Fresh() {
				pause = folderSoon
			}
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			f.log.Warn("the folder with checkpoints can't be watched", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-f.clock.After(pause):
		}
	}
}

// look takes what is complete, and tells of it. Where something went away while it was linked, the next may be complete.
func (f *saveFolder) look(w *watch.Watcher) (err error) {
	for range folderAgain {
		var list []watch.Entry
		list, err = w.Look()
		gone := false
		for _, e := range f.unknown(list) {
			if !f.link(e) {
				gone = true
				list = slices.DeleteFunc(list, func(o watch.Entry) bool { return o.Name == e.Name && !f.stays(w, o) })
			}
		}
		f.settlePending(w)
		f.told(f.note(list))
		for _, at := range f.forget() {
			f.dropped(f.aside.drop(at))
		}
		if !gone {
			break
		}
	}
	return err
}

func (f *saveFolder) dropped(err error) {
	if err != nil {
		f.log.Warn("what was linked aside can't be removed", "error", err)
	}
}

// link takes an entry aside. False: it is not as it was.
func (f *saveFolder) link(e stepped) bool {
	got, err := f.aside.take(e.Entry, e.step)
	switch {
	case err == nil:
		if old := f.learn(e.step, got); old != "" {
			f.dropped(f.aside.drop(old))
		}
		f.log.Info("a checkpoint of the script is linked aside", "name", e.Name, "step", e.step, "form", e.Form, "bytes", e.Bytes)
		return true
	case errors.Is(err, syscall.EXDEV), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EMLINK), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EROFS):
		return true // it is read where it lies
	}
	f.log.Info("a checkpoint of the script went away while it was linked aside", "name", e.Name, "error", err)
	return false
}

// stays says that an entry lies there as it was seen.
func (f *saveFolder) stays(w *watch.Watcher, e watch.Entry) bool {
	same, err := w.Unchanged(e)
	return err == nil && same
}

// settlePending links entries aside that may be complete. One that the script removes after it has begun a newer one was complete: so
// scripts keep their last few.
func (f *saveFolder) settlePending(w *watch.Watcher) {
	f.mu.Lock()
	list := f.steps(w.Pending())
	first := f.first
	f.mu.Unlock()
	if f.pending == nil {
		f.pending = map[string]found{}
	}
	for name, e := range f.pending {
		i := slices.IndexFunc(list, func(p stepped) bool { return p.Name == name })
		switch {
		case i >= 0 && e.Alike(&list[i].Entry):
			continue // it waits
		case w.Replaced(e.Entry) && e.Step > 0:
			if old := f.learn(int64(e.Step), e); old != "" {
				f.dropped(f.aside.drop(old))
			}
		default:
			f.dropped(f.aside.drop(e.aside))
		}
		delete(f.pending, name)
	}
	for _, p := range list[max(0, len(list)-asideNewest):] {
		if _, ok := f.pending[p.Name]; ok || !first {
			continue
		}
		if got, err := f.aside.take(p.Entry, p.step); err == nil {
			f.pending[p.Name] = got
		}
	}
}

// lookLast takes what ranks left behind that have ended: nobody writes any more. Where they did not end well only what shows
// by its format that it is whole counts.
func (f *saveFolder) lookLast(reason string) {
	if f == nil {
		return
	}
	f.sweep(reason == engine.ReasonSucceeded)
}

// sweep takes what lies in the folder, nobody writing any more; ended: all of it is as it was meant to be.
func (f *saveFolder) sweep(ended bool) {
	quiet := time.Duration(1)
	if !ended {
		quiet = math.MaxInt64
	}
	w, err := f.watcher(quiet, true)
	if err != nil || w == nil {
		return
	}
	defer w.Close()
	if _, err := w.Look(); err == nil {
		list, _ := w.Look() // later by the clock, if only just: nothing has changed in between
		if !ended {
			list = slices.DeleteFunc(list, func(e watch.Entry) bool { return !e.Whole })
		}
		for _, e := range f.unknown(list) {
			f.link(e)
		}
		f.told(f.note(list))
	}
}

// recall finds what an earlier launcher of the task has linked aside here, once.
func (f *saveFolder) recall() {
	f.mu.Lock()
	fresh := f.begun.IsZero()
	f.mu.Unlock()
	if !fresh {
		return
	}
	if f.anew {
		f.dropped(f.aside.clear())
		return
	}
	left, err := f.aside.left()
	if err != nil {
		f.log.Warn("what an earlier launcher has linked aside can't be read", "error", err)
	}
	for step, e := range left {
		f.learn(step, e)
	}
}

// write puts a complete entry into a tier, as the one part of a checkpoint. The save is there also when it failed.
func (f *saveFolder) write(ctx context.Context, repo *ckpt.Repo, job *rankset.Job) (*ckpt.Save, []ckpt.PartRef, error) {
	entry, done, ok := f.hold(job.Step)
	if !ok {
		return nil, nil, errors.New("the folder does not have it any more")
	}
	defer done()
	root, err := f.at(entry)
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
	if entry.aside != "" && entry.Mark.Name != "" {
		names = append(names, entry.Mark.Name)
	}
	slot, err := ckpt.FilesSlot(root, names, ckpt.Header{World: 1, Generation: uint64(job.Generation), Step: uint64(job.Step)})
	if err != nil {
		return save, nil, err
	}
	ref, err := save.Rank(ctx, slot)
	if err = errors.Join(err, slot.Close()); err != nil {
		return save, nil, err
	}
	if same, err := f.unchanged(entry, root); err != nil || !same {
		return save, nil, errors.Join(errors.New("it changed while it was read"), err)
	}
	return save, []ckpt.PartRef{ref}, nil
}

// at is the folder that an entry is read from.
func (f *saveFolder) at(e found) (*steward.Folder, error) {
	if e.aside == "" {
		return f.Open()
	}
	top, err := f.top()
	if err != nil {
		return nil, err
	}
	return top.Below(e.aside), nil
}

// unchanged says that an entry is what it was, where it is read from.
func (f *saveFolder) unchanged(e found, root *steward.Folder) (bool, error) {
	w, err := watch.New(watch.Config{Folder: root, Clock: f.clock})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer w.Close()
	if e.aside == "" {
		return w.Unchanged(e.Entry)
	}
	again, err := w.Again(e.Entry)
	return err == nil && again.Alike(&e.Entry), err
}

// bring has an entry lie in the folder, as it was.
func (f *saveFolder) bring(step int64) (e found, ok bool) {
	e, done, ok := f.hold(step)
	if !ok {
		return e, false
	}
	defer done()
	root, err := f.Open()
	if err != nil {
		return e, false
	}
	if same, err := f.unchanged(found{Entry: e.Entry, aside: "there"}, root); err == nil && same {
		return e, true
	}
	if e.aside == "" {
		return e, false
	}
	at, err := f.at(e)
	if err != nil {
		return e, false
	}
	if same, err := f.unchanged(e, at); err != nil || !same {
		return e, false
	}
	if err := f.aside.back(e, f.mark); err != nil {
		f.log.Warn("what was linked aside can't be put back", "name", e.Name, "error", err)
		return e, false
	}
	return e, true
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
	if err := cmp.Or(root.RemoveAll(tmp), root.MkdirAll(tmp+"/new", 0o700), root.MkdirAll(tmp+"/old", 0o700)); err != nil {
		return "", err
	}
	defer root.RemoveAll(tmp)
	within := root.Below(tmp + "/new")
	if err := ckpt.WriteFiles(slot, within); err != nil {
		return "", err
	}
	there, err := within.List(".", watch.MaxEntries)
	var names []string
	for _, info := range there {
		names = append(names, info.Name())
	}
	if name = form.Main(names); err != nil || name == "" {
		return "", errors.Join(fault.New(fault.Invalid, "Damaged", fault.T("The checkpoint is not of one file or folder.", "该检查点不是单个文件或目录。")), err)
	}
	return name, moveIn(root, tmp, names)
}

// isThere says that another replica with the same folder was quicker.
func isThere(err error) bool { return errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) }
