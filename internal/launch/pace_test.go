package launch

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/link"
)

func TestPaceIsOfStepsWhoseTimeIsKnown(t *testing.T) {
	var sum link.Pace
	report := func(t float64, steps int64, metrics map[string]float64) {
		addPace(&sum, &wordProgress{T: t, Metrics: metrics}, steps)
	}
	report(0, 1, map[string]float64{"samples": 1000}) // the first
	report(0.5, 2, map[string]float64{"samples": 64, "tokens": 10, "parameters": 100, "data_wait": 0.25})
	report(0.5, 1, map[string]float64{"samples": -5, "tokens": 10, "flops": 7, "parameters": 100})
	report(0.5, 0, map[string]float64{"samples": 1000}) // the same step again
	if want := (link.Pace{Steps: 3, Seconds: 1.5, Samples: 64, Tokens: 20, Flops: 6007, Waited: 0.25}); sum != want {
		t.Errorf("%+v, not %+v", sum, want)
	}
}
