package keeper

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// folderKeeper has a shared store, and a script that saves to work/ckpt.
func folderKeeper(t *testing.T) (k *Keeper, work string) {
	dir := t.TempDir()
	work = filepath.Join(dir, "code", "work")
	store, err := folder.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ranks := rankset.New(rankset.Config{Ranks: 1, Tell: func(link.Ranks) {}})
	k = New(Config{
		Ranks: ranks, Slots: func() shm.Slots { return slotsIn(dir) }, Code: func() (string, string, error) { return filepath.Join(dir, "code"), "", nil },
		Steward: steward.New(nil), Clock: clock.Real, Log: slog.New(slog.DiscardHandler),
		Replica: engine.Replica{Name: "task-1-worker-0-1", TaskID: "task-1", Ranks: 1, WorkingDir: "work", FolderSaves: engine.FolderSaves{CheckpointFolder: "ckpt"}},
	})
	k.tiers.stores = func() map[string]ckpt.Store { return map[string]ckpt.Store{link.TierShared: store} }
	if err := os.MkdirAll(filepath.Join(work, "ckpt", "step-7"), 0o700); err != nil {
		t.Fatal(err)
	}
	return k, work
}

// TestFilesThereAndBack: what ranks left in their folder is kept, and given back where the folder is lost or torn.
func TestFilesThereAndBack(t *testing.T) {
	k, work := folderKeeper(t)
	g := link.Generation{Number: 1, Membership: link.Membership{World: 4}}
	k.ranks.Begin(g)
	k.Folder.begin(g, 1, time.Now().Add(-time.Hour))
	for name, text := range map[string]string{"step-7/a": "seven", "step-7/b": "", "step-6": "six", "best": "of all"} {
		if err := os.WriteFile(filepath.Join(work, "ckpt", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var filed int64
	k.Folder.told = func(step int64) { filed = step }
	k.Folder.lookLast(engine.ReasonStopped)
	if filed != 0 {
		t.Error("who was ended may have been writing")
	}
	k.Folder.lookLast(engine.ReasonSucceeded)
	if filed != 7 {
		t.Fatal(filed)
	}
	save, refs, err := k.persister.write(t.Context(), link.TierShared, &rankset.Job{Generation: 1, Step: 7, World: 4})
	if err != nil {
		t.Fatal(err)
	}
	repo, err := k.tiers.repo(link.TierShared, "task-1")
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
	next := link.Generation{Number: 2, Membership: link.Membership{World: 4}, States: link.States{Restore: 7, Origin: &link.Origin{TaskID: "task-1", Name: m.Name()}}}
	file := filepath.Join(work, "ckpt", "step-7", "a")
	for name, lose := range map[string]func() error{
		"nothing":    func() error { return nil },
		"the folder": func() error { return os.RemoveAll(filepath.Join(work, "ckpt")) },
		"the end":    func() error { return os.WriteFile(file, []byte("sev"), 0o600) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if err := k.resumeFiles(t.Context(), next); err != nil {
			t.Fatal(name, err)
		}
		if raw, err := os.ReadFile(file); err != nil || string(raw) != "seven" || k.resume != filepath.Join(work, "ckpt", "step-7") {
			t.Errorf("%s: %q %v %s", name, raw, err, k.resume)
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
		f := &saves{known: map[int64]found{}, using: map[int64]int{}}
		f.begin(link.Generation{Number: 1, Membership: link.Membership{FirstRank: c.first}}, 1, begun)
		if got := f.note(c.list); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	f := &saves{known: map[int64]found{}, using: map[int64]int{}}
	f.begin(link.Generation{}, 1, begun)
	for step := range uint64(100) {
		f.note([]watch.Entry{at(step+1, 2000)})
		f.forget()
	}
	if _, newest := f.known[100]; len(f.known) != folderKnown || !newest {
		t.Error(len(f.known))
	}
}

// TestALinkLeadsNowhere: the folder is within the code, whatever the script made of it.
func TestALinkLeadsNowhere(t *testing.T) {
	k, work := folderKeeper(t)
	outside := t.TempDir()
	if err := os.RemoveAll(filepath.Join(work, "ckpt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(work, "ckpt")); err != nil {
		t.Fatal(err)
	}
	root, err := k.Folder.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat("."); err == nil || root.Make() == nil {
		t.Error("it leads out of the code")
	}
}
