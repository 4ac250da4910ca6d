package order_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

// TestTournament compares with a look at everybody.
func TestTournament(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 40).Draw(t, "scores") // 0: does not take part
		beats := func(a, b int32) bool { return scores[a] > scores[b] || scores[a] == scores[b] && a < b }
		tour := order.NewTournament(len(scores), func(i int32) bool { return scores[i] > 0 }, beats)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(scores) > 0 && rapid.Bool().Draw(t, "changes") {
				i := rapid.IntRange(0, len(scores)-1).Draw(t, "who")
				scores[i] = rapid.IntRange(0, 5).Draw(t, "score")
				tour.Update(int32(i))
			}
			lo := int32(rapid.IntRange(0, len(scores)).Draw(t, "lo"))
			hi := int32(rapid.IntRange(int(lo), len(scores)).Draw(t, "hi"))
			want := int32(-1)
			for i := lo; i < hi; i++ {
				if scores[i] > 0 && (want < 0 || beats(i, want)) {
					want = i
				}
			}
			if got := tour.Best(lo, hi); got != want {
				t.Fatalf("best of %v from %d to %d: %d, want %d", scores, lo, hi, got, want)
			}
		}
	})
}
