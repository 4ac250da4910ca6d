package server

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// desk finds the task that a call is about, and changes it. Safe for concurrent use.
type desk struct {
	truth  *truth
	judge  *judge
	finder *finder
	clock  clock.Clock
}

func newDesk(f *finder, c clock.Clock) *desk {
	return &desk{truth: f.truth, judge: f.judge, finder: f, clock: c}
}

// task finds the task a path names.
func (s *desk) task(ctx context.Context, c *call) (found, *api.TrainingTask, error) {
	name := c.r.PathValue("name")
	c.note.names(api.KindTrainingTask, name)
	f, err := s.finder.resolve(ctx, c, api.MustInfo(api.KindTrainingTask), name)
	if err != nil {
		return found{}, nil, err
	}
	c.note.about(f.object)
	return f, f.object.(*api.TrainingTask), nil
}

// taskToChange is task, and the caller may change it.
func (s *desk) taskToChange(ctx context.Context, c *call) (found, *api.TrainingTask, error) {
	f, task, err := s.task(ctx, c)
	if err != nil {
		return found{}, nil, err
	}
	return f, task, s.judge.mayWrite(ctx, c.who, task)
}

// markDeleted has the controller end a task and remove it.
func (s *desk) markDeleted(ctx context.Context, c *call, o api.Object) (*reply, error) {
	task := o.(*api.TrainingTask)
	if err := freeOf(c, task); err != nil {
		return nil, err
	}
	next, rev, err := s.edit(ctx, task, func(t *api.TrainingTask) bool {
		if t.Meta.DeletedAt != nil {
			return false
		}
		now := s.clock.Now().UTC()
		t.Meta.DeletedAt = &now
		return true
	})
	if err != nil {
		return nil, err
	}
	c.note.after(next)
	if rev > 0 {
		c.tell(next, "DeleteRequested", fault.T("Deletion was asked for.", "已请求删除。"))
	}
	return &reply{message: fault.T("The task is being deleted", "任务正在删除"), data: next, revision: next.Meta.Revision}, nil
}

// edit changes a task by a server verb: read, change, commit, and again when somebody was
// faster. change says whether there is anything to write; revision 0 means that nothing was.
func (s *desk) edit(ctx context.Context, task *api.TrainingTask, change func(*api.TrainingTask) bool) (*api.TrainingTask, int64, error) {
	var err error
	for range retries {
		next := store.Clone(task)
		if !change(next) {
			return task, 0, nil
		}
		next.Meta.UpdatedAt = s.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.write(ctx, store.Update(next)); err == nil {
			return next, rev, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, 0, err
		}
		fresh, again := s.again(ctx, task)
		if again != nil {
			return nil, 0, again
		}
		task = fresh
	}
	return nil, 0, err
}

// again reads a task that has moved, at least one revision further than it was known.
func (s *desk) again(ctx context.Context, task *api.TrainingTask) (*api.TrainingTask, error) {
	o, err := s.truth.Get(ctx, api.KeyOf(task), task.Meta.Revision+1)
	if err != nil {
		return nil, err
	}
	fresh := o.(*api.TrainingTask)
	if fresh.Meta.ID != task.Meta.ID {
		return nil, missing(api.MustInfo(api.KindTrainingTask), task.Meta.ID)
	}
	return fresh, nil
}

// freeOf refuses to end a task that another runs inside, unless the caller insists.
func freeOf(c *call, t *api.TrainingTask) error {
	if t.Status.InUseBy == "" || t.Spec.Stop || t.Meta.DeletedAt != nil || c.q.yes("force") {
		return nil
	}
	return fault.New(fault.Conflict, "InUse", fault.T(
		"The task %q trains inside it and would end with it.", "任务 %q 正在其中训练，将随之结束。", t.Status.InUseBy)).WithHint(fault.T(
		"Wait for its end, or insist: --yes, or force=true.", "请等待其结束；若确定，请使用 --yes 或 force=true。"))
}
