package asset

import (
	"context"
	"io"
	"io/fs"
	"sort"

	"github.com/fermi-cluster/fermi/api/v1/asset"
)

// Stream reads the bytes of a version from a place on, chunk by chunk, each verified before any of it is given.
type Stream struct {
	ctx     context.Context
	repo    *Repo
	project string
	m       *asset.Manifest
	ends    []int64 // of each chunk
	first   int64   // what it shows begins here
	size    int64   // of what it shows
	at      int64   // in what it shows
	buf     []byte
	held    int // chunk in buf; -1: none
	p       []byte
	err     error
}

// OpenFile shows one file of a version.
func (r *Repo) OpenFile(ctx context.Context, project string, m *asset.Manifest, file int) *Stream {
	s := &Stream{ctx: ctx, repo: r, project: project, m: m, held: -1, size: m.Files[file].Size}
	for i := range file {
		s.first += m.Files[i].Size
	}
	s.ends = make([]int64, len(m.Chunks))
	end := int64(0)
	for i, c := range m.Chunks {
		end += int64(c.Bytes)
		s.ends[i] = end
	}
	return s
}

// Read gives verified bytes.
func (s *Stream) Read(p []byte) (int, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case s.at >= s.size:
		return 0, io.EOF
	}
	at := s.first + s.at
	i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > at })
	if i == len(s.ends) {
		s.err = damaged("its chunks end before its files")
		return 0, s.err
	}
	if s.held != i {
		if s.buf == nil {
			s.buf = make([]byte, asset.ChunkMax)
		}
		s.held = -1
		if s.p, s.err = s.repo.ReadChunk(s.ctx, s.project, s.m.Chunks[i], s.buf); s.err != nil {
			return 0, s.err
		}
		s.held = i
	}
	begin := s.ends[i] - int64(len(s.p))
	n := copy(p[:min(int64(len(p)), s.size-s.at)], s.p[at-begin:])
	s.at += int64(n)
	return n, nil
}

// Seek is io.Seeker.
func (s *Stream) Seek(to int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		to += s.at
	case io.SeekEnd:
		to += s.size
	}
	if to < 0 {
		return 0, fs.ErrInvalid
	}
	s.at = to
	return to, nil
}

// Close is io.Closer.
func (s *Stream) Close() error { return nil }

// Err is why reading ended early.
func (s *Stream) Err() error { return s.err }
