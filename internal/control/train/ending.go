package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ending is the judgement of how a task, or its stay at a place, ends.
type ending struct {
	*gang.Gang
	guest        string       // who is inside: it ends first
	homeless     *loss        // an environment of a guest that is gone
	unfit        *fault.Error // why the framework can't be started
	archiveAfter time.Duration
}

// finished waits for the last folder to go, then archives or erases.
func (s ending) finished(p *plan, now time.Time) {
	left := len(s.Others) > 0
	for i := range s.Members {
		m := &s.Members[i]
		switch {
		case m.State == "":
			continue
		case m.State == engine.StateDone:
			p.remove = append(p.remove, m.Name)
		case !m.Ended():
			p.stop = append(p.stop, m.Name)
		}
		left = true
	}
	if s.Placement != nil {
		p.commit, p.dropPlace = true, true
		return
	}
	if left {
		return // their ends and removals come back as changes
	}
	if s.Task.Meta.DeletedAt != nil {
		p.erase = true
		return
	}
	if !s.Task.Spec.Stop && s.Task.Spec.Restore.Due(s.Task.Status.Attempt) {
		s.revive(p)
		return
	}
	if s.Task.Owes() {
		return // it is written into the task, which is another turn
	}
	age := now.Sub(*s.Task.Status.FinishedAt)
	if age >= s.archiveAfter {
		p.archive = true
		return
	}
	p.wake = s.archiveAfter - age
}

// stopping ends everything, then says Stopped.
func (s ending) stopping(p *plan, now time.Time) {
	if s.endAll(p) {
		code := 143
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseStopped, "Stopped", fault.T("Stopped on request.", "已按要求停止。"))
		return
	}
	p.note("Stopping", fault.T("Waiting for the processes to end.", "正在等待进程结束。"))
}

// leave gives a place up: the processes end with their grace, in which they may save. Where another
// place was reserved for the task, its next attempt begins there; else it waits again. Either way
// the placement changes in the same transaction, and it costs no restart.
func (s ending) leave(p *plan, now time.Time) {
	e := s.Placement.Spec.Evict
	if p.status.Phase == api.PhasePending { // nothing was started on it
		p.commit, p.moveOn, p.dropPlace = true, len(e.To) > 0, len(e.To) == 0
		p.note(e.Reason, e.Message)
		return
	}
	s.count(p)
	if s.succeeded(p) {
		s.complete(p, now) // it was done before it was asked
		return
	}
	if !s.endAll(p) {
		p.note(e.Reason, e.Message)
		return
	}
	p.usage = true
	p.status.Replicas, p.status.Failure, p.status.Zones = api.ReplicaCount{}, nil, nil
	p.tell(true, e.Reason, "left-"+itoa(p.status.Attempt), e.Message)
	if len(e.To) == 0 {
		p.dropPlace = true
		p.to(api.PhasePending, e.Reason, e.Message)
		return
	}
	p.moveOn = true
	p.status.Attempt++
	p.status.Rendezvous = nil
	renewRoles(s.Task, &p.status)
	p.status.PlacedAt = &now
	p.to(api.PhaseRecovering, e.Reason, e.Message)
}

// turnedAway gives the place up where a node did not admit a replica: somebody was faster there. It costs no restart; where the node is
// full, its engine has closed it.
func (s ending) turnedAway(p *plan) bool {
	i := slices.IndexFunc(s.Members, func(m gang.Member) bool { return m.Exit != nil && m.Exit.Reason == engine.ReasonRefused })
	if i < 0 {
		return false
	}
	why := fault.Unpack(s.Members[i].Exit.Message)
	if !s.endAll(p) {
		p.note(engine.ReasonRefused, why)
		return true
	}
	p.usage, p.dropPlace = true, true
	p.status.Replicas, p.status.Failure, p.status.Zones = api.ReplicaCount{}, nil, nil
	p.tell(true, engine.ReasonRefused, "refused-"+itoa(p.status.Attempt), why)
	p.to(api.PhasePending, engine.ReasonRefused, why)
	return true
}

// succeeded says that every rank there shall be has ended well. Where all were lost and others are only about to join there is nobody who could have.
func (s ending) succeeded(p *plan) bool {
	return len(s.Members) > 0 && p.status.Replicas.Succeeded == len(s.Members) && !(s.Reserves() && s.TooFew())
}

// complete waits for the hand-over, then says Completed.
func (s ending) complete(p *plan, now time.Time) {
	if !s.endAll(p) {
		if p.status.Phase == api.PhaseRunning {
			p.note("HandingOver", fault.T("The processes ended well; logs and outputs are being stored.", "进程已正常结束，正在保存日志和输出。"))
		}
		return
	}
	code := 0
	p.status.ExitCode = &code
	p.status.Failure = nil
	s.finish(p, now, api.PhaseCompleted, "Succeeded", fault.T("All processes ended well.", "全部进程正常结束。"))
}

// endAll stops what runs; true when every replica that ever was has handed over.
func (s ending) endAll(p *plan) bool { return s.end(p, s.Everybody()) }

// end is the same for some of the members, and for all that are none any more.
func (s ending) end(p *plan, list gang.Members) bool {
	over := s.guest == "" // who is inside goes first
	for i := range list {
		m := &list[i]
		if m.State == "" || m.State == engine.StateDone {
			continue
		}
		over = false
		if !m.Ended() {
			p.stop = append(p.stop, m.Name)
		}
	}
	for _, o := range s.Others {
		if o.State != engine.StateDone {
			over = false
		}
	}
	return over
}

// finish is the one way into a final phase: invariant 4.
func (s ending) finish(p *plan, now time.Time, phase api.Phase, reason string, message fault.Text) {
	p.usage = true
	p.status.FinishedAt = &now
	if p.status.StartedAt == nil {
		p.status.StartedAt = s.Members.Started()
	}
	p.dropPlace = s.Placement != nil
	p.to(phase, reason, message)
	once := "end"
	if r := s.Task.Spec.Restore; r != nil {
		once += "-" + r.At.String() // it had ended before
	}
	p.tell(phase == api.PhaseFailed, string(phase), once, message)
}

// count refreshes the numbers people see.
func (s ending) count(p *plan) {
	n := api.ReplicaCount{Total: len(s.Members)}
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.Ended() && m.Exit != nil && m.Exit.Reason == engine.ReasonSucceeded:
			n.Succeeded++
		case m.Ended():
			n.Failed++
		case m.State == engine.StateRunning && !m.Lags(&p.status):
			n.Running++
		default:
			n.Starting++
		}
	}
	if n != p.status.Replicas {
		p.status.Replicas, p.commit = n, true
	}
	if spares := spareStatus(s.Spares); !slices.Equal(spares, p.status.Spares) {
		p.status.Spares, p.commit, p.usage = spares, true, true
	}
}

// rewind ends the attempt and begins the next on the same placement. It costs no restart.
func (s ending) rewind(p *plan) {
	message := fault.T("It goes on from step %d, as was asked.", "按要求从第 %d 步继续。", s.Task.Spec.Restore.Step)
	s.count(p)
	if !s.endAll(p) {
		p.note("Restoring", message)
		return
	}
	p.usage = true
	p.status.Attempt++
	p.status.Rendezvous = nil
	renewRoles(s.Task, &p.status)
	forgive(&p.status)
	p.status.Replicas = api.ReplicaCount{Total: len(s.Members), Starting: len(s.Members)}
	p.to(api.PhaseRecovering, "Restoring", message)
	p.tell(false, "Restoring", "rewind-"+itoa(p.status.Attempt), message)
}

// revive lets a task that has ended wait for a place again.
func (s ending) revive(p *plan) {
	message := fault.T("Waiting for a place, to go on from step %d.", "等待调度，将从第 %d 步继续。", s.Task.Spec.Restore.Step)
	p.status.FinishedAt, p.status.StartedAt, p.status.ExitCode, p.status.Rendezvous = nil, nil, nil, nil
	p.status.Replicas, p.status.Zones = api.ReplicaCount{}, nil
	forgive(&p.status)
	p.to(api.PhasePending, "Restoring", message)
	p.tell(false, "Restoring", "revive-"+s.Task.Spec.Restore.At.String(), message)
}

// forgive forgets what failed: somebody looked at it, and wants it to be tried again.
func forgive(status *api.TrainingTaskStatus) {
	status.Failure, status.Faults, status.Restarts = nil, nil, nil
}

// loseOrigin ends a task that was told where to begin and can't begin there.
func (s ending) loseOrigin(p *plan, now time.Time) {
	message := fault.T("The checkpoint that it was told to begin from can't be read any more, nor can an older one.", "指定的检查点及更早的检查点均已无法读取。")
	if !s.endAll(p) {
		p.note("CheckpointLost", message)
		return
	}
	code := 1
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, "CheckpointLost", message)
}

// refuse ends a task that must not start.
func (s ending) refuse(p *plan, now time.Time) {
	if !s.endAll(p) {
		p.note("PreflightFailed", fault.T("The preflight found something; its launchers are ended.", "启动前检查发现问题，正在结束启动器。"))
		return
	}
	code := 1
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, "PreflightFailed", p.status.Preflight.Findings[0].Message)
}
