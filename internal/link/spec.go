package link

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// FetchSpec streams what the caller is.
func (d *desk) FetchSpec(_ *linkpb.FetchSpecRequest, stream linkpb.Link_FetchSpecServer) error {
	ctx := stream.Context()
	who := caller(ctx)
	if d.cfg.SpecOf == nil {
		return status.Error(codes.Unimplemented, "launchers find it in their folders")
	}
	if err := d.cfg.Current(ctx, who.parts); err != nil {
		return Status(err)
	}
	raw, err := d.cfg.SpecOf(ctx, who.name)
	if err != nil {
		return Status(err)
	}
	return sendChunks(stream, raw)
}

// FetchSpec brings what the replica is, as SpecOf gives it. After an error that is not Permanent it may be called again.
func (s *second) FetchSpec(ctx context.Context) (raw []byte, err error) {
	err = s.Bulk(func(conn *grpc.ClientConn) (err error) {
		raw, err = collect(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[linkpb.Chunk], error) {
			return linkpb.NewLinkClient(conn).FetchSpec(ctx, &linkpb.FetchSpecRequest{})
		})
		return err
	})
	return raw, err
}

func sendChunks(stream grpc.ServerStreamingServer[linkpb.Chunk], raw []byte) error {
	for len(raw) > 0 {
		n := min(len(raw), chunkBytes)
		if err := stream.Send(&linkpb.Chunk{Data: raw[:n]}); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

// collect reads a small record that comes in chunks.
func collect(ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[linkpb.Chunk], error)) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		if out.Write(chunk.GetData()); out.Len() > message.MaxManifest {
			return nil, errors.New("what the server sends is too large")
		}
	}
}
