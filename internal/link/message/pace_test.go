package message

import (
	"math"
	"testing"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/pace"
)

func TestPaceIsCarriedAndChecked(t *testing.T) {
	p := pace.Pace{Steps: 3, Seconds: 1.5, Samples: 96, Tokens: 4096, Flops: 1e12, Waited: 0.25, Scale: 65536, Skipped: 3}
	r := RanksOf(Ranks{Generation: 1, Progress: Progress{Pace: p}}.Message())
	if r.Pace != p {
		t.Errorf("%+v", r.Pace)
	}
	if (Ranks{}).Message().GetPace() != nil {
		t.Error("a pace of nothing")
	}
	for name, bad := range map[string]*linkpb.Pace{
		"negative": {Steps: -1}, "no number": {Steps: 1, Seconds: math.NaN()}, "endless": {Steps: 1, Flops: math.Inf(1)},
	} {
		if CheckRanks(&linkpb.Ranks{Pace: bad}) == nil {
			t.Error(name, "passes")
		}
	}
	if err := CheckRanks(Ranks{Progress: Progress{Pace: p}}.Message()); err != nil {
		t.Error(err)
	}
}
