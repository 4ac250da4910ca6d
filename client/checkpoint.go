package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Checkpoints lists what of a task outlives its processes, oldest first.
func (c checkpoints) Checkpoints(ctx context.Context, project, name string) ([]api.Checkpoint, error) {
	p, err := taskPath(name, "checkpoints")
	if err != nil {
		return nil, err
	}
	var page struct {
		Items []api.Checkpoint `json:"items"`
	}
	err = c.wire.read(ctx, p, inProject(project), &page)
	return page.Items, err
}

// RestoreWish is the step to go on from. Stop: what runs is ended first.
type RestoreWish struct {
	Step int64 `json:"step"`
	Stop bool  `json:"stop,omitempty"`
}

// Restore has a task go on from a checkpoint of its own, also when it has ended.
func (c checkpoints) Restore(ctx context.Context, project, name string, wish RestoreWish, opts ...Option) error {
	p, err := taskPath(name, "restore")
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodPost, p, inProject(project, opts...), wish, nil)
}

// Pin keeps the checkpoint of a step whatever the policy says; pinned false: no longer.
func (c checkpoints) Pin(ctx context.Context, project, name string, step int64, pinned bool) error {
	p, err := taskPath(name, "pin")
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodPost, p, inProject(project), map[string]any{"step": step, "unpin": !pinned}, nil)
}

// Verify has the server read back every byte of the checkpoint of a step in the shared store, or of all with step 0. It
// gives those that it begins with, as they were; Checkpoints tells when each is done.
func (c checkpoints) Verify(ctx context.Context, project, name string, step int64) ([]api.Checkpoint, error) {
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
	err = c.wire.write(ctx, http.MethodPost, p, inProject(project), body, &begun)
	return begun.Items, err
}

// OpenRank opens what a rank has of the checkpoint of a step, as the server sends it: the file of a slot from its byte 4096 on,
// then its first 4096 bytes, then the SHA-256 of all that. length is that of all of it.
func (c checkpoints) OpenRank(ctx context.Context, project, name string, step int64, rank int) (body io.ReadCloser, length int64, err error) {
	p, err := taskPath(name, fmt.Sprintf("checkpoints/%d/ranks/%d", step, rank))
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.wire.send(ctx, request{method: http.MethodGet, path: p, query: inProject(project)})
	if err != nil {
		return nil, 0, err
	}
	return resp.Body, resp.ContentLength, nil
}

// PutRank uploads a rank's state into a task that waits for its checkpoint: the file of a slot as header (4096 bytes), tree,
// table, data; size is that of all of it. What it gives goes to Import.
func (c checkpoints) PutRank(ctx context.Context, project, name string, step int64, rank int, r io.Reader, size int64) (part api.CheckpointPart, err error) {
	p, err := taskPath(name, fmt.Sprintf("checkpoints/%d/ranks/%d", step, rank))
	if err != nil {
		return part, err
	}
	resp, err := c.wire.send(ctx, request{method: http.MethodPut, path: p, query: inProject(project), body: r, length: size, typ: "application/octet-stream"})
	if err != nil {
		return part, err
	}
	err = c.wire.decode(ctx, resp, &part)
	return part, err
}

// Import makes a checkpoint of what PutRank uploaded of all ranks; the task begins from it.
func (c checkpoints) Import(ctx context.Context, project, name string, step int64, parts []api.CheckpointPart) error {
	p, err := taskPath(name, "checkpoints")
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodPost, p, inProject(project), map[string]any{"step": step, "parts": parts}, nil)
}
