package logbook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// What one server holds in memory the others must show too. So each book tells the others, on their
// wish, what it has of a task (Tail), and a book with readers takes in what it is told (others):
// as foreign streams, in memory only, which are dropped as soon as the same bytes are in the store.
// Being told too little is never wrong, only late: everything is in the store within the chunk's age.

// maxPiece bounds what Tail emits at once.
const maxPiece = 256 << 10

// syncFor is how long a reader waits for the other servers' part before it begins without.
const syncFor = time.Second

// tail is one Tail: it works in rounds like a reader, on bytes instead of lines.
type tail struct {
	woken chan struct{}        // room for one
	dirty map[*stream]struct{} // guarded by Book.mu
}

func (t *tail) poke() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// wakeTails tells them that a stream of ours has more, or that the store has. Under mu.
func (b *Book) wakeTails(s *stream) {
	for t := range s.task.tails {
		if !s.foreign {
			t.dirty[s] = struct{}{}
			t.poke()
		}
	}
}

// told is how far another server was told of a stream, and of its chunks.
type told struct{ end, durable int64 }

// segment is a piece of a stream, for another server.
type segment struct {
	replica string
	offset  int64
	data    []byte
	durable int64
}

// Tail emits what is in memory of a task's log, then more as it comes, until ctx ends or the log is
// deleted. An error of emit or synced ends it and is returned.
func (b *Book) Tail(ctx context.Context, taskID string, emit func(replica string, offset int64, data []byte, durable int64) error, synced func() error) error {
	t := &tail{woken: make(chan struct{}, 1), dirty: map[*stream]struct{}{}}
	b.mu.Lock()
	of := b.taskOf(taskID)
	of.tails[t] = struct{}{}
	for _, s := range of.streams {
		t.dirty[s] = struct{}{}
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(of.tails, t)
		b.dropTask(of)
	}()
	sent := map[*stream]told{}
	for first := true; ; first = false {
		list, deleted := b.segments(of, t, sent)
		if deleted {
			return deletedFault(taskID)
		}
		for _, p := range list {
			if err := emit(p.replica, p.offset, p.data, p.durable); err != nil {
				return err
			}
		}
		if first {
			if err := synced(); err != nil {
				return err
			}
		}
		select {
		case <-t.woken:
		case <-ctx.Done():
			return fault.From(ctx.Err())
		}
	}
}

// segments are the news of the streams that changed, at most a round's worth: what is left wakes t again.
func (b *Book) segments(of *task, t *tail, sent map[*stream]told) (out []segment, deleted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of.deleted {
		return nil, true
	}
	room := 4 << 20
	for s := range t.dirty {
		if room <= 0 {
			t.poke()
			break
		}
		delete(t.dirty, s)
		if s.foreign {
			continue
		}
		was := sent[s]
		from := max(was.end, s.durable) // what is in the store they read there
		if s.durable > was.durable {
			out = append(out, segment{replica: s.replica, offset: s.durable, durable: s.durable})
		}
		for _, bl := range s.blocks {
			if bl.end() <= from {
				continue
			}
			data := bl.data[max(from-bl.start, 0):]
			for part := range slices.Chunk(data, maxPiece) {
				// Blocks only ever grow behind what is there, so the bytes need no copy.
				out = append(out, segment{replica: s.replica, offset: from, data: part[:len(part):len(part)], durable: s.durable})
				from += int64(len(part))
				room -= len(part)
			}
		}
		sent[s] = told{from, s.durable}
		if s.finished && len(s.blocks) == 0 {
			delete(sent, s)
		}
	}
	return out, false
}

// own says that a launcher sends to us.
func (b *Book) own(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setForeign(s, false)
}

// setForeign says who has the stream's launcher and so commits what is in memory. Whoever is ahead
// has: a launcher speaks to one server at a time, and sends it everything that is not in the store.
// Under mu.
func (b *Book) setForeign(s *stream, foreign bool) {
	if s.foreign == foreign {
		return
	}
	s.foreign = foreign
	s.since = b.cfg.Clock.Now()
	b.wakeTails(s)
}

// others is what brings other servers' part of a task's log while somebody reads it.
type others struct {
	users  int
	cancel context.CancelFunc
	synced chan struct{}
	ended  chan struct{}
}

// listen joins the readers of other servers' part, and waits a moment until it is there; who follows
// need not wait, unless it wants a number of lines.
func (r *reader) listen(ctx context.Context) error {
	b := r.book
	if b.cfg.Others == nil {
		return nil
	}
	b.mu.Lock()
	o := r.task.others
	if o == nil {
		run, cancel := context.WithCancel(context.Background())
		o = &others{cancel: cancel, synced: make(chan struct{}), ended: make(chan struct{})}
		r.task.others = o
		go func() {
			defer close(o.ended)
			b.cfg.Others(run, r.task.id,
				func(replica string, offset int64, data []byte) { b.takeForeign(run, r.task, replica, offset, data) },
				sync.OnceFunc(func() { close(o.synced) }))
		}()
	}
	o.users++
	r.others = o
	b.mu.Unlock()
	if r.opts.Follow && r.opts.Tail == 0 {
		return nil
	}
	select {
	case <-o.synced:
	case <-o.ended:
	case <-b.cfg.Clock.After(syncFor):
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	return nil
}

// unlisten leaves; the last one ends it, and what was brought is forgotten.
func (r *reader) unlisten() {
	o, b := r.others, r.book
	if o == nil {
		return
	}
	b.mu.Lock()
	o.users--
	last := o.users == 0
	if last {
		r.task.others = nil
	}
	b.mu.Unlock()
	if !last {
		return
	}
	o.cancel()
	<-o.ended
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.task.others != nil {
		return // somebody began anew meanwhile
	}
	for _, s := range r.task.streams {
		if s.foreign {
			b.forget(s)
		}
	}
}

// forget drops what is in memory of a foreign stream. Under mu.
func (b *Book) forget(s *stream) {
	for _, bl := range s.blocks {
		b.held -= int64(cap(bl.data))
	}
	s.blocks, s.sealed, s.end, s.foreign = nil, 0, s.durable, false
}

// takeForeign notes what another server holds. Data that doesn't fit is left out: it comes with the chunk.
func (b *Book) takeForeign(ctx context.Context, of *task, replica string, offset int64, data []byte) {
	if checkData(offset, data) != nil {
		return
	}
	s, err := b.hold(of.id, replica)
	if err != nil {
		return
	}
	defer b.release(s)
	if s.task != of {
		return // deleted, and begun anew
	}
	if err := b.refresh(ctx, s, len(data) == 0 || b.behind(s, offset)); err != nil {
		return
	}
	if len(data) == 0 {
		return
	}
	b.mu.Lock()
	room := b.held+int64(len(data)) <= b.cfg.MemoryBytes/2
	b.mu.Unlock()
	if room {
		_, _ = b.take(s, offset, data, true) // a gap is mended by the next chunk
	}
}

func (b *Book) behind(s *stream, offset int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return offset > s.end
}
