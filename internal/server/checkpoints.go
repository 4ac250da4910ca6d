package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

func checkpointsSchema(reg *schemas) *huma.Schema {
	return object([]string{"items"}, map[string]*huma.Schema{"items": listOf(schemaOf[api.Checkpoint](reg))})
}

// checkpoints lists what of a task outlives its processes, oldest first.
func (s *Server) checkpoints(ctx context.Context, c *call) (*reply, error) {
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	items := []api.Checkpoint{}
	if s.Checkpoints != nil {
		found, err := s.Checkpoints.List(ctx, task.Meta.ID)
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	return &reply{data: map[string]any{"items": items}, revision: task.Meta.Revision}, nil
}

// PinWish names a checkpoint that is to stay, or need not any more.
type PinWish struct {
	Step  int64 `json:"step" minimum:"1" doc:"Of a checkpoint that the task has."`
	Unpin bool  `json:"unpin,omitempty" doc:"Let the policy decide about it again."`
}

func (s *Server) pinRoute(reg *schemas, row api.KindInfo, one string) *route {
	return &route{
		method: http.MethodPost, path: one + "/pin", id: "pinCheckpoint", tag: row.Plural,
		summary: "Keep a checkpoint of the task whatever its policy says, or no longer.",
		kind:    row.Kind, verb: "pin", query: []param{paramProject}, data: schemaOf[api.Checkpoint](reg), handle: s.pinCheckpoint,
		body: &bodySpec{schema: schemaOf[PinWish](reg), media: []string{"application/json"}, required: true},
	}
}

func (s *Server) pinCheckpoint(ctx context.Context, c *call) (*reply, error) {
	var wish PinWish
	if err := c.readJSON(&wish, "step, unpin"); err != nil {
		return nil, err
	}
	_, task, err := s.task(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, c.who, task); err != nil {
		return nil, err
	}
	found, err := s.checkpointOf(ctx, task, wish.Step)
	if err != nil {
		return nil, err
	}
	if err := s.Checkpoints.Pin(ctx, task.Meta.ID, found.Name, !wish.Unpin); err != nil {
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
	c.note.before(task)
	c.note.after(next)
	s.tell(c, task, "CheckpointPinned", done)
	return &reply{message: done, data: found, revision: task.Meta.Revision}, nil
}
