package client

import (
	"context"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// NodeFault has a device act as if it had a fault: it is closed, what runs on it leaves, it is tested and, told to heal, returns.
func NodeFault(ctx context.Context, c *Client, node string, device int, kind string, heal bool) (*api.Node, error) {
	p, err := objectPath(api.KindNode, node)
	if err != nil {
		return nil, err
	}
	out := &api.Node{}
	return out, c.write(ctx, http.MethodPost, p+"/fault", nil, map[string]any{"device": device, "kind": kind, "heal": heal}, out)
}
