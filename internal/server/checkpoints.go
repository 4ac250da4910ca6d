package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
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
