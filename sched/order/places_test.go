package order_test

import (
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

// TestPlaces: whatever comes and goes, those at a place are those that a list would say.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept order.Places[int]
		all := map[int][]uint32{}
		for k := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if who := rapid.IntRange(0, 40).Draw(t, "who"); all[who] != nil {
				kept.Take(who, places(all[who]))
				delete(all, who)
			} else {
				all[k+100] = rapid.SliceOfN(rapid.Uint32Range(1, 5), 1, 4).Draw(t, "at")
				kept.Put(k+100, places(all[k+100]))
				if k%2 == 0 { // another whose number is drawn
					if _, ok := all[k]; !ok {
						all[k] = []uint32{uint32(1 + k%5)}
						kept.Put(k, places(all[k]))
					}
				}
			}
			for n := range uint32(6) {
				var want []int
				for x, at := range all {
					for _, m := range at {
						if m == n {
							want = append(want, x)
						}
					}
				}
				got := slices.Clone(kept.At(n))
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("at %d: %v, want %v", n, got, want)
				}
			}
		}
	})
}

func places(at []uint32) iter.Seq2[uint32, int] {
	return func(yield func(uint32, int) bool) {
		for _, n := range at {
			if !yield(n, 0) {
				return
			}
		}
	}
}
