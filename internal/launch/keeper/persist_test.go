package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestRestoreNearest takes the nearest whole copy, and what is damaged is dropped.
func TestRestoreNearest(t *testing.T) {
	dir := t.TempDir()
	k := New(Config{Replica: engine.Replica{TaskID: "task-1", Ranks: 1}, Slots: func() shm.Slots { return slotsIn(dir) }, Clock: clock.Real, Log: quiet})
	stores := map[string]ckpt.Store{}
	k.tiers.stores = func() map[string]ckpt.Store { return stores }
	for _, tier := range []string{link.TierLocal, link.TierShared} {
		f, err := folder.Open(filepath.Join(dir, tier))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		stores[tier] = f
	}
	name := k.checkpoint(t, dir)
	var repos []stored
	for _, tier := range []string{link.TierLocal, link.TierShared} {
		repo, err := k.tiers.repo(tier, "task-1")
		if err != nil {
			t.Fatal(err)
		}
		repos = append(repos, stored{tier, repo})
	}
	to := ckpt.Target{Rank: 0, World: 1, Generation: 2, Path: slotPath(dir, 0, 1)}
	packs, err := filepath.Glob(filepath.Join(dir, link.TierLocal, "objects/task-1/packs/*/*"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	for _, c := range []struct {
		tier   string
		damage func()
	}{
		{link.TierLocal, func() {}},
		{link.TierShared, func() {
			if err := os.WriteFile(packs[0], []byte("garbage"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.damage()
		if from, err := restoreNearest(t.Context(), repos, name, to); err != nil || from != c.tier {
			t.Fatal(from, err)
		}
		slot, err := ckpt.OpenSlot(to.Path)
		if err != nil || slot.Header.Step != 5 || slot.Header.Generation != 2 {
			t.Fatal(err)
		}
		slot.Close()
	}
	if _, err := repos[0].repo.Manifest(t.Context(), name); err == nil {
		t.Error("the damaged one is still there, and the next save would rely on it")
	}
	if _, err := restoreNearest(t.Context(), repos[:1], name, to); !final(err) {
		t.Errorf("what is nowhere is refused: %v", err)
	}
}

// checkpoint makes one of a slot, in both tiers, and gives its name.
func (k *Keeper) checkpoint(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/slot")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rank-0.0"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, tier := range []string{link.TierLocal, link.TierShared} {
		save, refs, err := k.persister.write(context.Background(), tier, &rankset.Job{Generation: 1, Step: 5, World: 1})
		if err != nil {
			t.Fatal(err)
		}
		repo, err := k.tiers.repo(tier, "task-1")
		if err != nil {
			t.Fatal(err)
		}
		m, err := repo.Commit(t.Context(), ckpt.Proposal{Generation: 1, Step: 5, World: 1, Parts: slices.Clone(refs)})
		if err := errors.Join(err, save.End(t.Context())); err != nil {
			t.Fatal(err)
		}
		name = m.Name()
	}
	return name
}
