package train

import (
	"cmp"
	"context"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// RestoreWish is the checkpoint that a task is to go on from.
type RestoreWish struct {
	Step int64 `json:"step" minimum:"1" doc:"Of a checkpoint that the task has."`
	Stop bool  `json:"stop,omitempty" doc:"End what runs first; without it a task that runs is left alone."`
}

func (s *States) restoreRoute(reg *rest.Schemas, row api.KindInfo, one string) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: one + "/restore", ID: "restoreTask", Tag: row.Plural,
		Summary: "Go on from a chosen checkpoint, also when the task has ended. What it committed beyond it counts no more.",
		Kind:    row.Kind, Verb: "restore", Query: []rest.Param{rest.ParamProject, rest.ParamForce}, Data: reg.Kind(row), Handle: s.restoreTask,
		Body: &rest.BodySpec{Schema: rest.SchemaOf[RestoreWish](reg), Media: rest.JsonMedia, Required: true},
	}
}

func (s *States) restoreTask(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish RestoreWish
	if err := c.ReadJSON(&wish, "step, stop"); err != nil {
		return nil, err
	}
	f, task, err := s.desk.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.Archived {
		return nil, fault.New(fault.Conflict, "Archived", fault.T("The task is in the archive.", "任务已归档。")).WithHint(fault.T(
			"Start a new one from its checkpoint: fermi train run --from %s@%d.", "请从其检查点启动新任务：fermi train run --from %s@%d。", task.Meta.Name, wish.Step))
	}
	if err := mayRewind(task, wish); err != nil {
		return nil, err
	}
	found, err := s.origins.checkpointOf(ctx, task, wish.Step)
	if err != nil {
		return nil, err
	}
	if !found.Whole("") {
		return nil, spoiled("step", found)
	}
	if err := freeOf(c, task); err != nil {
		return nil, err
	}
	if task.Status.Phase.Finished() {
		if err := s.gate.MayReturn(ctx, task); err != nil {
			return nil, err
		}
	}
	c.Note.Before(task)
	var refused error
	next, rev, err := s.desk.edit(ctx, task, func(t *api.TrainingTask) bool {
		if refused = mayRewind(t, wish); refused != nil {
			return false
		}
		t.Spec.Stop = false
		t.Spec.Restore = &api.Rewind{
			Name: found.Name, Step: found.Step, Attempt: t.Status.Attempt, Generation: t.Status.Generation, At: s.desk.clock.Now().UTC(),
		}
		return true
	})
	if refused != nil || err != nil {
		return nil, cmp.Or(refused, err)
	}
	c.Note.After(next)
	c.Tell(next, "RestoreRequested", fault.T("It was asked to go on from step %d.", "已请求从第 %d 步恢复。", wish.Step))
	return &rest.Reply{Message: fault.T("The task goes on from step %d", "任务将从第 %d 步继续", wish.Step), Data: next, Revision: rev}, nil
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
