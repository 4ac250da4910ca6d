package client

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Checkpoints lists what of a task outlives its processes, oldest first.
func (c *Client) Checkpoints(ctx context.Context, project, name string) ([]api.Checkpoint, error) {
	p, err := taskPath(name, "checkpoints")
	if err != nil {
		return nil, err
	}
	var page struct {
		Items []api.Checkpoint `json:"items"`
	}
	err = c.read(ctx, p, inProject(project), &page)
	return page.Items, err
}
