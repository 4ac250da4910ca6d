package link

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// FetchManifest streams the record of a checkpoint that the caller's task may restore, and no other.
func (d *desk) FetchManifest(req *linkpb.FetchManifestRequest, stream linkpb.Link_FetchManifestServer) error {
	ctx := stream.Context()
	parts := caller(ctx).parts
	if d.cfg.ManifestOf == nil || req.GetOrigin() == nil || message.CheckOrigin(req.GetOrigin()) != nil {
		return status.Error(codes.InvalidArgument, "no checkpoint")
	}
	if err := d.cfg.Current(ctx, parts); err != nil {
		return Status(err)
	}
	raw, err := d.cfg.ManifestOf(ctx, parts.TaskID, *message.OriginOf(req.GetOrigin()))
	if err != nil {
		return Status(err)
	}
	return sendChunks(stream, raw)
}

// FetchManifest brings the record of a checkpoint; fault NotFound where the server has none. After
// another error that is not Permanent it may be called again.
func (s *second) FetchManifest(ctx context.Context, from message.Origin) (raw []byte, err error) {
	err = s.Bulk(func(conn *grpc.ClientConn) (err error) {
		raw, err = collect(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[linkpb.Chunk], error) {
			return linkpb.NewLinkClient(conn).FetchManifest(ctx, &linkpb.FetchManifestRequest{Origin: from.Message()})
		})
		return err
	})
	if status.Code(err) == codes.NotFound {
		err = fault.New(fault.NotFound, "NoCheckpoint", fault.T("The server knows of no such checkpoint.", "服务器没有该检查点的记录。")).Because(err)
	}
	return raw, err
}
