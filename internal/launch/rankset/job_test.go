package rankset

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// persistRanks is two ranks of four that hold steps 8 and 9.
func persistRanks() *Set {
	r := newSet(2, func(link.Ranks) {})
	r.Begin(link.Generation{Number: 4, Membership: link.Membership{World: 4}})
	for i := range r.hold.held {
		r.hold.held[i] = []int64{8, 9}
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
	r.Conns.list[c] = struct{}{}
	r.Watermark(wishing(9, 8))
	if c.out.watermark != 9 || c.out.keep != 8 {
		t.Fatalf("%+v", c.out)
	}
	job, _ := r.WantedNow()
	r.Watermark(wishing(9, 9)) // comes after what is read now
	if again, _ := r.WantedNow(); again != job {
		t.Fatal("the slots of what is read were given up")
	}
	r.Persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	r.Finished(job)
	if p := r.said.Persisted; len(p) != 1 || p[0].Step != 8 || p[0].Error != "" || c.out.keep != 9 {
		t.Fatalf("%+v %+v", p, c.out)
	}
	next, _ := r.WantedNow()
	r.Persisted(next, link.TierLocal, nil, errors.New("full"))
	r.Finished(next)
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
	r.Watermark(order)
	job, _ := r.WantedNow()
	r.Persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	if p := r.said.Persisted; len(p) != 1 || p[0].Tier != link.TierLocal || p[0].Error != "" || r.keeping() != 8 {
		t.Fatalf("%+v, keeping %d", p, r.keeping())
	}
	r.Late()
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
		r.Watermark(wishing(9, 8))
		report(0, 8, map[string]float64{"loss": 0.5})
		report(1, 8, map[string]float64{"loss": 9})
		report(0, 9, map[string]float64{"loss": 0.25})
		job, _ := r.WantedNow()
		r.Persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
		if d := cmp.Diff(want, r.said.Persisted[0].Metrics); d != "" {
			t.Errorf("first rank %d: %s", first, d)
		}
	}
}

// TestAGenerationTakesWhatIsPersistedWithIt: nothing of an older one is told any more.
func TestAGenerationTakesWhatIsPersistedWithIt(t *testing.T) {
	r := persistRanks()
	r.Watermark(wishing(8, 8))
	job, _ := r.WantedNow()
	r.Begin(link.Generation{Number: 5, Membership: link.Membership{World: 4}, States: link.States{Restore: 8}})
	<-job.Over
	r.Persisted(job, link.TierLocal, []ckpt.PartRef{{Rank: 0}}, nil)
	if now, _ := r.WantedNow(); now != nil || len(r.said.Persisted) != 0 || r.keeping() != 0 {
		t.Fatalf("%+v", r.said.Persisted)
	}
}

// TestWhatIsGoneIsNotPersisted: a step that was given up is answered, not waited for; one launcher with all
// ranks takes the newest instead.
func TestWhatIsGoneIsNotPersisted(t *testing.T) {
	r := persistRanks()
	r.Watermark(wishing(9, 7))
	if p := r.said.Persisted; len(p) != 1 || p[0].Step != 7 || p[0].Error == "" || r.keeping() != 0 {
		t.Fatalf("%+v", p)
	}
	r = persistRanks()
	r.now.World, r.hold.all, r.hold.mark = 2, true, 9
	r.Watermark(wishing(9, 7))
	if r.keeping() != 9 {
		t.Error(r.keeping())
	}
}
