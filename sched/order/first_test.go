package order_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fermi-cluster/fermi/sched/order"
)

// TestLeast: the least of many are those that sorting all gives, also where the first of them are no sample of the rest.
func TestLeast(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		all := make([]int, rnd.IntN(3000))
		for i := range all {
			switch round % 3 {
			case 0:
				all[i] = rnd.IntN(1 << 20)
			case 1:
				all[i] = rnd.IntN(3)
			case 2:
				all[i] = i % 16 * 1000
			}
		}
		want := slices.Sorted(slices.Values(all))
		most := rnd.IntN(200)
		if got := order.Least(all, most, cmp.Compare[int]); !slices.Equal(got, want[:min(len(want), most)]) {
			t.Fatalf("round %d, the least %d of %d: %v", round, most, len(want), got)
		}
	}
}
