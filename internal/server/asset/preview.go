package asset

import (
	"context"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/preview"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// preview shows the beginning of a file.
func (s *pages) preview(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	o, err := s.open(ctx, c, a)
	if err != nil {
		return nil, err
	}
	r, f, err := s.bytesOf(ctx, o, c.Query.Text("path"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	out, err := preview.Of(r, f)
	if err == nil {
		err = r.Err()
	}
	return &rest.Reply{Data: out, Revision: o.version.Meta.Revision}, err
}
