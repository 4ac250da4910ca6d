package client

import (
	"context"
	"net/http"

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

// RestoreWish is the step to go on from. Stop: what runs is ended first.
type RestoreWish struct {
	Step int64 `json:"step"`
	Stop bool  `json:"stop,omitempty"`
}

// Restore has a task go on from a checkpoint of its own, also when it has ended.
func (c *Client) Restore(ctx context.Context, project, name string, wish RestoreWish, opts ...Option) error {
	p, err := taskPath(name, "restore")
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodPost, p, inProject(project, opts...), wish, nil)
}

// Pin keeps the checkpoint of a step whatever the policy says; pinned false: no longer.
func (c *Client) Pin(ctx context.Context, project, name string, step int64, pinned bool) error {
	p, err := taskPath(name, "pin")
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodPost, p, inProject(project), map[string]any{"step": step, "unpin": !pinned}, nil)
}

// Verify has the server read back every byte of the checkpoint of a step in the shared store, or of all with step 0. It
// gives those that it begins with, as they were; Checkpoints tells when each is done.
func (c *Client) Verify(ctx context.Context, project, name string, step int64) ([]api.Checkpoint, error) {
	p, err := taskPath(name, "verify")
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if step != 0 {
		body["step"] = step
	}
	var begun struct {
		Items []api.Checkpoint `json:"items"`
	}
	err = c.write(ctx, http.MethodPost, p, inProject(project), body, &begun)
	return begun.Items, err
}
