package devenv

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/idle"
)

// idleReason is of an environment that was stopped because nobody worked in it.
const idleReason = "Idle"

// askAgain is when a launcher that did not answer is asked again.
const askAgain = 15 * time.Second

// rest decides whether an environment that runs is warned or stopped because nobody works in it; it says whether next was changed. To stop it is
// what its owner would say: spec.stop, which a start takes back.
func rest(s *work.Seen, next *kind.DevEnvironment, plan *work.Plan, policy kind.Policy, now time.Time) (changed bool) {
	after := next.IdleAfter(policy)
	if !rests(s) || next.Status.Phase != api.PhaseRunning || after <= 0 && next.Status.Idle == nil {
		return false
	}
	if after <= 0 { // the rule was taken away
		next.Status.Idle = nil
		return true
	}
	if s.Signals == nil {
		wakeBy(plan, askAgain)
		return false
	}
	v := judge(s, policy, now)
	switch {
	case v.Stop:
		next.Spec.Stop = true
		next.Status.Idle = idling(next, v)
		next.Status.Idle.Stopped = true
		plan.Events = append(plan.Events, work.Event{Reason: idleReason, Message: idleText(next), Once: "idle-" + strconv.Itoa(next.Status.Attempt)})
		return true
	case v.Warn:
		next.Status.Idle = idling(next, v)
		next.Status.Idle.WarnedAt = &now
		left := v.StopsAt.Sub(now).Round(time.Second)
		plan.Say = activity.Warn + ":" + strconv.Itoa(int(left/time.Second))
		plan.Events = append(plan.Events, work.Event{Warning: true, Reason: "IdleSoon", Once: "idle-soon-" + strconv.FormatInt(now.Unix(), 10), Message: fault.T(
			"Nothing has happened in it since %[1]s; it stops at %[2]s unless something does, or it is asked to stay: fermi env keep %[3]s.",
			"自 %[1]s 起无活动；如仍无活动且未执行 fermi env keep %[3]s，将于 %[2]s 停止。", clock(v.Since), clock(v.StopsAt), next.Meta.Name)})
		changed = true
	case v.Clear:
		next.Status.Idle = nil
		changed = true
	}
	wait := v.Look.Sub(now)
	if wait <= 0 {
		wait = askAgain // it was asked, and did not answer
	}
	wakeBy(plan, wait)
	return changed
}

func idling(e *kind.DevEnvironment, v idle.Verdict) *kind.Idling {
	i := kind.Idling{}
	if e.Status.Idle != nil {
		i = *e.Status.Idle
	}
	stops, since := v.StopsAt.UTC(), v.Since.UTC()
	i.StopsAt, i.LastBy, i.LastAt = &stops, v.By, &since
	return &i
}

// idleText says why it was stopped.
func idleText(e *kind.DevEnvironment) fault.Text {
	i := e.Status.Idle
	by, at := i.LastBy.Text(), "?"
	if i.LastBy == "" {
		by = activity.Start.Text()
	}
	if i.LastAt != nil {
		at = clock(*i.LastAt)
	}
	return fault.T("Stopped because nothing happened in it; the last was %[1]s at %[3]s. Its home is kept: fermi env start %[4]s.",
		"因无活动而停止；最后一次活动为 %[2]s（%[3]s）。主目录已保留：fermi env start %[4]s。", by.EN, by.ZH, at, e.Meta.Name)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func wakeBy(p *work.Plan, d time.Duration) {
	if p.Wake == 0 || d < p.Wake {
		p.Wake = d
	}
}
