package train

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
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
	want := []api.SaveInterval{{Tier: api.MemoryTier, Steps: 50, Every: api.Duration(10 * time.Second), Why: untimed(200 * time.Millisecond).Why}}
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

func TestTheLastFailuresCount(t *testing.T) {
	start := now.Add(-100 * time.Hour)
	status := &api.TrainingTaskStatus{StartedAt: &start}
	if got := failuresOf(status, now, false); got != (failures{over: 100 * time.Hour}) {
		t.Errorf("%+v", got)
	}
	status.Interruptions = &api.Interruptions{Count: 40}
	for i := range api.MaxRecoveries { // one an hour of late; two of them lost what was in memory
		failed := now.Add(time.Duration(i-api.MaxRecoveries) * time.Hour)
		stepped := failed.Add(time.Duration(i) * time.Second)
		status.Interruptions.Last = append(status.Interruptions.Last, api.Recovery{FailedAt: failed, SteppedAt: &stepped, Reloaded: i > 5})
	}
	if d := cmp.Diff(failures{7, 8 * time.Hour, 4 * time.Second}, failuresOf(status, now, false), cmp.AllowUnexported(failures{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(failures{2, 8 * time.Hour, 6500 * time.Millisecond}, failuresOf(status, now, true), cmp.AllowUnexported(failures{})); d != "" {
		t.Error(d)
	}
}

func TestTiersAreTunedByWhatWritingTakes(t *testing.T) {
	start := now.Add(-time.Hour)
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Checkpoint = &api.Checkpoints{Auto: true, Shared: &api.CheckpointTier{EverySteps: 7}}
	tk.Status.StartedAt, tk.Status.Pace = &start, &api.Pace{StepTime: api.Duration(time.Second)}
	s := seen{task: tk, took: map[string]time.Duration{link.TierLocal: 16 * time.Second, link.TierShared: time.Second}}
	if got := s.tuned(&tk.Status, link.TierShared, now); got != nil {
		t.Errorf("one that has its own: %+v", got)
	}
	got := s.tuned(&tk.Status, link.TierLocal, now) // √(2 × 1 s × 30 days) = 38 min
	if got == nil || got.Every.Std() < 37*time.Minute || got.Every.Std() > 39*time.Minute || !strings.Contains(got.Why.EN, "writing one takes 16 s and costs training 1 s") {
		t.Fatalf("%+v", got)
	}
	if due := tierOf(tk, link.TierLocal); due.Every != api.Duration(5*time.Minute) {
		t.Error("before it was tuned:", due.Every)
	}
	tk.Status.Intervals = []api.SaveInterval{*got, {Tier: link.TierShared, Every: 1}}
	if due := tierOf(tk, link.TierLocal); due.Every != got.Every || due.EverySteps != 0 || due.Keep.Last != 2 {
		t.Errorf("%+v", due)
	}
	if due := tierOf(tk, link.TierShared); due.Every != 0 || due.EverySteps != 7 {
		t.Errorf("%+v", due)
	}
	s.took = nil // another leads
	if d := cmp.Diff(got, s.tuned(&tk.Status, link.TierLocal, now)); d != "" {
		t.Error(d)
	}
	s.took = map[string]time.Duration{link.TierLocal: 2 * time.Hour}
	if got := s.tuned(&tk.Status, link.TierLocal, now); got.Every.Std() != 4*time.Hour {
		t.Errorf("more often than it can be written: %+v", got)
	}
}

func TestLaunchersAreToldTheInterval(t *testing.T) {
	y := tuning(t)
	if y.turn(time.Second); every(&y.task.Status) != 50 {
		t.Fatalf("%+v", y.task.Status.Intervals)
	}
	y.said[1].Every = 50
	y.turn(2 * time.Second)
	if d := cmp.Diff([]int{0}, y.last.goAhead); d != "" {
		t.Error("who has not said that it knows", d)
	}
	s := seen{task: y.task, members: []member{{}}}
	if g := s.orderFor(0, y.task.Status, true); g.Every != 50 {
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

func TestWhatWritingTookIsOfTasksThatThereAre(t *testing.T) {
	c := New(Config{})
	c.keys, c.took = map[string]api.Key{"task-1": {}}, map[string]map[string]time.Duration{}
	c.wrote("task-1", link.TierLocal, time.Second)
	c.wrote("task-1", link.TierLocal, 2*time.Second)
	c.wrote("gone", link.TierLocal, time.Second)
	if d := cmp.Diff(map[string]time.Duration{link.TierLocal: 2 * time.Second}, c.tookOf("task-1")); d != "" || len(c.took) != 1 {
		t.Error(d, c.took)
	}
}

func TestAReloadIsKnownAsOne(t *testing.T) {
	for _, origin := range []*api.CheckpointOrigin{nil, {TaskID: "task-1", Name: "n", Step: 7}} {
		s := seen{task: task(api.PhaseRecovering, 1, 1)}
		p := plan{status: s.task.Status}
		p.status.Generation, p.status.Rendezvous = s.task.Status.Generation+1, &api.Rendezvous{Restore: 7, Origin: origin}
		in := &api.Interruptions{Last: []api.Recovery{{Step: 9, FailedAt: now, SeenAt: now}}}
		if s.advance(&p, in, in.Newest(), now); in.Last[0].Reloaded != (origin != nil) || in.Last[0].Restore != 7 {
			t.Errorf("%+v", in.Last[0])
		}
	}
}
