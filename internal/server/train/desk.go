package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Desk finds the task that a call is about, and changes it. Safe for concurrent use.
type Desk struct {
	truth  *truth.Truth
	judge  *access.Judge
	finder *objects.Finder
	clock  clock.Clock
}

func NewDesk(f *objects.Finder, c clock.Clock) *Desk {
	return &Desk{truth: f.Truth, judge: f.Judge, finder: f, clock: c}
}

// task finds the task a path names.
func (s *Desk) task(ctx context.Context, c *rest.Call) (objects.Found, *api.TrainingTask, error) {
	name := c.R.PathValue("name")
	c.Note.Names(api.KindTrainingTask, name)
	f, err := s.finder.Resolve(ctx, c, api.MustInfo(api.KindTrainingTask), name)
	if err != nil {
		return objects.Found{}, nil, err
	}
	c.Note.About(f.Object)
	return f, f.Object.(*api.TrainingTask), nil
}

// taskToChange is task, and the caller may change it.
func (s *Desk) taskToChange(ctx context.Context, c *rest.Call) (objects.Found, *api.TrainingTask, error) {
	f, task, err := s.task(ctx, c)
	if err != nil {
		return objects.Found{}, nil, err
	}
	return f, task, s.judge.MayWrite(ctx, c.Who, task)
}

// markDeleted has the controller end a task and remove it.
func (s *Desk) markDeleted(ctx context.Context, c *rest.Call, o api.Object) (*rest.Reply, error) {
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
	c.Note.After(next)
	if rev > 0 {
		c.Tell(next, "DeleteRequested", fault.T("Deletion was asked for.", "已请求删除。"))
	}
	return &rest.Reply{Message: fault.T("The task is being deleted", "任务正在删除"), Data: next, Revision: next.Meta.Revision}, nil
}

// edit changes a task by a server verb: read, change, commit, and again when somebody was
// faster. change says whether there is anything to write; revision 0 means that nothing was.
func (s *Desk) edit(ctx context.Context, task *api.TrainingTask, change func(*api.TrainingTask) bool) (*api.TrainingTask, int64, error) {
	var err error
	for range truth.Retries {
		next := store.Clone(task)
		if !change(next) {
			return task, 0, nil
		}
		next.Meta.UpdatedAt = s.clock.Now().UTC()
		var rev int64
		if rev, err = s.truth.Write(ctx, store.Update(next)); err == nil {
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
func (s *Desk) again(ctx context.Context, task *api.TrainingTask) (*api.TrainingTask, error) {
	o, err := s.truth.Get(ctx, api.KeyOf(task), task.Meta.Revision+1)
	if err != nil {
		return nil, err
	}
	fresh := o.(*api.TrainingTask)
	if fresh.Meta.ID != task.Meta.ID {
		return nil, refuse.Missing(api.MustInfo(api.KindTrainingTask), task.Meta.ID)
	}
	return fresh, nil
}

// freeOf refuses to end a task that another runs inside, unless the caller insists.
func freeOf(c *rest.Call, t *api.TrainingTask) error {
	if t.Status.InUseBy == "" || t.Spec.Stop || t.Meta.DeletedAt != nil || c.Query.Yes("force") {
		return nil
	}
	return fault.New(fault.Conflict, "InUse", fault.T(
		"The task %q trains inside it and would end with it.", "任务 %q 正在其中训练，将随之结束。", t.Status.InUseBy)).WithHint(fault.T(
		"Wait for its end, or insist: --yes, or force=true.", "请等待其结束；若确定，请使用 --yes 或 force=true。"))
}
