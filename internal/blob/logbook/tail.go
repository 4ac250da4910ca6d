package logbook

import (
	"context"
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
	dirty map[*stream]struct{} // guarded by memory.mu
}

func (t *tail) poke() {
	select {
	case t.woken <- struct{}{}:
	default:
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
