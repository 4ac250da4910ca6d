package lend

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Source is a launcher's link that brings versions, too.
type Source struct{ *link.Client }

// FetchAsset writes the list of a version (count 0), or a run of its chunks one after the other. After an error that is not link.Permanent it
// may be called again.
func (l Source) FetchAsset(ctx context.Context, digest string, first, count int, w io.Writer) error {
	return l.Client.Bulk(func(conn *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := linkpb.NewAssetsClient(conn).Fetch(ctx, &linkpb.FetchAssetRequest{Digest: digest, First: int32(first), Count: int32(count)})
		if err != nil {
			return err
		}
		for {
			piece, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := w.Write(piece.GetData()); err != nil {
				return err
			}
		}
	})
}
