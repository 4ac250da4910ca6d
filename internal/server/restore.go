package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// RestoreWish is the checkpoint that a task is to go on from.
type RestoreWish struct {
	Step int64 `json:"step" minimum:"1" doc:"Of a checkpoint that the task has."`
	Stop bool  `json:"stop,omitempty" doc:"End what runs first; without it a task that runs is left alone."`
}

func (s *Server) restoreRoute(reg *schemas, row api.KindInfo, one string) *route {
	return &route{
		method: http.MethodPost, path: one + "/restore", id: "restoreTask", tag: row.Plural,
		summary: "Go on from a chosen checkpoint, also when the task has ended. What it committed beyond it counts no more.",
		kind:    row.Kind, verb: "restore", query: []param{paramProject, paramForce}, data: reg.kind(row), handle: s.restoreTask,
		body: &bodySpec{schema: schemaOf[RestoreWish](reg), media: []string{"application/json"}, required: true},
	}
}

func (s *Server) restoreTask(ctx context.Context, c *call) (*reply, error) {
	var wish RestoreWish
	if err := c.readJSON(&wish, "step, stop"); err != nil {
		return nil, err
	}
	f, task, err := s.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.archived {
		return nil, fault.New(fault.Conflict, "Archived", fault.T("The task is in the archive.", "任务已归档。")).WithHint(fault.T(
			"Start a new one from its checkpoint: fermi train run --from %s@%d.", "请从其检查点启动新任务：fermi train run --from %s@%d。", task.Meta.Name, wish.Step))
	}
	if err := mayRewind(task, wish); err != nil {
		return nil, err
	}
	found, err := s.checkpointOf(ctx, task, wish.Step)
	if err != nil {
		return nil, err
	}
	if !found.Whole("") {
		return nil, spoiled("step", found)
	}
	if err := c.freeOf(task); err != nil {
		return nil, err
	}
	if task.Status.Phase.Finished() {
		if err := s.mayReturn(ctx, task); err != nil {
			return nil, err
		}
	}
	c.note.before(task)
	var refused error
	next, rev, err := s.edit(ctx, task, func(t *api.TrainingTask) bool {
		if refused = mayRewind(t, wish); refused != nil {
			return false
		}
		t.Spec.Stop = false
		t.Spec.Restore = &api.Rewind{
			Name: found.Name, Step: found.Step, Attempt: t.Status.Attempt, Generation: t.Status.Generation, At: s.Clock.Now().UTC(),
		}
		return true
	})
	if refused != nil || err != nil {
		return nil, cmp.Or(refused, err)
	}
	c.note.after(next)
	s.tell(c, next, "RestoreRequested", fault.T("It was asked to go on from step %d.", "已请求从第 %d 步恢复。", wish.Step))
	return &reply{message: fault.T("The task goes on from step %d", "任务将从第 %d 步继续", wish.Step), data: next, revision: rev}, nil
}

// mayRewind refuses a task that is about to go, or that runs and may not be ended.
func mayRewind(t *api.TrainingTask, wish RestoreWish) error {
	switch {
	case t.Meta.DeletedAt != nil:
		return fault.New(fault.Conflict, "BeingDeleted", fault.T("The task is being deleted.", "任务正在删除。"))
	case t.Status.Phase.Finished(), t.Status.Phase == api.PhasePending && !t.Spec.Stop, wish.Stop:
		return nil
	}
	return fault.New(fault.Conflict, "StillRunning", fault.T("The task has not ended.", "任务尚未结束。")).WithHint(fault.T(
		"End it first: fermi train stop %s; or have it ended: --stop, or \"stop\": true.", "请先停止：fermi train stop %s；或使用 --stop（\"stop\": true）由系统停止。", t.Meta.Name))
}

// beginsFrom is the checkpoint that a new task names; nil: it names none.
func (s *Server) beginsFrom(ctx context.Context, c *call, t *api.TrainingTask) (*api.CheckpointOrigin, error) {
	const at = "spec.checkpoint.from"
	if t.Spec.Checkpoint == nil || t.Spec.Checkpoint.From == nil {
		return nil, nil
	}
	from := t.Spec.Checkpoint.From
	if from.Upload {
		if s.Imports == nil {
			return nil, invalid(at+".upload", fault.T("The server has no shared store, which uploaded checkpoints go to: fermi up --checkpoints-store.", "服务器没有共享存储，无法存放上传的检查点：fermi up --checkpoints-store。"))
		}
		return nil, nil
	}
	f, err := s.taskIn(ctx, c, t.Meta.Project, from.Task)
	if fault.Is(err, fault.NotFound) {
		return nil, invalid(at+".task", fault.T("There is no task %q in the project %q.", "项目 %[2]q 中没有任务 %[1]q。", from.Task, t.Meta.Project))
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
func (s *Server) taskIn(ctx context.Context, c *call, project, nameOrID string) (*api.TrainingTask, error) {
	row := api.MustInfo(api.KindTrainingTask)
	o, err := s.find(ctx, api.Key{Kind: row.Kind, Project: project, Name: nameOrID}, 0)
	if fault.Is(err, fault.NotFound) {
		o, err = s.Store.GetByID(ctx, row.Kind, nameOrID, s.newest.Load())
	}
	if fault.Is(err, fault.NotFound) {
		var f found
		f, err = s.lookArchived(ctx, c, row, project, nameOrID)
		o = f.object
	}
	if err != nil {
		return nil, err
	}
	if ok, err := s.mayRead(ctx, c.who, o); err != nil {
		return nil, err
	} else if !ok || o.GetMeta().Project != project {
		return nil, missing(row, nameOrID)
	}
	return o.(*api.TrainingTask), nil
}

// checkpointOf is the one of a task that a wish names.
func (s *Server) checkpointOf(ctx context.Context, task *api.TrainingTask, step int64) (*api.Checkpoint, error) {
	if step < 1 {
		return nil, invalid("step", fault.T("At least 1.", "至少为 1。"))
	}
	return s.checkpointAt(ctx, task, "step", step, false)
}

// checkpointAt is the newest checkpoint of a task with a step, or the newest of all for 0. shared: one that
// any node can read. A refusal names the steps that there are.
func (s *Server) checkpointAt(ctx context.Context, task *api.TrainingTask, at string, step int64, shared bool) (*api.Checkpoint, error) {
	var all []api.Checkpoint
	if s.Checkpoints != nil {
		var err error
		if all, err = s.Checkpoints.List(ctx, task.Meta.ID); err != nil {
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
		return nil, invalid(at, fault.T("The checkpoints of %q are on its nodes' disks only; a new task needs one in the shared store (fermi up --checkpoints-store).",
			"%q 的检查点仅存于其节点磁盘；新任务需要共享存储中的检查点（fermi up --checkpoints-store）。", task.Meta.Name))
	case len(all) == 0:
		return nil, invalid(at, fault.T("The task %q has no checkpoints.", "任务 %q 没有检查点。", task.Meta.Name))
	case step == 0:
		return nil, spoiled(at, &all[len(all)-1])
	}
	return nil, invalid(at, fault.T("The task %q has no checkpoint of step %d; it has those of steps %s.", "任务 %q 没有第 %d 步的检查点；现有步数：%s。", task.Meta.Name, step, stepsOf(all)))
}

// spoiled refuses a checkpoint that is known to be damaged.
func spoiled(at string, c *api.Checkpoint) error {
	var damage fault.Text
	for _, t := range c.Tiers {
		if t.Damage != nil {
			damage = t.Damage.Message
		}
	}
	return invalid(at, fault.Text{
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
