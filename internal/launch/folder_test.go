package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// folderLauncher has a shared store, and a script that saves to work/ckpt.
func folderLauncher(t *testing.T) (l *launcher, work string) {
	dir := t.TempDir()
	work = filepath.Join(dir, "code", "work")
	store, err := folder.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l = &launcher{
		dir: dir, memory: dir, steward: steward.New(nil), clock: clock.Real, log: slog.New(slog.DiscardHandler), ranks: newRanks(1, func(link.Ranks) {}), folder: newFolder(),
		replica: engine.Replica{
			Name: "task-1-worker-0-1", TaskID: "task-1", Ranks: 1, WorkingDir: "work", CheckpointFolder: "ckpt", Code: &api.Code{Folder: filepath.Join(dir, "code")},
		},
	}
	l.ranks.files = true
	l.stores = func() map[string]ckpt.Store { return map[string]ckpt.Store{link.TierShared: store} }
	if err := os.MkdirAll(filepath.Join(work, "ckpt", "step-7"), 0o700); err != nil {
		t.Fatal(err)
	}
	return l, work
}

// TestFilesThereAndBack: what ranks left in their folder is kept, and given back where the folder is lost or torn.
func TestFilesThereAndBack(t *testing.T) {
	l, work := folderLauncher(t)
	g := link.Generation{Number: 1, World: 4}
	l.ranks.begin(g)
	l.folder.begin(g, time.Now().Add(-time.Hour))
	for name, text := range map[string]string{"step-7/a": "seven", "step-7/b": "", "step-6": "six", "best": "of all"} {
		if err := os.WriteFile(filepath.Join(work, "ckpt", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.lookLast(engine.ReasonStopped)
	if l.ranks.said.Keeping.File != 0 {
		t.Error("who was ended may have been writing")
	}
	l.lookLast(engine.ReasonSucceeded)
	if got := l.ranks.said.Keeping.File; got != 7 {
		t.Fatal(got)
	}
	save, refs, err := l.write(t.Context(), link.TierShared, &persisting{generation: 1, step: 7, world: 4})
	if err != nil {
		t.Fatal(err)
	}
	repo, err := l.repo(link.TierShared, "task-1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := repo.Commit(t.Context(), ckpt.Proposal{Generation: 1, Step: 7, World: 1, Parts: refs})
	if err != nil {
		t.Fatal(err)
	}
	if err := save.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := link.Generation{Number: 2, World: 4, Restore: 7, Origin: &link.Origin{TaskID: "task-1", Name: m.Name()}}
	file := filepath.Join(work, "ckpt", "step-7", "a")
	for name, lose := range map[string]func() error{
		"nothing":    func() error { return nil },
		"the folder": func() error { return os.RemoveAll(filepath.Join(work, "ckpt")) },
		"the end":    func() error { return os.WriteFile(file, []byte("sev"), 0o600) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if err := l.resumeFiles(t.Context(), next); err != nil {
			t.Fatal(name, err)
		}
		if raw, err := os.ReadFile(file); err != nil || string(raw) != "seven" || l.resume != filepath.Join(work, "ckpt", "step-7") {
			t.Errorf("%s: %q %v %s", name, raw, err, l.resume)
		}
	}
	if left, err := filepath.Glob(filepath.Join(work, "ckpt", ".*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// TestWhichEntryIsTheNewest: by the number in its name, or by its time where none has one; not what is older than the
// generation, and only where rank 0 is.
func TestWhichEntryIsTheNewest(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(step uint64, seconds int64) watch.Entry {
		return watch.Entry{Step: step, Modified: time.Unix(seconds, 0)}
	}
	for name, c := range map[string]struct {
		list  []watch.Entry
		first int
		want  int64
	}{
		"by number": {[]watch.Entry{at(0, 1009), at(8, 1001), at(7, 1002)}, 0, 8},
		"by time":   {[]watch.Entry{at(0, 1009), at(0, 1003)}, 0, 1009},
		"torn":      {[]watch.Entry{at(9, 1000), at(7, 1001)}, 0, 7},
		"none":      {nil, 0, 0},
		"not here":  {[]watch.Entry{at(7, 1001)}, 4, 0},
	} {
		f := newFolder()
		f.begin(link.Generation{Number: 1, FirstRank: c.first}, begun)
		if got := f.note(c.list); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	f := newFolder()
	f.begin(link.Generation{}, begun)
	for step := range uint64(100) {
		f.note([]watch.Entry{at(step+1, 2000)})
	}
	if _, newest := f.entry(100); len(f.known) != folderKnown || !newest {
		t.Error(len(f.known))
	}
}

// TestALinkLeadsNowhere: the folder is within the code, whatever the script made of it.
func TestALinkLeadsNowhere(t *testing.T) {
	l, work := folderLauncher(t)
	outside := t.TempDir()
	if err := os.RemoveAll(filepath.Join(work, "ckpt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(work, "ckpt")); err != nil {
		t.Fatal(err)
	}
	root, err := l.savesFolder()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat("."); err == nil || root.Make() == nil {
		t.Error("it leads out of the code")
	}
}
