package train

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// tuning plays a task with checkpoint.auto, two launchers and steps of 200 ms.
func tuning(t *testing.T) *story {
	y := newStory(t)
	y.task.Spec.Checkpoint = &api.Checkpoints{Auto: true}
	for i := range y.said {
		y.said[i].SteppedAt, y.said[i].Pace = now, link.Pace{Steps: 10, Seconds: 2}
	}
	return y
}

func TestTheIntervalIsTunedWithThePace(t *testing.T) {
	y := tuning(t)
	y.turn(time.Second)
	want := []api.SaveInterval{{Tier: api.MemoryTier, Steps: 50, Every: api.Duration(10 * time.Second), Why: fault.T("Every %d steps, until it was timed how long a save stalls training.", "每 %d 步保存一次，直到测得保存使训练停顿的时间。", 50)}}
	if d := cmp.Diff(want, y.task.Status.Intervals); d != "" {
		t.Fatal(d)
	}
	y.said[1].Saves.Stall = 0.012 // the slowest counts
	y.said[0].Saves.Stall = 0.001
	if y.turn(2 * time.Second); y.last.commit {
		t.Error("written again at once")
	}
	y.turn(20 * time.Second)
	got := y.task.Status.Interval(api.MemoryTier)
	// Young: √(2 × 12 ms × 15 days of two nodes + 2 min) = 176 s
	if got == nil || got.Steps < 850 || got.Steps > 900 || got.Every != api.Duration(got.Steps)*api.Duration(200*time.Millisecond) {
		t.Fatalf("%+v", got)
	}
	y.said[1].Saves.Stall = 0.014
	if y.turn(40 * time.Second); y.task.Status.Interval(api.MemoryTier).Steps != got.Steps || !strings.Contains(y.task.Status.Interval(api.MemoryTier).Why.EN, "for 14 ms") {
		t.Errorf("a little more stall changed %d steps to %+v", got.Steps, y.task.Status.Interval(api.MemoryTier))
	}
	if !strings.Contains(got.Why.EN, "a save stalls training for 12 ms, a failure that needs it comes about every 15 d (0 seen in 2 min).") || !strings.Contains(got.Why.ZH, "停顿 12 毫秒") {
		t.Error(got.Why)
	}
}

func TestFailuresMakeSavesMoreFrequent(t *testing.T) {
	y := tuning(t)
	for i := range y.said {
		y.said[i].Saves.Stall = 0.012
	}
	y.turn(time.Second)
	calm := *y.task.Status.Interval(api.MemoryTier)
	stepped := now.Add(10300 * time.Millisecond)
	y.task.Status.Interruptions = &api.Interruptions{Count: 2, Causes: map[string]int{"killed": 2}, Last: []api.Recovery{
		{Cause: "killed", FailedAt: now.Add(5 * time.Second), EndedAt: &stepped},
		{Cause: "killed", FailedAt: now.Add(10 * time.Second), SteppedAt: &stepped, EndedAt: &stepped},
	}}
	y.turn(20 * time.Second)
	now := y.task.Status.Interval(api.MemoryTier)
	if now.Steps >= calm.Steps || !strings.Contains(now.Why.EN, "(2 seen in 2 min), coming back takes 300 ms. That costs") {
		t.Errorf("%d steps after %d: %s", now.Steps, calm.Steps, now.Why.EN)
	}
}

func TestLaunchersAreToldTheInterval(t *testing.T) {
	y := tuning(t)
	if y.turn(time.Second); save.Every(&y.task.Status) != 50 {
		t.Fatalf("%+v", y.task.Status.Intervals)
	}
	y.said[1].Every = 50
	y.turn(2 * time.Second)
	if d := cmp.Diff([]int{0}, y.last.goAhead); d != "" {
		t.Error("who has not said that it knows", d)
	}
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: y.task}, Members: gang.Members{{}}}}
	if g := s.orderFor(0, &y.task.Status, true); g.Every != 50 {
		t.Errorf("%+v", g)
	}
}

func TestWhatIsNotTunedStaysSo(t *testing.T) {
	y := tuning(t)
	y.said[0].Printed, y.said[0].Watched = true, true
	if y.turn(time.Second); y.task.Status.Pace == nil || y.task.Status.Intervals != nil {
		t.Errorf("of a script without the SDK: %+v", y.task.Status.Intervals)
	}
	y = tuning(t)
	y.task.Spec.Checkpoint.Auto = false
	if y.turn(time.Second); y.task.Status.Pace == nil || y.task.Status.Intervals != nil || y.last.goAhead != nil {
		t.Errorf("that nobody asked for: %+v", y.task.Status.Intervals)
	}
}
