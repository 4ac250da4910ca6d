package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ending is the judgement of how a task, or its stay at a place, ends.
type ending struct{ *snapshot }

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
		restoring(s).revive(p)
		return
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

// succeeded says that every rank there shall be has ended well.
func (s ending) succeeded(p *plan) bool {
	return p.status.Replicas.Succeeded == len(s.Members) && !(s.Reserves() && s.tooFew())
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
