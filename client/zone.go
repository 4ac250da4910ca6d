package client

import (
	"context"

	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
)

// ZoneMatrix is how far zones are from each other: declared, measured, and which of both is used.
func ZoneMatrix(ctx context.Context, c *Client) (out roundtrip.ZoneMatrix, err error) {
	err = c.read(ctx, "/zone-matrix", nil, &out)
	return out, err
}
