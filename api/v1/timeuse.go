package v1

import (
	"time"

	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// TaskFigures are what is known of how well a task does. docs/reference/figures.md defines them.
type TaskFigures struct {
	Interruptions *Interruptions `json:"interruptions,omitempty" doc:"What failures cost; absent while nothing failed."`
	Time          *TimeUse       `json:"time,omitempty" doc:"How its time since its first start was spent."`
	Saved         *SavedStep     `json:"saved,omitempty" doc:"Its newest checkpoint in a tier, as of the last time that this was written down."`
	mount.Left
}

// Owes says that it completed and a version was not made of its outputs yet, which its user wished.
func (t *TrainingTask) Owes() bool {
	o := t.Spec.Outputs
	return t.Status.Phase == PhaseCompleted && o != nil && o.Owes(&t.Status.Left) && t.Meta.DeletedAt == nil
}

// SavedStep is the newest checkpoint of a task.
type SavedStep struct {
	Step int64     `json:"step"`
	At   time.Time `json:"at" doc:"When it was whole."`
}

// RestartCost is how long this task took to be at work again, from the decision to start it to the first step: the mean of its last
// recoveries, or, where nothing failed yet, its first start. ok is false where neither was measured.
func (s *TrainingTaskStatus) RestartCost() (cost time.Duration, ok bool) {
	n := time.Duration(0)
	if in := s.Interruptions; in != nil {
		for i := range in.Last {
			r := &in.Last[i]
			if at := r.SteppedAt; r.OpenedAt != nil && at != nil {
				cost, n = cost+max(at.Sub(*r.OpenedAt), 0), n+1
			}
		}
	}
	if n > 0 {
		return cost / n, true
	}
	if t := s.Time; t != nil && t.Step > 0 && s.PlacedAt != nil && s.Attempt == 1 && s.PlacedAt.Before(t.From) {
		return t.From.Sub(*s.PlacedAt) + t.Spent[TimeStarting].Std(), true
	}
	return 0, false
}

// TimeKind is what a task's time was spent with.
type TimeKind = string

// The kinds. docs/reference/figures.md defines each.
const (
	TimeEffective  TimeKind = "effective"  // it made steps that had not been made before
	TimeStarting   TimeKind = "starting"   // it ran and had made no step yet
	TimeRecovering TimeKind = "recovering" // from a failure until training had passed the step that it had reached
	TimeStalled    TimeKind = "stalled"    // it stood still, and had announced no pause
	TimeAway       TimeKind = "away"       // it gave its place or its ranks up without a failure, until it was beyond where it was
	TimeStopped    TimeKind = "stopped"    // between an end and being taken up again
	TimeUnknown    TimeKind = "unknown"    // it ran, and told no steps
)

var TimeKinds = []TimeKind{TimeEffective, TimeStarting, TimeRecovering, TimeStalled, TimeAway, TimeStopped, TimeUnknown}

// TimeUse is how the time of a task was spent from its first start until At; the parts add up to that.
type TimeUse struct {
	From       time.Time             `json:"from" doc:"Its first start."`
	At         time.Time             `json:"at" doc:"Until when its time is counted. Of a task that trains this is a step that it made: what comes after it is known with the next."`
	Doing      TimeKind              `json:"doing" enum:"effective,starting,recovering,stalled,away,stopped,unknown" doc:"What its time is spent with since then."`
	Spent      map[TimeKind]Duration `json:"spent,omitempty" doc:"By kind. effective: it made steps that had not been made before. starting: it had made none yet. recovering: from a failure until training had passed the step that it had reached. stalled: it stood still and had announced no pause. away: it gave its place up without a failure. stopped: between an end and being taken up again. unknown: it ran, and told no steps."`
	Step       int64                 `json:"step,omitempty" doc:"The farthest that it made; absent: it told none."`
	Generation int                   `json:"generation,omitempty" doc:"The one that made the step."`
	Counted    Duration              `json:"counted,omitempty" doc:"Stalls of this generation that are in spent."`
	Clock      *moment.Mark          `json:"clock,omitempty" doc:"When the account was written, by two clocks; absent where the server has no other one."`
}

// Until is the account at a later time. Time that a task which trains spends after its last step is not known yet: it ends there.
func (u *TimeUse) Until(now time.Time) (spent map[TimeKind]time.Duration, whole time.Duration) {
	spent = map[TimeKind]time.Duration{}
	if u == nil {
		return spent, 0
	}
	for kind, d := range u.Spent {
		spent[kind] += d.Std()
	}
	if u.Doing != TimeEffective && now.After(u.At) {
		spent[u.Doing] += now.Sub(u.At)
	}
	for _, d := range spent {
		whole += d
	}
	return spent, whole
}

// EffectiveTime is the part of a task's time since its first start, less what it was stopped for, in which it made new progress. ok is
// false where that is not known: it told no steps, or never ran.
func (s *TrainingTaskStatus) EffectiveTime(now time.Time) (ratio float64, ok bool) {
	effective, whole, ok := s.Times(now)
	return float64(effective) / float64(max(whole, 1)), ok
}

// Times are how long a task trained to effect, and how long it was there; ok is false where the first is not known.
func (s *TrainingTaskStatus) Times(now time.Time) (effective, whole time.Duration, ok bool) {
	if s.FinishedAt != nil {
		now = *s.FinishedAt
	}
	spent, whole := s.Time.Until(now)
	whole -= spent[TimeStopped]
	return spent[TimeEffective], whole, s.Time != nil && s.Time.Step > 0 && whole > 0
}
