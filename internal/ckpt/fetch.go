package ckpt

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// readers is how many packs are read at once.
const readers = 4

// piece is a stretch of a rank's data and tree, and where it goes.
type piece struct {
	rank   uint32
	from   uint64
	to     int64
	length uint64
}

// sink takes verified bytes; pieces come side by side and in no order.
type sink interface {
	WriteAt(p []byte, at int64) error
}

// memory is a sink for what is small.
type memory []byte

func (m memory) WriteAt(p []byte, at int64) error {
	copy(m[at:], p)
	return nil
}

// source is one checkpoint in one tier, open for reading.
type source struct {
	repo *Repo
	m    *Manifest

	mu    sync.Mutex
	parts map[uint32]*sourcePart
	index map[Hash]place // of all parts; made when a chunk lies where another rank says
}

type sourcePart struct {
	*Part
	ends []uint64 // of each chunk
}

func (r *Repo) open(ctx context.Context, name string) (*source, error) {
	m, err := r.Manifest(ctx, name)
	if err != nil {
		return nil, err
	}
	return &source{repo: r, m: m, parts: map[uint32]*sourcePart{}}, nil
}

func (s *source) part(ctx context.Context, rank uint32) (*sourcePart, error) {
	s.mu.Lock()
	have := s.parts[rank]
	s.mu.Unlock()
	if have != nil {
		return have, nil
	}
	p, err := s.repo.part(ctx, s.m, rank)
	if err != nil {
		return nil, err
	}
	have = &sourcePart{Part: p, ends: make([]uint64, len(p.Chunks))}
	var at uint64
	for i, c := range p.Chunks {
		at += uint64(c.Bytes)
		have.ends[i] = at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[rank] = have
	return have, nil
}

// find says where a chunk lies.
func (s *source) find(ctx context.Context, p *sourcePart, c *Chunk) (place, error) {
	if c.Pack != nil {
		return place{p.Packs[*c.Pack], c.At}, nil
	}
	s.mu.Lock()
	made := s.index != nil
	s.mu.Unlock()
	if !made {
		index := map[Hash]place{}
		for rank := range s.m.World {
			other, err := s.part(ctx, rank)
			if fault.Is(err, fault.NotFound) {
				continue // another machine's
			}
			if err != nil {
				return place{}, err
			}
			for _, c := range other.Chunks {
				if c.Pack != nil {
					index[c.Hash] = place{other.Packs[*c.Pack], c.At}
				}
			}
		}
		s.mu.Lock()
		s.index = index
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	where, ok := s.index[c.Hash]
	if !ok {
		return place{}, damaged("a chunk lies nowhere", "有数据块无处可寻")
	}
	return where, nil
}

// job is one chunk to read, and what of it goes where.
type job struct {
	chunk *Chunk
	at    uint64
	out   []cutout
}

type cutout struct {
	from, length uint64
	to           int64
}

// fetch reads and verifies every chunk that the pieces touch, each once, and gives the pieces to out.
func (s *source) fetch(ctx context.Context, pieces []piece, out sink) error {
	jobs, err := s.plan(ctx, pieces)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for pack, list := range jobs {
		group.Go(func() error { return s.readPack(ctx, pack, list, out) })
	}
	return group.Wait()
}

func (s *source) plan(ctx context.Context, pieces []piece) (map[string][]*job, error) {
	byPlace := map[place]*job{}
	jobs := map[string][]*job{}
	for _, pc := range pieces {
		part, err := s.part(ctx, pc.rank)
		if err != nil {
			return nil, err
		}
		end := pc.from + pc.length
		if end > part.Data+part.Tree {
			return nil, damaged("a tensor lies outside of its rank's data", "张量位于其进程数据之外")
		}
		first := sort.Search(len(part.ends), func(i int) bool { return part.ends[i] > pc.from })
		for i := first; i < len(part.ends) && pc.length > 0; i++ {
			c := &part.Chunks[i]
			begin := part.ends[i] - uint64(c.Bytes)
			if begin >= end {
				break
			}
			where, err := s.find(ctx, part, c)
			if err != nil {
				return nil, err
			}
			j := byPlace[where]
			if j == nil || j.chunk.Hash != c.Hash {
				j = &job{chunk: c, at: where.at}
				byPlace[where] = j
				jobs[where.pack] = append(jobs[where.pack], j)
			}
			from, to := max(begin, pc.from), min(part.ends[i], end)
			j.out = append(j.out, cutout{from - begin, to - from, pc.to + int64(from-pc.from)})
		}
	}
	return jobs, nil
}

var chunkBuffers = sync.Pool{New: func() any { b := make([]byte, chunkMax); return &b }}

// readPack reads the chunks of one pack in their order: over a network that is one request. One that was not as it was
// written is asked for again, from there on: a read that went wrong once says nothing about what lies there.
func (s *source) readPack(ctx context.Context, name string, jobs []*job, out sink) error {
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.at, b.at) })
	for again := false; ; again = true {
		n, err := s.readChunks(ctx, name, jobs, out)
		if !Lost(err) || again && n == 0 {
			return err
		}
		jobs = jobs[n:]
	}
}

// readChunks says how many of them were whole and are out.
func (s *source) readChunks(ctx context.Context, name string, jobs []*job, out sink) (int, error) {
	in, _, err := s.repo.cfg.Store.Open(ctx, s.repo.key(name))
	if err != nil {
		return 0, err
	}
	defer in.Close()
	buf := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(buf)
	at := uint64(0)
	for n, j := range jobs {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		if j.at != at {
			if _, err := in.Seek(int64(j.at), io.SeekStart); err != nil {
				return n, fault.From(err)
			}
		}
		p := (*buf)[:j.chunk.Bytes]
		if _, err := io.ReadFull(in, p); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n, damaged("the pack "+name+" is too short", "数据包 "+name+" 过短").Because(err)
		} else if err != nil {
			return n, fault.From(err)
		}
		at = j.at + uint64(len(p))
		if sum(p) != j.chunk.Hash {
			return n, damaged("a chunk in "+name+" does not match its hash", name+" 中的数据块与其哈希不符")
		}
		for _, o := range j.out {
			if err := out.WriteAt(p[o.from:o.from+o.length], o.to); err != nil {
				return n, err
			}
		}
	}
	return len(jobs), nil
}
