package train

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/store"
)

func checkpointsSchema(reg *rest.Schemas) *huma.Schema {
	return rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[api.Checkpoint](reg))})
}

// States serves checkpoints: what of the ranks' states outlives them.
type States struct {
	desk    *Desk
	gate    *Gate
	origins *Origins
	saved   Checkpoints // nil: there are none
	imports Imports     // nil: there is no shared store
	streams *stream.Streams
	auditor *audit.Auditor
	limits  limit.Limits
}

func NewStates(d *Desk, g *Gate, imports Imports, st *stream.Streams, a *audit.Auditor, l limit.Limits) *States {
	return &States{desk: d, gate: g, origins: g.origins, saved: g.origins.saved, imports: imports, streams: st, auditor: a, limits: l}
}

// Routes are about the checkpoints of a task.
func (s *States) Routes(reg *rest.Schemas) []*rest.Route {
	row := api.MustInfo(api.KindTrainingTask)
	one := rest.Prefix + "/" + row.Plural + "/{name}"
	return append(s.importRoutes(reg, row, one),
		s.restoreRoute(reg, row, one), s.pinRoute(reg, row, one), s.verifyRoute(reg, row, one), s.imageRoute(row, one),
		readRoute("checkpoints", "listTaskCheckpoints", "What of its ranks' states outlives them.", []rest.Param{rest.ParamProject, rest.ParamRevision}, checkpointsSchema(reg), s.checkpoints))
}

// checkpoints lists what of a task outlives its processes, oldest first.
func (s *States) checkpoints(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	items := []api.Checkpoint{}
	if s.saved != nil {
		found, err := s.saved.List(ctx, task.Meta.ID)
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	return &rest.Reply{Data: map[string]any{"items": items}, Revision: task.Meta.Revision}, nil
}

// PinWish names a checkpoint that is to stay, or need not any more.
type PinWish struct {
	Step  int64 `json:"step" minimum:"1" doc:"Of a checkpoint that the task has."`
	Unpin bool  `json:"unpin,omitempty" doc:"Let the policy decide about it again."`
}

func (s *States) pinRoute(reg *rest.Schemas, row api.KindInfo, one string) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: one + "/pin", ID: "pinCheckpoint", Tag: row.Plural,
		Summary: "Keep a checkpoint of the task whatever its policy says, or no longer.",
		Kind:    row.Kind, Verb: "pin", Query: []rest.Param{rest.ParamProject}, Data: rest.SchemaOf[api.Checkpoint](reg), Handle: s.pinCheckpoint,
		Body: &rest.BodySpec{Schema: rest.SchemaOf[PinWish](reg), Media: rest.JsonMedia, Required: true},
	}
}

func (s *States) pinCheckpoint(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish PinWish
	if err := c.ReadJSON(&wish, "step, unpin"); err != nil {
		return nil, err
	}
	_, task, err := s.desk.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	found, err := s.origins.checkpointOf(ctx, task, wish.Step)
	if err != nil {
		return nil, err
	}
	if err := s.saved.Pin(ctx, task.Meta.ID, found.Name, !wish.Unpin); err != nil {
		return nil, err
	}
	for i := range found.Tiers {
		found.Tiers[i].Pinned = !wish.Unpin
	}
	done := fault.T("The checkpoint of step %d stays.", "第 %d 步的检查点将一直保留。", wish.Step)
	if wish.Unpin {
		done = fault.T("The checkpoint of step %d is no longer pinned.", "已取消固定第 %d 步的检查点。", wish.Step)
	}
	next := store.Clone(task) // for the audit: what was asked
	next.Status.Message = done
	c.Note.Before(task)
	c.Note.After(next)
	c.Tell(task, "CheckpointPinned", done)
	return &rest.Reply{Message: done, Data: found, Revision: task.Meta.Revision}, nil
}

// VerifyWish names the checkpoints that are to be read back.
type VerifyWish struct {
	Step int64 `json:"step,omitempty" explicit:"nonzero" minimum:"1" doc:"Of a checkpoint that the task has in the shared store; all of them when absent."`
}

func (s *States) verifyRoute(reg *rest.Schemas, row api.KindInfo, one string) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: one + "/verify", ID: "verifyCheckpoints", Tag: row.Plural,
		Summary: "Have every byte of checkpoints in the shared store read back and checked. It begins now; the list of checkpoints has the result of each.",
		Kind:    row.Kind, Verb: "verify", Query: []rest.Param{rest.ParamProject}, Data: checkpointsSchema(reg), Handle: s.verifyCheckpoints,
		Body: &rest.BodySpec{Schema: rest.SchemaOf[VerifyWish](reg), Media: rest.JsonMedia, Required: true},
	}
}

func (s *States) verifyCheckpoints(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	var wish VerifyWish
	if err := c.ReadJSON(&wish, "step"); err != nil {
		return nil, err
	}
	_, task, err := s.desk.taskToChange(ctx, c)
	if err != nil {
		return nil, err
	}
	items, err := s.toVerify(ctx, task, wish.Step)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, one := range items {
		names = append(names, one.Name)
	}
	if err := s.saved.Verify(ctx, task.Meta.ID, names); err != nil {
		return nil, err
	}
	begun := fault.T("%d [checkpoint is|checkpoints are] being verified.", "正在校验 %d 个检查点。", len(names))
	next := store.Clone(task) // for the audit: what was asked
	next.Status.Message = begun
	c.Note.Before(task)
	c.Note.After(next)
	return &rest.Reply{Message: begun, Data: map[string]any{"items": items}, Revision: task.Meta.Revision}, nil
}

// toVerify are the checkpoints that the server can read: it reaches the shared store, and no disks of nodes.
func (s *States) toVerify(ctx context.Context, task *api.TrainingTask, step int64) ([]api.Checkpoint, error) {
	if step < 0 {
		return nil, refuse.Invalid("step", fault.T("At least 1; all when absent.", "至少为 1；省略则校验全部。"))
	}
	var all []api.Checkpoint
	if step > 0 {
		one, err := s.origins.checkpointOf(ctx, task, step)
		if err != nil {
			return nil, err
		}
		all = []api.Checkpoint{*one}
	} else if s.saved != nil {
		var err error
		if all, err = s.saved.List(ctx, task.Meta.ID); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(c api.Checkpoint) bool { return !c.In("shared") })
	if len(all) == 0 && step == 0 {
		return nil, fault.New(fault.Conflict, "NothingToVerify", fault.T("The task has no checkpoint in the shared store; those on nodes' disks are verified when they are restored.",
			"该任务在共享存储中没有检查点；节点磁盘上的检查点在恢复时校验。"))
	}
	if len(all) == 0 {
		return nil, refuse.Invalid("step", fault.T("There is no such checkpoint in the shared store; those on nodes' disks are verified when they are restored.",
			"共享存储中没有该检查点；节点磁盘上的检查点在恢复时校验。"))
	}
	return all, nil
}
