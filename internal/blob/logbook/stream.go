package logbook

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// task is what the book knows of one task's log. All of it is guarded by memory.mu.
type task struct {
	id      string
	streams map[string]*stream
	readers map[*reader]struct{}
	tails   map[*tail]struct{}
	others  *others // what brings other servers' part; nil while nobody reads
	deleted bool
}

// stream is one replica's log. Fields are guarded by memory.mu, except io, a lock one may wait for
// under a context: its holder may load or commit.
type stream struct {
	task    *task
	replica string
	prefix  string
	io      chan struct{}

	users    int // operations under way; none: may be dropped
	loaded   bool
	finished bool
	foreign  bool  // what is in memory came from another server, which commits it
	refs     []ref // in order, each going beyond the one before
	durable  int64 // end of the chunks
	end      int64 // end of the blocks
	blocks   []block
	sealed   int       // blocks before this are being committed and grow no more
	since    time.Time // when the first byte in memory came
	used     time.Time
}

func (s *stream) lock(ctx context.Context) error {
	select {
	case s.io <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (s *stream) unlock() { <-s.io }

func (s *stream) pending() int64 { return s.end - s.durable }

// push appends whole lines at the end, in blocks of at most maxBlock, and returns how much more
// memory is held.
func (s *stream) push(data []byte) (grown int64) {
	for len(data) > 0 {
		n := len(data)
		if n > maxBlock { // the caller saw to it that every line fits
			n = bytes.LastIndexByte(data[:maxBlock], '\n') + 1
		}
		last := len(s.blocks) - 1
		if last < s.sealed || len(s.blocks[last].data)+n > maxBlock {
			s.blocks = append(s.blocks, block{start: s.end})
			last++
		}
		b := &s.blocks[last]
		before := cap(b.data)
		b.data = append(b.data, data[:n]...)
		grown += int64(cap(b.data) - before)
		s.end += int64(n)
		data = data[n:]
	}
	return grown
}

// settle says that chunks now reach to durable: blocks below it are let go. It returns how much
// less memory is held.
func (s *stream) settle(durable int64, now time.Time) (freed int64) {
	s.durable, s.end = durable, max(s.end, durable)
	n := 0
	for n < len(s.blocks) && s.blocks[n].end() <= durable {
		freed += int64(cap(s.blocks[n].data))
		n++
	}
	s.blocks = slices.Clone(s.blocks[n:])
	s.sealed = max(s.sealed-n, 0)
	if len(s.blocks) > 0 && s.blocks[0].start < durable {
		b := &s.blocks[0] // another server's chunk ended within this block
		freed += durable - b.start
		b.data, b.start = b.data[durable-b.start:], durable
	}
	s.since = now
	return freed
}

// addRef notes a chunk, if it goes beyond what is known.
func (s *stream) addRef(r ref) {
	if len(s.refs) == 0 || r.end > s.refs[len(s.refs)-1].end {
		s.refs = append(s.refs, r)
	}
}

// refresh learns which chunks exist: all at first, with again those another server added since.
func (b *Book) refresh(ctx context.Context, s *stream, again bool) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	b.mu.Lock()
	skip, after := s.loaded && !again, s.prefix
	if n := len(s.refs); n > 0 {
		after = chunkKey(s.prefix, s.refs[n-1])
	}
	b.mu.Unlock()
	if skip {
		return nil
	}
	var found []ref
	for {
		page, err := b.cfg.Blob.List(ctx, s.prefix, after, 1000)
		if err != nil {
			return err
		}
		for _, info := range page {
			if r, ok := parseKey(s.prefix, info.Key); ok {
				found = append(found, r)
			}
		}
		if len(page) < 1000 {
			break
		}
		after = page[len(page)-1].Key
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range found {
		s.addRef(r)
	}
	s.loaded = true
	if n := len(s.refs); n > 0 && s.refs[n-1].end > s.durable {
		b.held -= s.settle(s.refs[n-1].end, b.cfg.Clock.Now())
		s.wake()
	}
	return nil
}

// commit writes what is in memory as one chunk.
func (b *Book) commit(ctx context.Context, s *stream) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	b.mu.Lock()
	blocks := slices.Clone(s.blocks)
	s.sealed = len(blocks)
	gone := s.task.deleted
	b.mu.Unlock()
	if len(blocks) == 0 || gone {
		return nil
	}
	r := ref{blocks[0].start, blocks[len(blocks)-1].end()}
	body := encodeChunk(b.enc, blocks)
	if _, err := b.cfg.Blob.Put(ctx, chunkKey(s.prefix, r), bytes.NewReader(body)); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.task.deleted {
		return nil // Delete waits for us, then removes the chunk too
	}
	s.addRef(r)
	b.held -= s.settle(r.end, b.cfg.Clock.Now())
	s.wakeTails()
	b.cfg.Log.Debug("log chunk committed", slog.String("task", s.task.id), slog.String("replica", s.replica),
		slog.Int64("durable", r.end), slog.Int("bytes", len(body)))
	return nil
}

// wake tells the task's readers that a stream has more. Under mu.
func (s *stream) wake() {
	for r := range s.task.readers {
		r.dirty[s] = struct{}{}
		select {
		case r.woken <- struct{}{}:
		default: // it is awake, or about to be
		}
	}
	s.wakeTails()
}

// wakeTails tells them that a stream of ours has more, or that the store has. Under mu.
func (s *stream) wakeTails() {
	for t := range s.task.tails {
		if !s.foreign {
			t.dirty[s] = struct{}{}
			t.poke()
		}
	}
}

// setForeign says who has the stream's launcher and so commits what is in memory. Whoever is ahead
// has: a launcher speaks to one server at a time, and sends it everything that is not in the store.
// Under mu.
func (s *stream) setForeign(foreign bool, now time.Time) {
	if s.foreign == foreign {
		return
	}
	s.foreign = foreign
	s.since = now
	s.wakeTails()
}
