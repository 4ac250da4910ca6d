package carry

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// parallel is how many chunks are on their way at once.
const parallel = 8

// Target takes chunks; client.Asset does.
type Target interface {
	// HasChunk says whether a chunk is durable there. It may be asked again after an error.
	HasChunk(ctx context.Context, h asset.Hash) (bool, error)
	// PutChunk returns after the chunk is durable.
	PutChunk(ctx context.Context, h asset.Hash, data []byte) error
}

// Progress is how far a transfer is; safe to read at any time.
type Progress struct {
	Total, Done, Sent atomic.Int64 // bytes: in all, dealt with, on the wire
	Chunks            atomic.Int64 // that were sent
}

// Found is what lies in a folder, or elsewhere.
type Found struct {
	Files []asset.File
	// Listing is the same, with what names the state of each file.
	Listing []asset.File
	// Skipped are paths that are no files: links, sockets.
	Skipped []string
	open    asset.Opener
	close   func() error
}

// Elsewhere is what was listed in another place than a folder.
func Elsewhere(listing []asset.File, skipped []string, open func(asset.File) (io.ReadCloser, error)) *Found {
	by := make(map[string]asset.File, len(listing))
	for _, f := range listing {
		by[f.Path] = f
	}
	return &Found{
		Files: asset.Untagged(listing), Listing: listing, Skipped: skipped, close: func() error { return nil },
		open: func(path string) (io.ReadCloser, error) { return open(by[path]) },
	}
}

// Scan lists a folder, or one file. The caller closes what it found.
func Scan(at string) (*Found, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, noSource(at, err)
	}
	dir, single := at, ""
	if !info.IsDir() {
		dir, single = filepath.Dir(at), filepath.Base(at)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, noSource(at, err)
	}
	f := &Found{close: root.Close, open: func(path string) (io.ReadCloser, error) { return root.Open(path) }} // nothing leads out of the folder
	if single != "" {
		f.Files = []asset.File{{Path: single, Size: info.Size(), Exec: info.Mode()&0o100 != 0}}
		return f, asset.CheckPath(single)
	}
	f.Listing, f.Skipped, err = asset.Walk(root.FS())
	if err == nil && len(f.Listing) == 0 {
		err = fault.New(fault.Invalid, "EmptyFolder", fault.T("There are no files in %s.", "%s 中没有文件。", at))
	}
	if err != nil {
		_ = f.Close()
		return nil, fault.From(err)
	}
	f.Files = asset.Untagged(f.Listing)
	return f, nil
}

func noSource(at string, cause error) error {
	return fault.New(fault.Invalid, "NoSource", fault.T("%s can't be read.", "无法读取 %s。", at)).Because(cause)
}

// Close lets go of it.
func (f *Found) Close() error { return f.close() }

// Open opens one of the files.
func (f *Found) Open(path string) (io.ReadCloser, error) { return f.open(path) }

// Up reads all files once and sends the chunks that the target has not; the manifest names all.
func Up(ctx context.Context, to Target, f *Found, p *Progress) (*asset.Manifest, error) {
	cuts := asset.Cut(f.Files)
	m := &asset.Manifest{Version: asset.Format, Files: f.Files, Chunks: make([]asset.Chunk, len(cuts))}
	p.Total.Store(m.Size())
	group, way := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range cuts {
		if way.Err() != nil {
			break
		}
		group.Go(func() error {
			buf := asset.Buffers.Get().(*[]byte)
			defer asset.Buffers.Put(buf)
			data, err := cuts[i].Read(f.Files, f.Open, *buf)
			if err != nil {
				return err
			}
			m.Chunks[i] = asset.Chunk{Hash: asset.Sum(data), Bytes: uint32(len(data))}
			return send(way, to, m.Chunks[i].Hash, data, p)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return m, ctx.Err()
}

func send(ctx context.Context, to Target, h asset.Hash, data []byte, p *Progress) error {
	there, err := to.HasChunk(ctx, h)
	if err != nil {
		return err
	}
	if !there {
		if err := to.PutChunk(ctx, h, data); err != nil {
			return err
		}
		p.Sent.Add(int64(len(data)))
		p.Chunks.Add(1)
	}
	p.Done.Add(int64(len(data)))
	return nil
}

// Rest sends chunks that went missing meanwhile.
func Rest(ctx context.Context, to Target, f *Found, m *asset.Manifest, missing []int, p *Progress) error {
	cuts := asset.Cut(f.Files)
	buf := make([]byte, asset.ChunkMax)
	for _, i := range missing {
		if i < 0 || i >= len(cuts) {
			return fault.New(fault.Internal, "BadAnswer", fault.T("The server asks for a chunk that there is not.", "服务器请求了不存在的数据块。"))
		}
		data, err := cuts[i].Read(f.Files, f.Open, buf)
		if err != nil {
			return err
		}
		if asset.Sum(data) != m.Chunks[i].Hash {
			return fault.New(fault.Conflict, "SourceChanged", fault.T("The files changed while they were read.", "文件在读取过程中发生变化。"))
		}
		if err := to.PutChunk(ctx, m.Chunks[i].Hash, data); err != nil {
			return err
		}
		p.Sent.Add(int64(len(data)))
		p.Chunks.Add(1)
	}
	return nil
}

// inFolder says that a path has no part that could lead elsewhere.
func inFolder(p string) bool { return asset.CheckPath(p) == nil && !strings.HasPrefix(p, "/") }
