package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// finished waits for the last folder to go, then archives or erases.
func (s *seen) finished(p *plan, now time.Time) {
	left := len(s.others) > 0
	for i := range s.members {
		m := &s.members[i]
		switch {
		case m.state == "":
			continue
		case m.state == engine.StateDone:
			p.remove = append(p.remove, m.name)
		case !m.ended():
			p.stop = append(p.stop, m.name)
		}
		left = true
	}
	if s.placement != nil {
		p.commit, p.dropPlace = true, true
		return
	}
	if left {
		return // their ends and removals come back as changes
	}
	if s.task.Meta.DeletedAt != nil {
		p.erase = true
		return
	}
	if !s.task.Spec.Stop && s.task.Spec.Restore.Due(s.task.Status.Attempt) {
		s.revive(p)
		return
	}
	age := now.Sub(*s.task.Status.FinishedAt)
	if age >= s.archiveAfter {
		p.archive = true
		return
	}
	p.wake = s.archiveAfter - age
}

// stopping ends everything, then says Stopped.
func (s *seen) stopping(p *plan, now time.Time) {
	if s.endAll(p) {
		code := 143
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseStopped, "Stopped", fault.T("Stopped on request.", "已按要求停止。"))
		return
	}
	p.note("Stopping", fault.T("Waiting for the processes to end.", "正在等待进程结束。"))
}

// endAll stops what runs; true when every replica that ever was has handed over.
func (s *seen) endAll(p *plan) bool {
	over := s.all().guest == "" // who is inside goes first
	all := s.everybody()
	for i := range all {
		m := &all[i]
		if m.state == "" || m.state == engine.StateDone {
			continue
		}
		over = false
		if !m.ended() {
			p.stop = append(p.stop, m.name)
		}
	}
	for _, o := range s.others {
		if o.State != engine.StateDone {
			over = false
		}
	}
	return over
}

// leave gives a place up: the processes end with their grace, in which they may save. Where another
// place was reserved for the task, its next attempt begins there; else it waits again. Either way
// the placement changes in the same transaction, and it costs no restart.
func (s *seen) leave(p *plan, now time.Time) {
	e := s.placement.Spec.Evict
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
	s.renewRoles(p)
	p.status.PlacedAt = &now
	p.to(api.PhaseRecovering, e.Reason, e.Message)
}

// succeeded says that every rank there shall be has ended well.
func (s *seen) succeeded(p *plan) bool {
	return p.status.Replicas.Succeeded == len(s.members) && !(s.reserves() && s.few())
}

// complete waits for the hand-over, then says Completed.
func (s *seen) complete(p *plan, now time.Time) {
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

// finish is the one way into a final phase: invariant 4.
func (s *seen) finish(p *plan, now time.Time, phase api.Phase, reason string, message fault.Text) {
	p.usage = true
	p.status.FinishedAt = &now
	if p.status.StartedAt == nil {
		p.status.StartedAt = s.started()
	}
	p.dropPlace = s.placement != nil
	p.to(phase, reason, message)
	once := "end"
	if r := s.task.Spec.Restore; r != nil {
		once += "-" + r.At.String() // it had ended before
	}
	p.tell(phase == api.PhaseFailed, string(phase), once, message)
}
