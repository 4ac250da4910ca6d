package logbook

import (
	"container/heap"
	"context"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxFiles is how many chunks a reader keeps open; with more replicas it opens them anew for
// every frame.
const maxFiles = 64

// ReadOptions select lines.
type ReadOptions struct {
	Replica string    // "" is all
	Tail    int       // only the last so many of the existing whole lines, and what follows them; 0 is all
	Since   time.Time // only lines not older
	Follow  bool      // go on with lines as they come
	// Done, with Follow: once it is closed, Read returns after what has arrived by then.
	Done <-chan struct{}
}

// reader is one Read. It works in rounds: all that has arrived, merged by time, then it waits.
type reader struct {
	book *Book
	task *task
	opts ReadOptions
	emit func(replica string, l Line) error

	woken chan struct{}        // room for one
	dirty map[*stream]struct{} // streams with news; guarded by memory.mu

	cursors map[*stream]*cursor
	merge   merge
	others  *others
	omit    int // lines to leave out at the beginning: of Tail lines of each replica, Tail in all stay
	files   int
}

// Read emits the lines of a task's log: each replica's in their order, all merged by time; then,
// with Follow, new ones as Append brings them, also of replicas that appear later. Emit may take
// its time: nobody waits for it. It may keep the line's text. Damaged chunks are reported as
// lines of rank -1 and passed over.
func (b *Book) Read(ctx context.Context, taskID string, opts ReadOptions, emit func(replica string, l Line) error) error {
	r := b.attach(taskID, opts, emit)
	defer b.detach(r)
	if err := r.listen(ctx); err != nil {
		return err
	}
	if err := r.discover(ctx); err != nil {
		return err
	}
	for first := true; ; first = false {
		last := !opts.Follow || closed(opts.Done)
		if last && !first && b.cfg.Others != nil {
			// What another server committed at the end may not have been heard of yet.
			if err := r.discover(ctx); err != nil {
				return err
			}
		}
		if err := r.round(ctx, first); err != nil {
			return err
		}
		if last {
			return nil
		}
		select {
		case <-r.woken:
		case <-opts.Done:
		case <-ctx.Done():
			return fault.From(ctx.Err())
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (b *Book) attach(taskID string, opts ReadOptions, emit func(string, Line) error) *reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &reader{
		book: b, task: b.taskOf(taskID), opts: opts, emit: emit,
		woken: make(chan struct{}, 1), dirty: map[*stream]struct{}{}, cursors: map[*stream]*cursor{},
	}
	r.task.readers[r] = struct{}{}
	for _, s := range r.task.streams {
		r.dirty[s] = struct{}{}
	}
	return r
}

func (b *Book) detach(r *reader) {
	r.unlisten()
	for _, c := range r.cursors {
		c.close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(r.task.readers, r)
	for _, s := range r.task.streams {
		if len(s.blocks) == 0 {
			s.finished = true // it can be loaded again
		}
		b.drop(s)
	}
	b.dropTask(r.task)
}

// discover loads the streams that have chunks. Which replicas there are is found by skipping
// from one to the next, not by listing all chunks.
func (r *reader) discover(ctx context.Context) error {
	if r.opts.Replica != "" {
		return r.load(ctx, r.opts.Replica)
	}
	prefix := "logs/" + r.task.id + "/"
	for after := ""; ; {
		page, err := r.book.cfg.Blob.List(ctx, prefix, after, 1)
		if err != nil || len(page) == 0 {
			return err
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(page[0].Key, prefix), "/")
		if ok {
			if err := r.load(ctx, name); err != nil {
				return err
			}
		}
		after = prefix + name + "0" // '0' follows '/'
	}
}

func (r *reader) load(ctx context.Context, replica string) error {
	s, err := r.book.hold(r.task.id, replica)
	if err != nil {
		return err
	}
	defer r.book.release(s)
	if s.task != r.task {
		return deletedFault(r.task.id)
	}
	if err := r.book.refresh(ctx, s, true); err != nil {
		return err
	}
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	r.dirty[s] = struct{}{}
	return nil
}

// round emits everything that had arrived when it began.
func (r *reader) round(ctx context.Context, first bool) error {
	fresh, err := r.news()
	if err != nil {
		return err
	}
	if first && r.opts.Tail > 0 {
		total := 0
		for _, c := range fresh {
			n, err := c.tail(ctx, r.opts.Tail)
			if err != nil {
				return err
			}
			total += n
		}
		r.omit = max(0, total-r.opts.Tail)
	}
	r.merge = r.merge[:0]
	for _, c := range fresh {
		ok, err := c.next(ctx)
		if err != nil {
			return err
		}
		if ok {
			r.merge = append(r.merge, c)
		}
	}
	heap.Init(&r.merge)
	for len(r.merge) > 0 {
		c := r.merge[0]
		if err := r.show(c); err != nil {
			return err
		}
		ok, err := c.next(ctx)
		if err != nil {
			return err
		}
		if ok {
			heap.Fix(&r.merge, 0)
		} else {
			heap.Pop(&r.merge)
		}
	}
	return ctx.Err()
}

// news gives the cursors of streams that have more, each limited to what is there now.
func (r *reader) news() ([]*cursor, error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.task.deleted {
		return nil, deletedFault(r.task.id)
	}
	var fresh []*cursor
	for s := range r.dirty {
		delete(r.dirty, s)
		// A stream being loaded wakes us again.
		if !s.loaded || r.opts.Replica != "" && s.replica != r.opts.Replica {
			continue
		}
		c := r.cursors[s]
		if c == nil {
			c = &cursor{reader: r, stream: s}
			r.cursors[s] = c
		}
		c.limit = s.end
		fresh = append(fresh, c)
	}
	return fresh, nil
}

func (r *reader) show(c *cursor) error {
	if r.omit > 0 {
		if !c.line.Partial {
			r.omit--
		}
		return nil
	}
	if c.line.Time.Before(r.opts.Since) {
		return nil
	}
	return r.emit(c.stream.replica, c.line)
}

// merge is a heap of cursors by the time of their line.
type merge []*cursor

func (m merge) Len() int      { return len(m) }
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m merge) Less(i, j int) bool {
	if c := m[i].line.Time.Compare(m[j].line.Time); c != 0 {
		return c < 0
	}
	return m[i].stream.replica < m[j].stream.replica
}
func (m *merge) Push(x any) { *m = append(*m, x.(*cursor)) }
func (m *merge) Pop() any {
	old := *m
	c := old[len(old)-1]
	*m = old[:len(old)-1]
	return c
}
