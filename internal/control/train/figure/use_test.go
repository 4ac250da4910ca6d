package figure

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
)

func TestBytesBetweenZonesAreEstimated(t *testing.T) {
	tk := &api.TrainingTask{}
	tk.Spec.Framework = "pytorch-ddp"
	in := func(zone string) gang.Member {
		return gang.Member{Stand: gang.Stand{Zone: zone}, Ranking: gang.Ranking{Ranks: 2}}
	}
	s := Turn{Terms: gang.Terms{Task: tk}, Members: gang.Members{in("a"), in("b")}}
	s.After = &api.TrainingTaskStatus{Pace: &api.Pace{StepTime: api.Duration(time.Second)}}
	if s.crossing() != 0 {
		t.Error("without parameters")
	}
	s.Members[1].Said.Parameters = 1000
	if got := s.crossing(); got != 2*2*3*1000 { // two links of the ring, 2 × 3/4 × 4 bytes
		t.Error(got)
	}
	s.Task.Spec.Strategy = &api.Strategy{Tensor: 2}
	if s.crossing() != 0 {
		t.Error("of tensor parallel")
	}
	s.Task.Spec.Strategy, s.Members[1].Zone = nil, "a"
	if s.crossing() != 0 {
		t.Error("within one zone")
	}
}
