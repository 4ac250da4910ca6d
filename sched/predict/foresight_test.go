package predict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever the forecast's own error is, eight of ten starts lie within what is told.
func TestForesight(t *testing.T) {
	for name, error := range map[string]func(r *rand.Rand) float64{
		"early":   func(r *rand.Rand) float64 { return .4 * r.Float64() },
		"late":    func(r *rand.Rand) float64 { return 1 + 5*r.Float64() },
		"skewed":  func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) },
		"at once": func(r *rand.Rand) float64 { return float64(r.IntN(2)) },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var f Foresight
		now := time.Unix(0, 0)
		within, all := 0, 0
		for i := range 5000 {
			told := Telling{now, time.Duration(1+r.IntN(1000)) * time.Minute}
			waited := time.Duration(error(r) * float64(told.Wait))
			early, late, ok := f.Marks(told.Wait)
			if ok != (i >= foresightFrom) {
				t.Fatal(name, i, ok)
			}
			if early > late {
				t.Fatal(name, early, late)
			}
			if i > foresightKept {
				all++
				// A thousandth is what the ratios are rounded by.
				if slack := told.Wait / 500; waited >= early-slack && waited <= late+slack {
					within++
				}
			}
			f.Add(told, told.At.Add(waited))
			now = now.Add(time.Minute)
		}
		if share := float64(within) / float64(all); share < .75 || name != "at once" && share > .85 {
			t.Errorf("%s: %.3f within", name, share)
		}
		if len(f.ratios) != foresightKept {
			t.Error(name, len(f.ratios))
		}
	}
	var f Foresight
	f.Add(Telling{time.Unix(100, 0), 0}, time.Unix(0, 0)) // a clock that went back, and nothing to divide by
	if f.ratios[0] != 0 {
		t.Error(f.ratios)
	}
}
