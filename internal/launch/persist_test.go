package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// persistRanks is two ranks of four that hold steps 8 and 9.
func persistRanks() *ranks {
	r := newRanks(2, func(link.Ranks) {})
	r.begin(link.Generation{Number: 4, World: 4})
	for i := range r.held {
		r.held[i] = []int64{8, 9}
	}
	return r
}

func wishing(step, persist int64) link.Watermark {
	return link.Watermark{Generation: 4, Step: step, Persist: &link.Persist{Step: persist, Tiers: []string{link.TierLocal}}}
}

// TestWhatIsReadIsKept: ranks are told what to keep before anything newer counts, and until it was read.
func TestWhatIsReadIsKept(t *testing.T) {
	r := persistRanks()
	c := &rankConn{wake: make(chan struct{}, 1)}
	r.conns[c] = struct{}{}
	r.watermark(wishing(9, 8))
	if c.out.watermark != 9 || c.out.keep != 8 {
		t.Fatalf("%+v", c.out)
	}
	job, _ := r.wantedNow()
	r.watermark(wishing(9, 9)) // comes after what is read now
	if again, _ := r.wantedNow(); again != job {
		t.Fatal("the slots of what is read were given up")
	}
	r.persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	r.finished(job)
	if p := r.said.Persisted; len(p) != 1 || p[0].Step != 8 || p[0].Error != "" || c.out.keep != 9 {
		t.Fatalf("%+v %+v", p, c.out)
	}
	next, _ := r.wantedNow()
	r.persisted(next, link.TierLocal, nil, errors.New("full"))
	r.finished(next)
	if p := r.said.Persisted; len(p) != 1 || p[0].Step != 9 || p[0].Error != "full" || c.out.keep != 0 {
		t.Fatalf("%+v %+v", p, c.out)
	}
}

// TestASlowTierKeepsNoOtherWaiting: what is on the disk is told while the same step is on its way to the shared store, and
// stays told when the time is over before it gets there.
func TestASlowTierKeepsNoOtherWaiting(t *testing.T) {
	r := persistRanks()
	order := wishing(9, 8)
	order.Persist.Tiers = []string{link.TierLocal, link.TierShared}
	r.watermark(order)
	job, _ := r.wantedNow()
	r.persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	if p := r.said.Persisted; len(p) != 1 || p[0].Tier != link.TierLocal || p[0].Error != "" || r.keeping() != 8 {
		t.Fatalf("%+v, keeping %d", p, r.keeping())
	}
	r.late()
	p := r.said.Persisted
	if len(p) != 2 || p[0].Tier != link.TierLocal || p[0].Error != "" || p[1].Tier != link.TierShared || p[1].Error != errTooLate.Error() {
		t.Fatalf("%+v", p)
	}
}

// TestACheckpointHasItsMetrics: what rank 0 had reported by its step, also after it was saved, and nothing later.
func TestACheckpointHasItsMetrics(t *testing.T) {
	for first, want := range map[int]map[string]float64{0: {"loss": 0.5, "val": 3}, 2: nil} {
		r := persistRanks()
		r.now.FirstRank = first
		report := func(local int, step int64, metrics map[string]float64) {
			r.take(local, word.Word{Progress: &word.Progress{Step: step, Metrics: metrics}})
		}
		report(0, 7, map[string]float64{"loss": 0.75, "val": 3})
		r.watermark(wishing(9, 8))
		report(0, 8, map[string]float64{"loss": 0.5})
		report(1, 8, map[string]float64{"loss": 9})
		report(0, 9, map[string]float64{"loss": 0.25})
		job, _ := r.wantedNow()
		r.persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
		if d := cmp.Diff(want, r.said.Persisted[0].Metrics); d != "" {
			t.Errorf("first rank %d: %s", first, d)
		}
	}
}

// TestAGenerationTakesWhatIsPersistedWithIt: nothing of an older one is told any more.
func TestAGenerationTakesWhatIsPersistedWithIt(t *testing.T) {
	r := persistRanks()
	r.watermark(wishing(8, 8))
	job, _ := r.wantedNow()
	r.begin(link.Generation{Number: 5, World: 4, Restore: 8})
	<-job.over
	r.persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	if now, _ := r.wantedNow(); now != nil || len(r.said.Persisted) != 0 || r.keeping() != 0 {
		t.Fatalf("%+v", r.said.Persisted)
	}
}

// TestWhatIsGoneIsNotPersisted: a step that was given up is answered, not waited for; one launcher with all
// ranks takes the newest instead.
func TestWhatIsGoneIsNotPersisted(t *testing.T) {
	r := persistRanks()
	r.watermark(wishing(9, 7))
	if p := r.said.Persisted; len(p) != 1 || p[0].Step != 7 || p[0].Error == "" || r.keeping() != 0 {
		t.Fatalf("%+v", p)
	}
	r = persistRanks()
	r.now.World, r.mark = 2, 9
	r.watermark(wishing(9, 7))
	if r.keeping() != 9 {
		t.Error(r.keeping())
	}
}

// TestRestoreNearest takes the nearest whole copy, and what is damaged is dropped.
func TestRestoreNearest(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(keepConfig{Replica: engine.Replica{TaskID: "task-1", Ranks: 1}, Slots: func() slots { return slotsIn(dir) }, Clock: clock.Real, Log: quiet})
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
func (k *keeper) checkpoint(t *testing.T, dir string) string {
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
		save, refs, err := k.persister.write(context.Background(), tier, &persisting{generation: 1, step: 5, world: 1})
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
