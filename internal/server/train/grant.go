package train

import (
	"context"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/quota"
)

// granted refuses work whose project may not use its queue, or not at its priority. It judges the
// wish of whoever asks, an admin's too: the rule is the project's, and who may change it says so there.
func (s *Gate) granted(ctx context.Context, w *api.Workload, p *api.Project, q *api.Queue) error {
	var wrong *fault.Error
	if !q.Admits(p) {
		var err error
		if wrong, err = s.queueNotAllowed(ctx, p, q); err != nil {
			return err
		}
	}
	if high := priorityNotAllowed(w, p); high != nil {
		if wrong == nil {
			return high
		}
		wrong = wrong.WithFields(high.Fields...)
	}
	if wrong == nil {
		return nil
	}
	return wrong
}

// queueNotAllowed names the queues that the project may use.
func (s *Gate) queueNotAllowed(ctx context.Context, p *api.Project, q *api.Queue) (*fault.Error, error) {
	snap, err := s.truth.List(ctx, api.KindQueue, "", 0)
	if err != nil {
		return nil, err
	}
	var may []string
	snap.Ascend("", func(o api.Object) bool {
		if other := o.(*api.Queue); other.Admits(p) && len(may) < 20 {
			may = append(may, other.Meta.Name)
		}
		return true
	})
	project, queue := p.Meta.Name, q.Meta.Name
	text := fault.T("The project %q may not use the queue %q, whose spec.projects does not name it; it may use %s.",
		"项目 %q 不能使用队列 %q：该队列的 spec.projects 未包含此项目；可用的队列：%s。", project, queue, strings.Join(may, ", "))
	return fault.New(fault.Forbidden, "QueueNotAllowed", text).WithFields(fault.Field{Path: "spec.queue", Message: text}).WithHint(fault.T(
		"Leave the queue out, use one of these, or ask an operator: fermi queue set %s --add-project %s.",
		"请去掉 queue，或改用上述队列；也可请运维人员执行：fermi queue set %s --add-project %s。", queue, project)), nil
}

// priorityNotAllowed is nil where the priority is no higher than the project's rule, or the kind's own.
func priorityNotAllowed(w *api.Workload, p *api.Project) *fault.Error {
	top := p.TopPriority(w.Kind)
	if w.Priority <= top {
		return nil
	}
	path := "spec.priority"
	if w.Class != "" {
		path = "spec.priorityClass"
	}
	text := fault.T("The priority %d is above %d, the highest that tasks of the project %q may have (its spec.maxPriority).",
		"优先级 %d 高于项目 %[3]q 的任务允许的最高值 %[2]d（项目的 spec.maxPriority）。", w.Priority, top, p.Meta.Name)
	return fault.New(fault.Forbidden, "PriorityNotAllowed", text).WithFields(fault.Field{Path: path, Message: text}).WithHint(fault.T(
		"Use %d or less, or ask an admin: fermi project set %s --max-priority %d.",
		"请使用不高于 %d 的优先级，或请管理员执行：fermi project set %s --max-priority %d。", top, p.Meta.Name, w.Priority))
}

// mayRaise refuses a change of a task's priority to more than its project may give. What it has stays
// valid, and less than it has is always allowed.
func (s *Gate) mayRaise(ctx context.Context, next, current *api.TrainingTask) error {
	if next.Spec.Priority == nil || current.Spec.Priority != nil && *next.Spec.Priority <= *current.Spec.Priority {
		return nil
	}
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: next.Meta.Project}, 0)
	if err != nil {
		return err
	}
	w := next.Workload()
	if wrong := priorityNotAllowed(&w, o.(*api.Project)); wrong != nil {
		return wrong
	}
	return nil
}

// mayReturn judges an ended task that is to run again by the rules of now.
func (s *Gate) mayReturn(ctx context.Context, t *api.TrainingTask) error {
	p, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: t.Meta.Project}, "metadata.project")
	if err != nil {
		return err
	}
	q, err := s.truth.Refer(ctx, api.Key{Kind: api.KindQueue, Name: t.Spec.Queue}, "spec.queue")
	if err != nil {
		return err
	}
	w := t.Workload()
	return s.granted(ctx, &w, p.(*api.Project), q.(*api.Queue))
}

// roomForWork refuses new work of a project that has as much as it may, of all kinds.
func (s *Gate) roomForWork(ctx context.Context, p *api.Project) error {
	n, err := s.truth.CountWork(ctx, p.Meta.Name)
	if err != nil {
		return err
	}
	if most := p.StorageLimits().Objects; n >= most {
		return quota.OverLimit(p.Meta.Name, "objects", n, 1, most)
	}
	return nil
}

// roomForState refuses an uploaded rank's state that would not fit into what a project may keep.
func (s *Gate) roomForState(ctx context.Context, task *api.TrainingTask, bytes int64) error {
	if s.stored == nil {
		return nil
	}
	o, err := s.truth.Find(ctx, api.Key{Kind: api.KindProject, Name: task.Meta.Project}, 0)
	if err != nil {
		return err
	}
	return s.stored.RoomForCheckpoint(o.(*api.Project), max(bytes, 1))
}
