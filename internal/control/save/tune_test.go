package save

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/google/go-cmp/cmp"
)

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
		status.Interruptions.Last = append(status.Interruptions.Last, api.Recovery{FailedAt: failed, SteppedAt: &stepped, RecoverySteps: api.RecoverySteps{Reloaded: i > 5}})
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
	s := Measured{Spec: &tk.Spec, Status: &tk.Status, Took: map[string]time.Duration{link.TierLocal: 16 * time.Second, link.TierShared: time.Second}}
	if got := s.tuned(link.TierShared, now); got != nil {
		t.Errorf("one that has its own: %+v", got)
	}
	got := s.tuned(link.TierLocal, now) // √(2 × 1 s × 30 days) = 38 min
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
	s.Took = nil // another leads
	if d := cmp.Diff(got, s.tuned(link.TierLocal, now)); d != "" {
		t.Error(d)
	}
	s.Took = map[string]time.Duration{link.TierLocal: 2 * time.Hour}
	if got := s.tuned(link.TierLocal, now); got.Every.Std() != 4*time.Hour {
		t.Errorf("more often than it can be written: %+v", got)
	}
}

func TestWhatWritingTookIsOfTasksThatThereAre(t *testing.T) {
	c := New(Config{})
	c.keys["task-1"] = api.Key{}
	c.noteTook("task-1", wrote{link.TierLocal, time.Second})
	c.noteTook("task-1", wrote{link.TierLocal, 2 * time.Second})
	c.noteTook("gone", wrote{link.TierLocal, time.Second})
	if d := cmp.Diff(map[string]time.Duration{link.TierLocal: 2 * time.Second}, c.Took("task-1")); d != "" || len(c.took) != 1 {
		t.Error(d, c.took)
	}
}
