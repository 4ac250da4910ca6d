package figure

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/internal/control/gang"
)

// TestAClockThatWasSet: a task that tells no steps runs for a minute and ends; in the middle the wall clock is set. Its account has a
// minute, whoever led when the clock was set, and its end is a minute behind its start.
func TestAClockThatWasSet(t *testing.T) {
	start := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	for _, set := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		task := &api.TrainingTask{}
		turn := func(after time.Duration, off time.Duration, change func(*api.TrainingTaskStatus)) {
			status := task.Status
			change(&status)
			now := start.Add(after + off)
			f := Turn{
				Terms: gang.Terms{Task: task}, Before: &task.Status, After: &status, Now: now, Changed: true,
				Clock: &moment.Mark{At: now, Boot: "boot", Up: api.Duration(time.Hour + after)},
			}
			f.Time()
			task.Status = status
		}
		turn(0, 0, func(s *api.TrainingTaskStatus) { s.Phase, s.StartedAt = api.PhaseRunning, &start })
		turn(20*time.Second, 0, func(*api.TrainingTaskStatus) {})
		turn(40*time.Second, set, func(*api.TrainingTaskStatus) {})
		turn(50*time.Second, set, func(*api.TrainingTaskStatus) {})
		turn(time.Minute, set, func(s *api.TrainingTaskStatus) {
			end := start.Add(time.Minute + set)
			s.Phase, s.FinishedAt = api.PhaseCompleted, &end
		})
		st := task.Status
		if got := st.Time.Spent[api.TimeUnknown].Std(); got != time.Minute || len(st.Time.Spent) != 1 {
			t.Errorf("set by %v: %v", set, st.Time.Spent)
		}
		if d := st.FinishedAt.Sub(*st.StartedAt); d != time.Minute {
			t.Errorf("set by %v: from start to end %v", set, d)
		}
		if st.Time.Clock.Moved.Std() != set {
			t.Errorf("set by %v, seen %v", set, st.Time.Clock.Moved.Std())
		}
	}
	// Another boot, and clocks that differ by little, say nothing.
	was := &moment.Mark{At: start, Boot: "a", Up: api.Duration(time.Hour)}
	for _, now := range []*moment.Mark{nil, {At: start.Add(time.Hour), Boot: "b"}, {At: start.Add(1900 * time.Millisecond), Boot: "a", Up: api.Duration(time.Hour + time.Second)}} {
		if d := now.MovedSince(was); d != 0 {
			t.Errorf("%+v: %v", now, d)
		}
	}
}
