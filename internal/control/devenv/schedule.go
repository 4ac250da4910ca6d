package devenv

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// scheduledReason is of an environment that its schedule stopped.
const scheduledReason = "Scheduled"

// heeded is since when the times of its schedule count: those before it was set, or changed, do not.
func heeded(e *kind.DevEnvironment, now time.Time) time.Time {
	if s := e.Status.Schedule; s != nil && s.Schedule == *e.Spec.Schedule {
		return s.Since
	}
	return now
}

// begun is the environment as its schedule starts it at this moment; nil: it does not.
func begun(e *kind.DevEnvironment, now time.Time) *kind.DevEnvironment {
	if e.Spec.Schedule == nil || e.Meta.DeletedAt != nil {
		return nil
	}
	start, _, _, _ := e.Spec.Schedule.Due(heeded(e, now), now)
	if !start || e.Runs() {
		return nil
	}
	next := *e
	next.Spec.Stop = false
	if next.Status.Phase.Finished() {
		next.Spec.Starts = max(next.Spec.Starts, next.Status.Starts) + 1
	}
	return &next
}

// schedule heeds the clock: it says start or stop as the owner would, whose wish the schedule is. It says whether next was changed.
func schedule(s *work.Seen, next *kind.DevEnvironment, plan *work.Plan, now time.Time) (changed bool) {
	wish := next.Spec.Schedule
	if wish == nil || next.Meta.DeletedAt != nil {
		if next.Status.Schedule != nil && next.Status.Schedule.Stopped == nil {
			next.Status.Schedule = nil
			return true
		}
		return false
	}
	since := heeded(next, now)
	start, stop, at, then := wish.Due(since, now)
	if !then.IsZero() {
		wakeBy(plan, max(then.Sub(now), time.Second))
	}
	was := next.Status.Schedule
	if was != nil && was.Schedule == *wish && !start && !stop {
		return false
	}
	is := &kind.Scheduled{Schedule: *wish, Since: now}
	if was != nil {
		is.Stopped = was.Stopped
	}
	tell := func(warning bool, reason string, message fault.Text) {
		plan.Events = append(plan.Events, work.Event{Warning: warning, Reason: reason, Message: message, Once: "schedule-" + strconv.FormatInt(at.Unix(), 10)})
	}
	switch begins := begun(next, now); {
	case begins != nil && s.NoRoom != nil:
		why := fault.From(s.NoRoom).Message
		tell(true, "ScheduleRefused", fault.T("Its schedule would have started it at %[1]s: %[2]s", "按计划应于 %[1]s 启动，但：%[3]s", clock(at), why.EN, why.ZH))
	case begins != nil:
		next.Spec.Stop, next.Spec.Starts = begins.Spec.Stop, begins.Spec.Starts
		is.Stopped = nil
		tell(false, "ScheduledStart", fault.T("Its schedule starts it.", "按计划启动。"))
	case stop && next.Runs():
		next.Spec.Stop = true
		is.Stopped = &at
		tell(false, "ScheduledStop", fault.T("Its schedule stops it.", "按计划停止。"))
	}
	next.Status.Schedule = is
	return true
}

// endedBy puts into the status of an environment that has just stopped why it was stopped, where nobody asked for it.
func endedBy(e *kind.DevEnvironment, status *work.Status) {
	if status.Phase != api.PhaseStopped || e.Status.Phase == api.PhaseStopped {
		return
	}
	switch {
	case e.Status.Idle != nil && e.Status.Idle.Stopped:
		status.Reason, status.Message = idleReason, idleText(e)
	case e.Status.Schedule != nil && e.Status.Schedule.Stopped != nil:
		status.Reason, status.Message = scheduledReason, fault.T("Stopped by its schedule. Its home is kept: fermi env start %s.", "按计划停止。主目录已保留：fermi env start %s。", e.Meta.Name)
	}
}
