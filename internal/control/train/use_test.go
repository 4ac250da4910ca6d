package train

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/engine"
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
	if p.status.Phase != api.PhaseRunning && !ended || before.Use != nil && !ended && u.At.Sub(before.Use.At) < time.Minute {
		t.Fatalf("written in %s after %s: %+v", p.status.Phase, before.Phase, u)
	}
}

// scaled is how a task's pace is compared, after a turn of figures.
func scaled(tk *api.TrainingTask, base *figure.Base) *api.Scaling {
	after := tk.Status
	after.StartedAt, after.Use = &now, nil
	f := figure.Turn{Terms: gang.Terms{Task: tk}, Before: &tk.Status, After: &after, Now: now}
	for i := range tk.Status.Use.Ranks {
		m := at(i, 1, engine.StateRunning, true, nil)
		m.Said.Use = link.Use{CPU: 1, Seconds: 1}
		f.Members = append(f.Members, m)
	}
	f.Use(base)
	return after.Use.Scaling
}

func TestScalingIsAgainstTheSmallestWorld(t *testing.T) {
	c := newMemory()
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
	if d := cmp.Diff(&api.Scaling{Efficiency: 0.9, BaseRanks: 1, BaseTask: "small"}, scaled(large, c.baseOf(large)), cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	if scaled(small, c.baseOf(small)) != nil {
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
