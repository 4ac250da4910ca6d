package link

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/engine"
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

// FetchArchive streams the code archive of the caller's task, and no other.
func (h *Hub) FetchArchive(req *linkpb.FetchArchiveRequest, stream linkpb.Link_FetchArchiveServer) error {
	parts := caller(stream.Context()).parts
	if err := h.cfg.Current(stream.Context(), parts); err != nil {
		return toStatus(err)
	}
	own, err := h.cfg.ArchiveOf(stream.Context(), parts.TaskID)
	if err != nil {
		return toStatus(err)
	}
	if own == "" || own != req.GetDigest() {
		return status.Error(codes.PermissionDenied, "the archive is not this task's")
	}
	key, err := blob.ContentKey("archives", own)
	if err != nil {
		return toStatus(err)
	}
	r, _, err := h.cfg.Blob.Open(stream.Context(), key)
	if err != nil {
		return toStatus(err)
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
			return toStatus(err)
		}
	}
}

// FetchSecrets streams the values that the caller's role names.
func (h *Hub) FetchSecrets(_ *linkpb.FetchSecretsRequest, stream linkpb.Link_FetchSecretsServer) error {
	parts := caller(stream.Context()).parts
	if h.cfg.SecretsOf == nil {
		return nil
	}
	if err := h.cfg.Current(stream.Context(), parts); err != nil {
		return toStatus(err)
	}
	values, err := h.cfg.SecretsOf(stream.Context(), parts.TaskID, parts.Role)
	if err != nil {
		return toStatus(err)
	}
	if h.cfg.SecretsUsed != nil && len(values) > 0 {
		remote := ""
		if p, ok := grpcpeer.FromContext(stream.Context()); ok {
			remote = p.Addr.String()
		}
		h.cfg.SecretsUsed(stream.Context(), parts, remote, slices.Collect(maps.Keys(values)))
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
func (h *Hub) PutOutput(stream linkpb.Link_PutOutputServer) error {
	ctx := stream.Context()
	parts := caller(ctx).parts
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHeader()
	if err := checkHeader(head, h.cfg.MaxOutputBytes); err != nil {
		return err
	}
	key := parts.OutputPrefix() + head.GetPath()
	if err := blob.CheckKey(key); err != nil {
		return toStatus(err)
	}
	folder, err := h.outputs.open(ctx, h.cfg.Blob, parts, h.cfg.Clock.Now())
	if err != nil {
		return toStatus(err)
	}
	slot, err := folder.reserve(head.GetPath(), head.GetSize(), parts.Attempt, h.cfg.MaxOutputBytes)
	if err != nil {
		return err
	}
	body := &outputReader{stream: stream, left: head.GetSize()}
	if slot == nil {
		_, err = io.Copy(io.Discard, body)
	} else {
		err = h.cfg.keep(ctx, parts.TaskID, KeptOutputs, head.GetSize()-slot.old.size, func() error {
			return sealed.Put(ctx, h.cfg.Blob, key, body)
		})
		slot.settle(err == nil)
	}
	if err != nil {
		return toStatus(err)
	}
	return stream.SendAndClose(&linkpb.PutOutputReply{Stored: head.GetSize()})
}

// outputReader gives the chunks of a PutOutput as a stream of exactly the promised length; anything
// else is an error, so that the blob store keeps nothing of it.
type outputReader struct {
	stream linkpb.Link_PutOutputServer
	left   int64
	buf    []byte
	ended  bool
}

func (r *outputReader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		m, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			if r.left > 0 {
				return 0, refuse("output ended %d bytes early", r.left)
			}
			r.ended = true
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		if m.GetHeader() != nil {
			return 0, refuse("header comes once")
		}
		if int64(len(m.GetData())) > r.left {
			return 0, refuse("output is longer than promised")
		}
		r.buf = m.GetData()
		r.left -= int64(len(r.buf))
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// maxOutputFiles bounds the files of one replica's outputs.
const maxOutputFiles = 100_000

// outputLedger knows how much each replica has stored, so that the limit holds over all files. It
// is rebuilt from the blob store when it doesn't know.
type outputLedger struct {
	mu      sync.Mutex
	folders map[string]*outputFolder
}

type outputFolder struct {
	mu     sync.Mutex
	loaded bool
	used   time.Time
	files  map[string]outputFile
	total  int64
}

type outputFile struct {
	size    int64
	attempt int // that wrote it; 0: before our time
}

func (l *outputLedger) open(ctx context.Context, store blob.Store, p Parts, now time.Time) (*outputFolder, error) {
	prefix := p.OutputPrefix()
	l.mu.Lock()
	f := l.folders[prefix]
	if f == nil {
		f = &outputFolder{files: map[string]outputFile{}}
		l.folders[prefix] = f
	}
	f.used = now
	l.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for after := ""; !f.loaded; {
		infos, err := store.List(ctx, prefix, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			f.put(strings.TrimPrefix(info.Key, prefix), outputFile{size: info.Size})
			after = info.Key
		}
		f.loaded = len(infos) == 0 || len(f.files) > maxOutputFiles
	}
	return f, nil
}

func (l *outputLedger) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for prefix, f := range l.folders {
		if now.Sub(f.used) > keepKnown {
			delete(l.folders, prefix)
		}
	}
}

// put notes a file, mu held.
func (f *outputFolder) put(path string, file outputFile) {
	f.total += file.size - f.files[path].size
	f.files[path] = file
}

// outputSlot is room for one file, held while it is written.
type outputSlot struct {
	folder *outputFolder
	path   string
	old    outputFile
	had    bool
	now    outputFile
}

// reserve makes room, or refuses; nil without an error means that a later attempt's file is there.
func (f *outputFolder) reserve(path string, size int64, attempt int, limit int64) (*outputSlot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, had := f.files[path]
	if had && old.attempt > attempt {
		return nil, nil
	}
	if !had && len(f.files) >= maxOutputFiles {
		return nil, status.Errorf(codes.ResourceExhausted, "more than %d output files", maxOutputFiles)
	}
	if rest := f.total - old.size; rest > limit || size > limit-rest || rest > math.MaxInt64-size {
		return nil, status.Errorf(codes.ResourceExhausted, "the outputs are over the limit of %d bytes", limit)
	}
	s := &outputSlot{folder: f, path: path, old: old, had: had, now: outputFile{size: size, attempt: attempt}}
	f.put(path, s.now)
	return s, nil
}

// settle gives the room back when the file was not stored.
func (s *outputSlot) settle(stored bool) {
	if stored {
		return
	}
	s.folder.mu.Lock()
	defer s.folder.mu.Unlock()
	if s.folder.files[s.path] != s.now {
		return
	}
	s.folder.put(s.path, s.old)
	if !s.had {
		delete(s.folder.files, s.path)
	}
}
