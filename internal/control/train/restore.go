package train

import (
	"fmt"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A task that was told where to begin: from a checkpoint of its own that somebody chose (spec.restore), or from
// another task's (status.from). The wish is level-triggered: attempts up to the one it names are over, what
// they committed beyond the chosen checkpoint counts no more, and what later ones commit is newer than both.

// restoring is the judgement of where a task begins.
type restoring struct{ *snapshot }

// goesBack says that what runs must end, so that the next attempt begins from the chosen checkpoint.
func (s *snapshot) goesBack() bool {
	return s.Task.Spec.Restore.Due(s.Task.Status.Attempt) && s.Task.Status.Phase != api.PhasePending
}

// rewind ends the attempt and begins the next on the same placement. It costs no restart.
func (s restoring) rewind(p *plan) {
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
func (s restoring) revive(p *plan) {
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

// since is from when on its wait for a place is counted.
func (s restoring) since() time.Time {
	if r := s.Task.Spec.Restore; r != nil {
		return r.At
	}
	return s.Task.Meta.CreatedAt
}

// isAstray says that a task that was told where to begin can't begin there, nor at anything that followed. It never
// begins at nothing instead.
func (s restoring) isAstray() bool {
	told := s.Task.Spec.Restore != nil || s.Task.Status.From != nil
	if !told || !s.origins.Durable || s.origins.Away || s.origins.Newer() != nil || len(s.origins.List) > 0 {
		return false
	}
	main := s.Main()
	return main.Restorable() == 0
}

// giveUp ends such a task.
func (s restoring) giveUp(p *plan, now time.Time) {
	message := fault.T("The checkpoint that it was told to begin from can't be read any more, nor can an older one.", "指定的检查点及更早的检查点均已无法读取。")
	if !s.endAll(p) {
		p.note("CheckpointLost", message)
		return
	}
	code := 1
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, "CheckpointLost", message)
}

// waitForCheckpoints says that a unit can't be told where to begin, and why: a store with checkpoints is away, or what it would
// begin from was written by a newer Fermi.
func (s restoring) waitForCheckpoints(p *plan, u *gang.Unit) bool {
	switch newer := s.origins.Newer(); {
	case !u.Main() || u.Restorable() > 0:
	case s.origins.Away:
		p.wake = save.AwayWait
		p.note("CheckpointsAway", fault.T("The store with its checkpoints does not answer; waiting.", "保存检查点的存储没有响应，正在等待。"))
		return true
	case newer != nil:
		message := fault.Text{
			EN: fmt.Sprintf("The checkpoint of step %d can't be read. %s It waits for a newer Fermi; to go on from an older one: fermi train restore %s --step N --stop.", newer.Step, newer.Why.EN, s.Task.Meta.Name),
			ZH: fmt.Sprintf("第 %d 步的检查点无法读取。%s任务等待更新版本的 Fermi；如需从更早的检查点继续：fermi train restore %s --step N --stop。", newer.Step, newer.Why.ZH, s.Task.Meta.Name),
		}
		p.note("CheckpointNewer", message)
		p.tell(true, "CheckpointNewer", "newer-"+newer.Name+"-"+itoa(p.status.Attempt), message)
		return true
	}
	return false
}

// passOver says which checkpoints are torn that a generation would have begun from.
func (s restoring) passOver(p *plan) {
	for _, u := range s.origins.Passed {
		p.tell(true, "CheckpointUnreadable", "unread-"+u.Name+"-"+itoa(p.status.Attempt), fault.Text{
			EN: fmt.Sprintf("The checkpoint of step %d can't be read; the next older one is tried. %s", u.Step, u.Why.EN),
			ZH: fmt.Sprintf("第 %d 步的检查点无法读取，改用更早的检查点。%s", u.Step, u.Why.ZH),
		})
	}
}
