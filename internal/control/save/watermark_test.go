package save

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAtMostOneStepIsLost plays ranks that save after every step, meet in every step as a collective has them, and
// are told the watermark some time before their next save: wherever one of them dies, the others' memory and its own
// (the launcher's) have the step before the newest that any has done, by the rules of slots.
func TestAtMostOneStepIsLost(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := parted("", "")
		done, told := make([]int64, len(s.Members)), make([]int64, len(s.Members))
		for i := range s.Members {
			s.Members[i].Said.Held = nil
		}
		for range 200 {
			i := rng.IntN(len(done))
			if done[i] > slices.Min(done) {
				continue // it waits for the others
			}
			if told[i] = s.Members.HeldByAll(); rng.IntN(2) == 0 { // or a little late
				told[i] = max(told[i]-1, 0)
			}
			done[i]++
			m := &s.Members[i]
			held := slices.DeleteFunc(slices.Clone(m.Said.Held), func(step int64) bool { return len(m.Said.Held) == 3 && step == m.Said.Held[0] && step < told[i] })
			if len(held) == 3 {
				t.Fatalf("seed %d: no slot for step %d of %v, watermark %d", seed, done[i], held, told[i])
			}
			m.Said.Held = append(held, done[i])
			if newest := slices.Max(done); main(s).Restorable() < newest-1 {
				t.Fatalf("seed %d: step %d was done, and %d is all that is left", seed, newest, main(s).Restorable())
			}
		}
	}
}

// TestNoOfferIsAnsweredEarly: a launcher that has not spoken to this leader may still hear the last one's watermark.
func TestNoOfferIsAnsweredEarly(t *testing.T) {
	s := parted("", "")
	for i := range s.Members {
		s.Members[i].Said.Offer, s.Members[i].Said.Mark, s.Members[i].Said.Fresh = 1, int64(i), i > 0
	}
	newest := int64(len(s.Members) - 1)
	if step, offers := watermark(s.Members); step < newest || offers != 0 {
		t.Fatalf("step %d, %d offers", step, offers)
	}
	s.Members[0].Said.Fresh = true
	if step, offers := watermark(s.Members); step < newest || offers != int64(len(s.Members)) {
		t.Fatalf("step %d, %d offers", step, offers)
	}
}
