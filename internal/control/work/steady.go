package work

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/steady"
	"github.com/fermi-cluster/fermi/internal/control/ending"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Status is what Steady decides.
type Status = steady.Status

// judgement is that of one turn on its way to a plan.
type judgement struct {
	*Seen
	now    time.Time
	policy api.RestartPolicy
	status Status
	plan   Plan
}

// Steady is the judgement of work that is started, kept running and started again as a whole: pure,
// level-triggered, running it twice changes nothing. Phases move as api.TaskPhases says. changed says that the
// status has to be written, or the placement with it.
func Steady(s *Seen, was *Status, policy *api.RestartPolicy, now time.Time) (status Status, plan Plan, changed bool) {
	t := &judgement{Seen: s, now: now, status: *was}
	if policy != nil {
		t.policy = *policy
	}
	t.status.Restarts = slices.Clone(was.Restarts)
	s.Sweep(&t.plan)
	if !t.hush() {
		t.decide()
	}
	changed = t.plan.Leave || t.plan.Move || !reflect.DeepEqual(&t.status, was)
	return t.status, t.plan, changed
}

func (t *judgement) decide() {
	switch {
	case t.status.Phase == "":
		t.to(api.PhasePending, "Submitted", fault.T("Waiting to be placed.", "等待调度。"))
	case t.status.Phase.Finished():
		t.finished()
	case t.View.Stop:
		t.stop()
	case t.Placement == nil:
		t.unplaced()
	case t.Placement.Spec.Evict != nil:
		t.leave(t.Placement.Spec.Evict)
	case t.status.Phase == api.PhasePending:
		t.begin()
	default:
		t.proceed()
	}
}

func (t *judgement) to(phase api.Phase, reason string, message fault.Text) {
	if !api.TaskPhases.Allows(t.status.Phase, phase) {
		panic("work: no move from " + string(t.status.Phase) + " to " + string(phase))
	}
	t.status.Phase, t.status.Reason, t.status.Message = phase, reason, message
}

// note changes only why it is where it is.
func (t *judgement) note(reason string, message fault.Text) {
	if t.status.Reason != reason {
		t.status.Reason, t.status.Message = reason, message
	}
}

func (t *judgement) tell(warning bool, reason, once string, message fault.Text) {
	t.plan.Events = append(t.plan.Events, Event{warning, reason, message, once + "-" + strconv.Itoa(t.status.Attempt)})
}

// finished waits for the last folder to go, then archives or erases.
func (t *judgement) finished() {
	left := len(t.Others) > 0 || t.Pinned && slices.ContainsFunc(t.Given, func(g GivenUp) bool { return !g.Hold.Released })
	for i := range t.Members {
		switch m := &t.Members[i]; {
		case m.Known.State == "":
			continue
		case m.Known.State == engine.StateDone:
			t.plan.Remove = append(t.plan.Remove, m.Name)
		case !m.ended():
			t.plan.Stop = append(t.plan.Stop, m.Name)
		}
		left = true
	}
	switch age := t.now.Sub(*t.status.FinishedAt); {
	case t.Placement != nil:
		t.plan.Leave = true
	case left: // their ends and removals come back as changes
	case t.View.Meta.DeletedAt != nil:
		t.plan.Erase = true
	case age >= t.ArchiveAfter:
		t.plan.Archive = true
	default:
		t.plan.Wake = t.ArchiveAfter - age
	}
}

// finish is the one way into a final phase.
func (t *judgement) finish(phase api.Phase, code int, reason string, message fault.Text) {
	t.plan.Usage, t.plan.Leave = true, t.Placement != nil
	t.status.FinishedAt, t.status.ExitCode = &t.now, &code
	t.status.StartedAt = cmp.Or(t.status.StartedAt, t.Started())
	t.to(phase, reason, message)
	t.tell(phase == api.PhaseFailed, string(phase), "end", message)
}

// exitStopped is what a shell says of what SIGTERM ended.
const exitStopped = 143

func (t *judgement) stop() {
	if t.EndAll(&t.plan) {
		t.finish(api.PhaseStopped, exitStopped, "Stopped", fault.T("Stopped on request.", "已按要求停止。"))
		return
	}
	if m := silentOf(t.Members); m != nil && t.Pinned {
		t.reach()
		return
	}
	t.note("Stopping", fault.T("Waiting for the processes to end.", "正在等待进程结束。"))
}

func (t *judgement) unplaced() {
	if t.status.Phase == api.PhasePending || !t.EndAll(&t.plan) {
		return
	}
	t.plan.Usage = true
	t.to(api.PhasePending, "PlacementLost", fault.T("Its placement went away; waiting for another.", "原有放置已失效，等待重新调度。"))
	t.tell(true, "PlacementLost", "lost", t.status.Message)
}

// leave gives the place up: for the one that is reserved, or to wait again. It costs no restart.
func (t *judgement) leave(e *api.Eviction) {
	if t.status.Phase != api.PhasePending {
		if !t.EndAll(&t.plan) {
			t.note(e.Reason, e.Message)
			return
		}
		t.plan.Usage = true
		t.status.Replicas, t.status.Zones = api.ReplicaCount{}, nil
		t.tell(true, e.Reason, "left", e.Message)
	}
	t.plan.Move, t.plan.Leave = len(e.To) > 0, len(e.To) == 0
	t.to(api.PhasePending, e.Reason, e.Message)
}

// begin takes up a fresh placement.
func (t *judgement) begin() {
	if !t.EndAll(&t.plan) {
		return // old replicas first
	}
	t.status.Attempt = max(t.status.Attempt+1, t.Placement.Spec.Attempt)
	t.status.PlacedAt, t.status.Zones = &t.now, t.Zones()
	t.to(api.PhaseInitializing, "Placed", fault.T("Placed; its processes are being started.", "已放置，正在启动进程。"))
	t.tell(false, "Placed", "placed", t.status.Message)
}

// proceed is for work with a placement and a current attempt.
func (t *judgement) proceed() {
	t.status.Replicas = t.Count()
	if m := lostOf(t.Members, t.Given); m != nil {
		t.leaveLost(m)
		return
	}
	t.reach()
	if m := t.Failed(); m != nil {
		if x := m.Known.Exit; x != nil && x.Reason == engine.ReasonRefused {
			t.leave(&api.Eviction{Reason: x.Reason, Message: fault.Unpack(x.Message)}) // somebody was faster there
		} else {
			t.fail(m)
		}
		return
	}
	if t.status.Replicas.Succeeded == len(t.Members) {
		if t.EndAll(&t.plan) {
			t.finish(api.PhaseCompleted, 0, "Succeeded", fault.T("All processes ended well.", "全部进程正常结束。"))
		}
		return
	}
	if zones := t.Zones(); !slices.Equal(zones, t.status.Zones) {
		t.status.Zones = zones
	}
	for i := range t.Members {
		switch m := &t.Members[i]; {
		case m.Known.State == "":
			t.plan.Start = append(t.plan.Start, i)
		case m.Known.State == engine.StateCreated && m.Attached && gathered(t.Members):
			t.plan.Go = append(t.plan.Go, i)
		}
	}
	if t.status.Replicas.Starting == 0 && t.status.Phase != api.PhaseRunning {
		t.status.StartedAt = cmp.Or(t.status.StartedAt, t.Started())
		t.plan.Usage = true
		t.to(api.PhaseRunning, "Started", running)
		t.tell(false, "Started", "started", t.status.Message)
	}
}

// fail ends an attempt; another follows as far as the policy allows.
func (t *judgement) fail(m *Member) {
	code, why := 1, ""
	message := fault.T("Replica %s ended, and nothing says how.", "副本 %s 已结束，原因不明。", m.Name)
	if x := m.Known.Exit; x != nil {
		code, why, message = cmp.Or(x.Code, 1), x.Reason, ending.Whole(m.Role+"-"+strconv.Itoa(m.Index), m.Known.Node, x)
	}
	window := cmp.Or(t.policy.Window.Std(), time.Hour)
	recent := slices.DeleteFunc(t.status.Restarts, func(at time.Time) bool { return t.now.Sub(at) >= window })
	left := t.policy.MaxRestarts - len(recent)
	if t.Pinned && why == engine.ReasonDiskLimit { // what filled the disk is still there
		left = 0
	}
	if left > 0 && t.status.Phase != api.PhaseRecovering {
		t.to(api.PhaseRecovering, cmp.Or(why, "ReplicaFailed"), message)
	}
	if !t.EndAll(&t.plan) {
		return
	}
	if left <= 0 {
		t.finish(api.PhaseFailed, code, cmp.Or(why, "ReplicaFailed"), message)
		return
	}
	t.plan.Usage = true
	t.tell(true, "Restarted", "restart", message)
	t.status.Restarts = append(recent, t.now)
	t.status.Attempt++
	t.status.PlacedAt, t.status.Replicas = &t.now, api.ReplicaCount{}
}
