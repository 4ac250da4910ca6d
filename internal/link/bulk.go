package link

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/intake"
	"github.com/fermi-cluster/fermi/internal/link/ledger"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// The metadata of every call.
const (
	metaToken   = "authorization"
	MetaReplica = "fermi-replica"
)

type callerKey struct{}

type callerInfo struct {
	name    engine.Name
	parts   Parts
	readers *sync.WaitGroup // of the Serve that the call came in by
}

func caller(ctx context.Context) callerInfo {
	c, _ := ctx.Value(callerKey{}).(callerInfo)
	return c
}

// Caller is the replica whose token a call came with.
func Caller(ctx context.Context) Parts { return caller(ctx).parts }

type authenticStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *authenticStream) Context() context.Context { return s.ctx }

// authenticate lets nobody in without the token of the replica it names, and no replica that is done.
func (h *Hub) authenticate(readers *sync.WaitGroup) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		names, tokens := md.Get(MetaReplica), md.Get(metaToken)
		if len(names) != 1 || len(tokens) != 1 {
			return status.Error(codes.Unauthenticated, "one replica and one token, please")
		}
		name := engine.Name(names[0])
		token, bearer := strings.CutPrefix(tokens[0], "Bearer ")
		parts, err := ParseName(name)
		if err != nil || !bearer || !h.cfg.Tokens.Check(name, token) {
			return status.Error(codes.Unauthenticated, "the token is not this replica's")
		}
		if state, _ := h.State(name); state == engine.StateDone {
			return status.Error(codes.PermissionDenied, "the replica is done; its token has ended with it")
		}
		ctx := context.WithValue(stream.Context(), callerKey{}, callerInfo{name, parts, readers})
		return next(srv, &authenticStream{stream, ctx})
	}
}

// desk gives launchers what they fetch and takes in what they hand over.
type desk struct {
	linkpb.UnimplementedLinkServer
	cfg     *HubConfig
	outputs ledger.Ledger
}

// FetchArchive streams the code archive of the caller's task, and no other.
func (d *desk) FetchArchive(req *linkpb.FetchArchiveRequest, stream linkpb.Link_FetchArchiveServer) error {
	parts := caller(stream.Context()).parts
	if err := d.cfg.Current(stream.Context(), parts); err != nil {
		return Status(err)
	}
	own, err := d.cfg.ArchiveOf(stream.Context(), parts.TaskID)
	if err != nil {
		return Status(err)
	}
	if own == "" || own != req.GetDigest() {
		return status.Error(codes.PermissionDenied, "the archive is not this task's")
	}
	key, err := blob.ContentKey("archives", own)
	if err != nil {
		return Status(err)
	}
	r, _, err := d.cfg.Blob.Open(stream.Context(), key)
	if err != nil {
		return Status(err)
	}
	defer r.Close()
	buf := make([]byte, chunkBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := stream.Send(&linkpb.Chunk{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return Status(err)
		}
	}
}

// FetchSecrets streams the values that the caller's role names.
func (d *desk) FetchSecrets(_ *linkpb.FetchSecretsRequest, stream linkpb.Link_FetchSecretsServer) error {
	parts := caller(stream.Context()).parts
	if d.cfg.SecretsOf == nil {
		return nil
	}
	if err := d.cfg.Current(stream.Context(), parts); err != nil {
		return Status(err)
	}
	values, err := d.cfg.SecretsOf(stream.Context(), parts.TaskID, parts.Role)
	if err != nil {
		return Status(err)
	}
	if d.cfg.SecretsUsed != nil && len(values) > 0 {
		remote := ""
		if p, ok := grpcpeer.FromContext(stream.Context()); ok {
			remote = p.Addr.String()
		}
		d.cfg.SecretsUsed(stream.Context(), parts, remote, slices.Collect(maps.Keys(values)))
	}
	for ref, value := range values {
		if err := stream.Send(&linkpb.SecretValue{Secret: ref.Secret, Key: ref.Key, Value: value}); err != nil {
			return err
		}
	}
	return nil
}

// PutOutput stores one file. A later attempt's file is never replaced by an earlier attempt's
// that was still on its way: such a one is taken in and dropped.
func (d *desk) PutOutput(stream linkpb.Link_PutOutputServer) error {
	ctx := stream.Context()
	parts := caller(ctx).parts
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHeader()
	if err := checkHeader(head, d.cfg.MaxOutputBytes); err != nil {
		return err
	}
	key := parts.OutputPrefix() + head.GetPath()
	if err := blob.CheckKey(key); err != nil {
		return Status(err)
	}
	if err := d.cfg.GivenUp(ctx, parts); err != nil {
		return Status(err)
	}
	folder, err := d.outputs.Open(ctx, d.cfg.Blob, parts.OutputPrefix(), d.cfg.Clock.Now())
	if err != nil {
		return Status(err)
	}
	slot, err := folder.Reserve(head.GetPath(), head.GetSize(), parts.Attempt, d.cfg.MaxOutputBytes)
	if err != nil {
		return err
	}
	body := &intake.Reader{Stream: stream, Left: head.GetSize(), Settle: func() error { return Status(d.cfg.GivenUp(ctx, parts)) }}
	if slot == nil {
		_, err = io.Copy(io.Discard, body)
	} else {
		err = d.cfg.keep(ctx, parts.TaskID, KeptOutputs, head.GetSize()-slot.Replaced(), func() error {
			return sealed.Put(ctx, d.cfg.Blob, key, body)
		})
		slot.Settle(err == nil)
	}
	if err != nil {
		return Status(err)
	}
	return stream.SendAndClose(&linkpb.PutOutputReply{Stored: head.GetSize()})
}
