package train

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Origins finds the checkpoints that tasks name.
type Origins struct {
	truth   *truth.Truth
	judge   *access.Judge
	finder  *objects.Finder
	saved   Checkpoints // nil: there are none
	uploads bool        // there is a shared store, which uploaded ones go to
}

func NewOrigins(f *objects.Finder, saved Checkpoints, uploads bool) *Origins {
	return &Origins{truth: f.Truth, judge: f.Judge, finder: f, saved: saved, uploads: uploads}
}

// beginsFrom is the checkpoint that a new task names; nil: it names none.
func (s *Origins) beginsFrom(ctx context.Context, c *rest.Call, t *api.TrainingTask) (*api.CheckpointOrigin, error) {
	const at = "spec.checkpoint.from"
	if t.Spec.Checkpoint == nil || t.Spec.Checkpoint.From == nil {
		return nil, nil
	}
	from := t.Spec.Checkpoint.From
	if from.Upload {
		if !s.uploads {
			return nil, refuse.Invalid(at+".upload", fault.T("The server has no shared store, which uploaded checkpoints go to: fermi up --checkpoints-store.", "服务器没有共享存储，无法存放上传的检查点：fermi up --checkpoints-store。"))
		}
		return nil, nil
	}
	f, err := s.taskIn(ctx, c, t.Meta.Project, from.Task)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Invalid(at+".task", fault.T("There is no task %q in the project %q.", "项目 %[2]q 中没有任务 %[1]q。", from.Task, t.Meta.Project))
	}
	if err != nil {
		return nil, err
	}
	found, err := s.checkpointAt(ctx, f, at+".step", from.Step, true)
	if err != nil {
		return nil, err
	}
	if !found.Whole("shared") {
		return nil, spoiled(at+".step", found)
	}
	return &api.CheckpointOrigin{TaskID: f.Meta.ID, Name: found.Name, Step: found.Step}, nil
}

// taskIn finds a task of a project that the caller may see, by name or id, also in the archive.
func (s *Origins) taskIn(ctx context.Context, c *rest.Call, project, nameOrID string) (*api.TrainingTask, error) {
	row := api.MustInfo(api.KindTrainingTask)
	o, err := s.truth.Find(ctx, api.Key{Kind: row.Kind, Project: project, Name: nameOrID}, 0)
	if fault.Is(err, fault.NotFound) {
		o, err = s.truth.GetByID(ctx, row.Kind, nameOrID, s.truth.Newest())
	}
	if fault.Is(err, fault.NotFound) {
		var f objects.Found
		f, err = s.finder.LookArchived(ctx, c, row, project, nameOrID)
		o = f.Object
	}
	if err != nil {
		return nil, err
	}
	if ok, err := s.judge.MayRead(ctx, c.Who, o); err != nil {
		return nil, err
	} else if !ok || o.GetMeta().Project != project {
		return nil, refuse.Missing(row, nameOrID)
	}
	return o.(*api.TrainingTask), nil
}

// checkpointOf is the one of a task that a wish names.
func (s *Origins) checkpointOf(ctx context.Context, task *api.TrainingTask, step int64) (*api.Checkpoint, error) {
	if step < 1 {
		return nil, refuse.Invalid("step", fault.T("At least 1.", "至少为 1。"))
	}
	return s.checkpointAt(ctx, task, "step", step, false)
}

// checkpointAt is the newest checkpoint of a task with a step, or the newest of all for 0. shared: one that
// any node can read. A refusal names the steps that there are.
func (s *Origins) checkpointAt(ctx context.Context, task *api.TrainingTask, at string, step int64, shared bool) (*api.Checkpoint, error) {
	var all []api.Checkpoint
	if s.saved != nil {
		var err error
		if all, err = s.saved.List(ctx, task.Meta.ID); err != nil {
			return nil, err
		}
	}
	near := len(all)
	if shared {
		all = slices.DeleteFunc(all, func(c api.Checkpoint) bool { return !c.In("shared") })
	}
	for i := len(all) - 1; i >= 0; i-- {
		if (step == 0 && (!shared || all[i].Whole("shared")) || all[i].Step == step) && !task.Spec.Restore.Abandons(all[i].Name) {
			return &all[i], nil
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // of the future that was given up, where it is named
		if step > 0 && all[i].Step == step {
			return &all[i], nil
		}
	}
	switch {
	case len(all) == 0 && near > 0:
		return nil, refuse.Invalid(at, fault.T("The checkpoints of %q are on its nodes' disks only; a new task needs one in the shared store (fermi up --checkpoints-store).",
			"%q 的检查点仅存于其节点磁盘；新任务需要共享存储中的检查点（fermi up --checkpoints-store）。", task.Meta.Name))
	case len(all) == 0:
		return nil, refuse.Invalid(at, fault.T("The task %q has no checkpoints.", "任务 %q 没有检查点。", task.Meta.Name))
	case step == 0:
		return nil, spoiled(at, &all[len(all)-1])
	}
	return nil, refuse.Invalid(at, fault.T("The task %q has no checkpoint of step %d; it has those of steps %s.", "任务 %q 没有第 %d 步的检查点；现有步数：%s。", task.Meta.Name, step, stepsOf(all)))
}

// spoiled refuses a checkpoint that is known to be damaged.
func spoiled(at string, c *api.Checkpoint) error {
	var damage fault.Text
	for _, t := range c.Tiers {
		if t.Damage != nil {
			damage = t.Damage.Message
		}
	}
	return refuse.Invalid(at, fault.Text{
		EN: fmt.Sprintf("The checkpoint of step %d can't be read whole; choose another. %s", c.Step, damage.EN),
		ZH: fmt.Sprintf("第 %d 步的检查点无法完整读取，请另选一个。%s", c.Step, damage.ZH),
	})
}

// stepsOf names the newest steps, at most 20.
func stepsOf(all []api.Checkpoint) string {
	var out []string
	for _, c := range all[max(0, len(all)-20):] {
		out = append(out, fmt.Sprint(c.Step))
	}
	return strings.Join(out, ", ")
}
