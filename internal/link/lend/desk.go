package lend

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Bytes is where those of versions lie; asset.Repo.
type Bytes interface {
	// Manifest is the list with this name, verified. Fault NotFound: there is none.
	Manifest(ctx context.Context, project, digest string, elsewhere bool) (*asset.Manifest, []byte, error)
	// ReadChunk reads a chunk into buf, of asset.ChunkMax bytes, verified.
	ReadChunk(ctx context.Context, project string, c asset.Chunk, buf []byte) ([]byte, error)
}

// Names says which project's bytes a replica may have under the hash of a list. Fault Forbidden: its work does not name that, or its attempt is over.
type Names func(ctx context.Context, of link.Parts, digest string) (project string, err error)

// Desk gives launchers what they ask for. Safe for concurrent use.
type Desk struct {
	linkpb.UnimplementedAssetsServer
	bytes Bytes
	names Names

	mu     sync.Mutex
	recent []recent // lists that were asked for lately, the newest last
}

type recent struct {
	project, digest string
	list            *asset.Manifest
	raw             []byte
}

const (
	maxRecent = 4
	maxCount  = 256       // chunks of one call
	pieceSize = 256 << 10 // of a message
)

// NewDesk makes one.
func NewDesk(bytes Bytes, names Names) *Desk { return &Desk{bytes: bytes, names: names} }

// Register is for Hub.Serve, which lets nobody in without the token of a replica.
func (d *Desk) Register(r grpc.ServiceRegistrar) { linkpb.RegisterAssetsServer(r, d) }

// Fetch streams a list, or a run of chunks.
func (d *Desk) Fetch(req *linkpb.FetchAssetRequest, stream linkpb.Assets_FetchServer) error {
	ctx := stream.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	names := md.Get(link.MetaReplica)
	if len(names) != 1 {
		return status.Error(codes.Unauthenticated, "one replica, please")
	}
	parts, err := link.ParseName(engine.Name(names[0]))
	if err != nil {
		return status.Error(codes.Unauthenticated, "the replica has no such name")
	}
	if _, err := asset.ParseHash(req.GetDigest()); err != nil {
		return link.Status(err)
	}
	project, err := d.names(ctx, parts, req.GetDigest())
	if err != nil {
		return link.Status(err)
	}
	r, err := d.open(ctx, project, req.GetDigest())
	if err != nil {
		return link.Status(err)
	}
	if req.GetCount() == 0 {
		return send(stream, r.raw)
	}
	first, count := int(req.GetFirst()), int(req.GetCount())
	if first < 0 || count < 0 || count > maxCount || first > len(r.list.Chunks)-count {
		return status.Error(codes.InvalidArgument, "the version has no such chunks")
	}
	buf := asset.Buffers.Get().(*[]byte)
	defer asset.Buffers.Put(buf)
	for _, c := range r.list.Chunks[first : first+count] {
		p, err := d.bytes.ReadChunk(ctx, project, c, *buf)
		if err != nil {
			return link.Status(err)
		}
		if err := send(stream, p); err != nil {
			return err
		}
	}
	return nil
}

func send(stream linkpb.Assets_FetchServer, raw []byte) error {
	for len(raw) > 0 {
		n := min(len(raw), pieceSize)
		if err := stream.Send(&linkpb.Chunk{Data: raw[:n]}); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

// open reads a list, or remembers it.
func (d *Desk) open(ctx context.Context, project, digest string) (recent, error) {
	d.mu.Lock()
	for _, r := range d.recent {
		if r.project == project && r.digest == digest {
			d.mu.Unlock()
			return r, nil
		}
	}
	d.mu.Unlock()
	list, raw, err := d.bytes.Manifest(ctx, project, digest, false)
	if fault.ReasonOf(err) == "BadManifest" { // its bytes lie elsewhere: only the list is here
		list, raw, err = d.bytes.Manifest(ctx, project, digest, true)
	}
	if err != nil {
		return recent{}, err
	}
	r := recent{project, digest, list, raw}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recent = append(d.recent, r); len(d.recent) > maxRecent {
		d.recent = d.recent[1:]
	}
	return r, nil
}
