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
type restoring struct {
	*gang.Gang
	origins *save.Origins
}

// goesBack says that what runs must end, so that the next attempt begins from the chosen checkpoint.
func (s *snapshot) goesBack() bool {
	return s.Task.Spec.Restore.Due(s.Task.Status.Attempt) && s.Task.Status.Phase != api.PhasePending
}

// waitsSince is from when on a task's wait for a place is counted.
func waitsSince(task *api.TrainingTask) time.Time {
	if r := task.Spec.Restore; r != nil {
		return r.At
	}
	return task.Meta.CreatedAt
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
