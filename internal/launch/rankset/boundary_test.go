package rankset

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestASaveBeforeAnotherGeneration: what is held is frozen behind the save that ranks were asked for; a fault meanwhile,
// or a save that does not come, freezes what there is.
func TestASaveBeforeAnotherGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(r *Set)
		frozen bool
	}{
		"nothing yet":      {func(*Set) {}, false},
		"one of two saves": {func(r *Set) { r.take(0, word.Word{Saved: &word.Saved{Step: 8}}) }, false},
		"both save": {func(r *Set) {
			r.take(0, word.Word{Saved: &word.Saved{Step: 8}})
			r.take(1, word.Word{Saved: &word.Saved{Step: 8}})
		}, true},
		"a node is lost":           {func(r *Set) { r.freezes(1, true, false) }, true},
		"it stays as it is":        {func(r *Set) { r.freezes(1, false, false) }, false},
		"asked again":              {func(r *Set) { r.freezes(1, true, true) }, false},
		"nobody saves":             {func(*Set) { time.Sleep(boundaryLeast + time.Second) }, true},
		"nobody saves for a while": {func(*Set) { time.Sleep(boundaryLeast - time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSet(2, func(link.Ranks) {})
				r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 4}})
				rank := &rankConn{wake: make(chan struct{}, 1)}
				r.Conns.list[rank] = struct{}{}
				for local := range 2 {
					r.take(local, word.Word{Saved: &word.Saved{Step: 7}})
				}
				r.freezes(1, true, true)
				if rank.out.checkpoint == nil {
					t.Error("it is not asked for a save")
				}
				c.then(r)
				synctest.Wait()
				r.mu.Lock()
				if r.report(); r.said.Frozen != c.frozen {
					t.Error("frozen:", r.said.Frozen)
				}
				r.mu.Unlock()
				time.Sleep(boundaryMost) // whatever is left of timers
			})
		})
	}
}

// TestASaveIsWaitedForAsLongAsStepsTake, within reason.
func TestASaveIsWaitedForAsLongAsStepsTake(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{0.1: boundaryLeast, 4: 20 * time.Second, 900: boundaryMost} {
		if got := boundaryPatience(link.Pace{Steps: 3, Seconds: 3 * seconds}); got != want {
			t.Errorf("steps of %g s: %v", seconds, got)
		}
	}
}
