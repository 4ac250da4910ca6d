package asset

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Where chunks end. A file of at least large bytes has chunks of its own, cut at multiples of ChunkMax within it. Smaller ones go
// together into chunks. Such a chunk ends behind a file whose path says so, so that a file that is new, gone or of another length
// moves the ends of few others.
const (
	large  = 1 << 20
	spread = 256 // of so many small files, one ends a chunk
)

// Stretch is a chunk before anybody read it: files from First on, of which the first begins at Offset.
type Stretch struct {
	First  int
	Offset int64
	Bytes  int
}

// Cut says where the chunks of files are; it depends on their paths and sizes alone.
func Cut(files []File) (out []Stretch) {
	small := Stretch{First: -1}
	end := func() {
		if small.Bytes > 0 {
			out = append(out, small)
		}
		small = Stretch{First: -1}
	}
	for i := range files {
		size := files[i].Size
		if size >= large {
			end()
			for at := int64(0); at < size; at += ChunkMax {
				out = append(out, Stretch{i, at, int(min(ChunkMax, size-at))})
			}
			continue
		}
		if int64(small.Bytes)+size > ChunkMax {
			end()
		}
		if small.First < 0 {
			small.First = i
		}
		small.Bytes += int(size)
		if ends(files[i].Path) {
			end()
		}
	}
	end()
	return out
}

func ends(path string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, path) // never fails
	return h.Sum32()%spread == 0
}

// Opener opens a file by its path; several at once.
type Opener func(path string) (io.ReadCloser, error)

// Read reads the bytes of a stretch into buf, which holds ChunkMax bytes. A file that is shorter or longer than it was is fault Conflict.
func (s Stretch) Read(files []File, open Opener, buf []byte) ([]byte, error) {
	p, done := buf[:s.Bytes], 0
	for i, at := s.First, s.Offset; done < len(p); i, at = i+1, 0 {
		want := int(min(files[i].Size-at, int64(len(p)-done)))
		if want == 0 {
			continue
		}
		if err := readPiece(files[i], open, at, p[done:done+want]); err != nil {
			return nil, err
		}
		done += want
	}
	return p, nil
}

func readPiece(f File, open Opener, at int64, into []byte) (err error) {
	in, err := open(f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if at > 0 {
		seeker, ok := in.(io.Seeker)
		if !ok {
			_, err = io.CopyN(io.Discard, in, at)
		} else {
			_, err = seeker.Seek(at, io.SeekStart)
		}
		if err != nil {
			return changed(f.Path, err)
		}
	}
	if _, err := io.ReadFull(in, into); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return changed(f.Path, err)
		}
		return err
	}
	if at+int64(len(into)) == f.Size {
		if n, _ := in.Read(make([]byte, 1)); n > 0 {
			return changed(f.Path, nil)
		}
	}
	return nil
}

func changed(path string, cause error) error {
	return fault.New(fault.Conflict, "SourceChanged", fault.T("The file %.200q changed while it was read.", "文件 %.200q 在读取过程中发生变化。", path)).Because(cause)
}

// Build reads all files and makes their manifest; progress, which may be nil, hears of bytes, from several goroutines.
func Build(ctx context.Context, files []File, open Opener, progress func(bytes int)) (*Manifest, error) {
	cuts := Cut(files)
	m := &Manifest{Version: Format, Files: files, Chunks: make([]Chunk, len(cuts))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(2, runtime.NumCPU()))
	for i, s := range cuts {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf := Buffers.Get().(*[]byte)
			defer Buffers.Put(buf)
			p, err := s.Read(files, open, *buf)
			if err != nil {
				return err
			}
			m.Chunks[i] = Chunk{Sum(p), uint32(len(p))}
			if progress != nil {
				progress(len(p))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return m, m.check(false)
}

// Buffers are of ChunkMax bytes each.
var Buffers = sync.Pool{New: func() any { b := make([]byte, ChunkMax); return &b }}
