package train

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
)

func TestWhatIsUsedIsOfAllLaunchers(t *testing.T) {
	y := newStory(t)
	for i := range y.said {
		y.said[i].Use = link.Use{CPU: 30, Seconds: 10, Memory: 1 << 20, Devices: 2, Busy: 9, Watched: 10, DeviceMemory: 5, DeviceTotal: 10}
		y.said[i].Saves = link.Saves{Begun: 4, Whole: 3}
	}
	y.turn(time.Second)
	n := len(y.said)
	want := &api.Use{
		At: now.Add(time.Second), Ranks: n, Cores: 3 * float64(n), Memory: api.Bytes(n) << 20, Devices: 2 * n, DeviceUse: 0.9,
		DeviceMemory: api.Bytes(5 * n), DeviceTotal: api.Bytes(10 * n), Saves: int64(4 * n), WholeSaves: int64(3 * n),
	}
	if d := cmp.Diff(want, y.task.Status.Use, cmpopts.EquateApprox(0, 1e-9), cmpopts.IgnoreFields(api.Use{}, "CPUUse")); d != "" {
		t.Error(d)
	}
	if y.turn(2 * time.Second); y.last.commit || y.last.wake == 0 {
		t.Errorf("written again at once, or never: commit %v, wake %s", y.last.commit, y.last.wake)
	}
	y.said[0].Saves.Begun++
	if y.turn(2 * time.Minute); y.task.Status.Use.Saves != int64(4*n+1) {
		t.Errorf("%+v", y.task.Status.Use)
	}
}

func TestScalingIsAgainstTheSmallestWorld(t *testing.T) {
	c := New(Config{})
	c.bases = map[string]base{}
	small := task(api.PhaseRunning, 1, 1)
	small.Meta.Name, small.Meta.DisplayName = "small", "same"
	if c.baseOf(small) != nil {
		t.Error("a base of nothing")
	}
	small.Status.Pace, small.Status.Use = &api.Pace{SamplesPerSecond: 100}, &api.Use{Ranks: 1}
	c.noteBase(small)
	large := task(api.PhaseRunning, 1, 1)
	large.Meta.DisplayName = "same"
	large.Status.Pace, large.Status.Use = &api.Pace{SamplesPerSecond: 360}, &api.Use{Ranks: 4}
	c.noteBase(large) // a larger world is no base
	s := seen{task: large, base: c.baseOf(large)}
	if d := cmp.Diff(&api.Scaling{Efficiency: 0.9, BaseRanks: 1, BaseTask: "small"}, s.scaling(&plan{status: large.Status}, 4), cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	if s.base = c.baseOf(small); s.scaling(&plan{status: small.Status}, 1) != nil {
		t.Error("the smallest is compared with itself")
	}
	other := task(api.PhaseRunning, 1, 1)
	other.Meta.DisplayName, other.Status.Pace = "another", &api.Pace{SamplesPerSecond: 1}
	if c.baseOf(other) != nil {
		t.Error("another work is compared with")
	}
	for i := range maxBases + 5 {
		other.Meta.DisplayName, other.Status.Use = fmt.Sprint("t", i), &api.Use{Ranks: 1}
		c.noteBase(other)
	}
	if len(c.bases) > maxBases {
		t.Errorf("%d are remembered", len(c.bases))
	}
}

func TestBytesBetweenZonesAreEstimated(t *testing.T) {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Framework = "pytorch-ddp"
	s := seen{task: tk, members: []member{{zone: "a", ranks: 2}, {zone: "b", ranks: 2}}}
	p := &plan{status: api.TrainingTaskStatus{Pace: &api.Pace{StepTime: api.Duration(time.Second)}}}
	if s.crossing(p) != 0 {
		t.Error("without parameters")
	}
	s.members[1].said.Parameters = 1000
	if got := s.crossing(p); got != 2*2*3*1000 { // two links of the ring, 2 × 3/4 × 4 bytes
		t.Error(got)
	}
	s.task.Spec.Strategy = &api.Strategy{Tensor: 2}
	if s.crossing(p) != 0 {
		t.Error("of tensor parallel")
	}
	s.task.Spec.Strategy, s.members[1].zone = nil, "a"
	if s.crossing(p) != 0 {
		t.Error("within one zone")
	}
}

// checkUsed: what is written down can be, only of what runs or just ended, and no oftener than it must.
func checkUsed(t *rapid.T, before api.TrainingTaskStatus, p plan) {
	u := p.status.Use
	if u == nil || u == before.Use {
		return
	}
	if u.Ranks < 1 || u.Cores <= 0 || u.WholeSaves > u.Saves || u.DeviceUse > 1 || !p.commit {
		t.Fatalf("%+v", u)
	}
	ended := p.status.Phase.Finished() && !before.Phase.Finished()
	if p.status.Phase != api.PhaseRunning && !ended || before.Use != nil && !ended && u.At.Sub(before.Use.At) < useFirst {
		t.Fatalf("written in %s after %s: %+v", p.status.Phase, before.Phase, u)
	}
}
