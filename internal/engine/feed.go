package engine

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Change is one thing that is not as it was: exactly one of Replica and Node is set.
type Change struct {
	Replica *Observation
	Node    *api.Node
	// Gone: it is known no more, what is set is the last that was known of it.
	Gone bool
}

// Feed is told what changes in one or several engines. It keeps the newest change of each replica and node until it is
// asked: a slow reader misses steps on the way, never the last one, and holds up nobody. For one reader.
type Feed struct {
	wake chan struct{} // has one while changes wait, or at the end

	mu     sync.Mutex
	order  []subject
	last   map[subject]Change
	boards []*Board
	closed bool
}

// subject is what a change is about.
type subject struct {
	replica Name
	node    string
}

func (ch Change) subject() subject {
	if ch.Node != nil {
		return subject{node: ch.Node.Meta.Name}
	}
	return subject{replica: ch.Replica.Name}
}

// NewFeed makes one that nobody tells anything yet: give it to Watch. Close it.
func NewFeed() *Feed { return &Feed{wake: make(chan struct{}, 1), last: map[subject]Change{}} }

// Next waits for changes and takes them, in the order in which they began. An error when ctx ended or the feed was closed.
func (f *Feed) Next(ctx context.Context) ([]Change, error) {
	for {
		list, closed := f.take()
		switch {
		case len(list) > 0:
			return list, nil
		case closed:
			return nil, fault.New(fault.Unavailable, "FeedClosed", fault.T("The feed was closed.", "变更订阅已关闭。"))
		}
		select {
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case <-f.wake:
		}
	}
}

// Wait waits until there are changes, and takes none. Another goroutine may take them meanwhile. An error as Next's.
func (f *Feed) Wait(ctx context.Context) error {
	for {
		f.mu.Lock()
		waiting, closed := len(f.order) > 0, f.closed
		f.mu.Unlock()
		switch {
		case waiting:
			return nil
		case closed:
			return fault.New(fault.Unavailable, "FeedClosed", fault.T("The feed was closed.", "变更订阅已关闭。"))
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-f.wake:
		}
	}
}

// Take takes the changes that there are now, without waiting.
func (f *Feed) Take() []Change {
	list, _ := f.take()
	return list
}

func (f *Feed) take() (list []Change, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.order {
		list = append(list, f.last[s])
	}
	f.order = f.order[:0]
	clear(f.last)
	return list, f.closed
}

// Close ends it; nobody tells it anything afterwards.
func (f *Feed) Close() {
	f.mu.Lock()
	boards := f.boards
	f.closed, f.boards = true, nil
	f.mu.Unlock()
	f.poke()
	for _, b := range boards {
		b.leave(f)
	}
}

// join notes who will tell it; false: it is closed.
func (f *Feed) join(b *Board) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.boards = append(f.boards, b)
	}
	return !f.closed
}

func (f *Feed) put(ch Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	s := ch.subject()
	if _, waits := f.last[s]; !waits {
		f.order = append(f.order, s)
	}
	f.last[s] = ch
	f.poke()
}

func (f *Feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
