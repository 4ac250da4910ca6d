package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A task that was told where to begin: from a checkpoint of its own that somebody chose (spec.restore), or from
// another task's (status.from). The wish is level-triggered: attempts up to the one it names are over, what
// they committed beyond the chosen checkpoint counts no more, and what later ones commit is newer than both.

// rewinds says that what runs must end, so that the next attempt begins from the chosen checkpoint.
func (s *seen) rewinds() bool {
	return s.task.Spec.Restore.Due(s.task.Status.Attempt) && s.task.Status.Phase != api.PhasePending
}

// rewind ends the attempt and begins the next on the same placement. It costs no restart.
func (s *seen) rewind(p *plan, now time.Time) {
	message := fault.T("It goes on from step %d, as was asked.", "按要求从第 %d 步继续。", s.task.Spec.Restore.Step)
	s.count(p)
	if !s.endAll(p) {
		p.note("Restoring", message)
		return
	}
	p.usage = true
	p.status.Attempt++
	p.status.Rendezvous = nil
	s.renewRoles(p)
	s.forgive(p)
	p.status.Replicas = api.ReplicaCount{Total: len(s.members), Starting: len(s.members)}
	p.to(api.PhaseRecovering, "Restoring", message)
	p.tell(false, "Restoring", "rewind-"+itoa(p.status.Attempt), message)
}

// revive lets a task that has ended wait for a place again.
func (s *seen) revive(p *plan) {
	message := fault.T("Waiting for a place, to go on from step %d.", "等待调度，将从第 %d 步继续。", s.task.Spec.Restore.Step)
	p.status.FinishedAt, p.status.StartedAt, p.status.ExitCode, p.status.Rendezvous = nil, nil, nil, nil
	p.status.Replicas, p.status.Zones = api.ReplicaCount{}, nil
	s.forgive(p)
	p.to(api.PhasePending, "Restoring", message)
	p.tell(false, "Restoring", "revive-"+s.task.Spec.Restore.At.String(), message)
}

// forgive forgets what failed: somebody looked at it, and wants it to be tried again.
func (s *seen) forgive(p *plan) {
	p.status.Failure, p.status.Faults, p.status.Restarts = nil, nil, nil
}

// since is from when on its wait for a place is counted.
func (s *seen) since() time.Time {
	if r := s.task.Spec.Restore; r != nil {
		return r.At
	}
	return s.task.Meta.CreatedAt
}

// astray says that a task that was told where to begin can't begin there, nor at anything that followed. It never
// begins at nothing instead.
func (s *seen) astray() bool {
	told := s.task.Spec.Restore != nil || s.task.Status.From != nil
	return told && s.durable && !s.unread && s.ahead() == nil && len(s.origins) == 0 && s.main().restorable() == 0
}

func (s *seen) giveUpOrigin(p *plan, now time.Time) {
	message := fault.T("The checkpoint that it was told to begin from can't be read any more, nor can an older one.", "指定的检查点及更早的检查点均已无法读取。")
	if !s.endAll(p) {
		p.note("CheckpointLost", message)
		return
	}
	code := 1
	p.status.ExitCode = &code
	s.finish(p, now, api.PhaseFailed, "CheckpointLost", message)
}

// noteHeld remembers which tasks are about to begin from another's checkpoint. mu held.
func (c *Controller) noteHeld(t *api.TrainingTask) {
	if t.Status.From == nil || t.Status.Phase.Finished() {
		delete(c.held, t.Meta.ID)
		return
	}
	c.held[t.Meta.ID] = *t.Status.From
}

// heldOf says which checkpoints of a task others still begin from: until these end.
func (c *Controller) heldOf(taskID string) func(name string) bool {
	names := map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.held {
		if o.TaskID == taskID {
			names[o.Name] = true
		}
	}
	return func(name string) bool { return names[name] }
}
