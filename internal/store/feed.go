package store

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Feed delivers changes in the order in which their keys first changed. A reader that is slower
// than the changes gets fewer, larger ones: what happened to one key since its last Next becomes one
// change from the first Old to the last New (nothing, if the key came and went in between; see
// SubscribeBrief). So a feed is never longer than the number of keys, and never loses the latest
// state. One goroutine reads a feed; it must be closed.
type Feed struct {
	kinds map[api.Kind]bool // nil: all
	cache *cache
	brief bool // also what came and went between two reads

	mu      sync.Mutex
	pending map[api.Key]*Change
	order   []api.Key // may have keys that are no longer pending
	wake    chan struct{}
	closed  bool
}

// Subscribe delivers every change of the kinds (none: of all) from now on.
func (s *Store) Subscribe(kinds ...api.Kind) *Feed { return s.subscribe(kinds, false) }

// SubscribeBrief is Subscribe for a reader that must also hear of what came and went between two of
// its reads: it is told as deleted, Old as it was last. Such a feed is as long as its reader is
// slow.
func (s *Store) SubscribeBrief(kinds ...api.Kind) *Feed { return s.subscribe(kinds, true) }

func (s *Store) subscribe(kinds []api.Kind, brief bool) *Feed {
	f := &Feed{cache: s.cache, brief: brief, pending: map[api.Key]*Change{}, wake: make(chan struct{}, 1)}
	if len(kinds) > 0 {
		f.kinds = map[api.Kind]bool{}
		for _, k := range kinds {
			f.kinds[k] = true
		}
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.feeds[f] = struct{}{}
	return f
}

// Next blocks until there are changes and takes them all. It fails when ctx ended or the feed
// was closed.
func (f *Feed) Next(ctx context.Context) ([]Change, error) {
	for {
		changes, closed := f.take()
		switch {
		case closed:
			return nil, fault.New(fault.Unavailable, "FeedClosed", fault.T("The subscription was closed.", "订阅已关闭。"))
		case len(changes) > 0:
			return changes, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Each hands over every change until ctx ends or the feed is closed.
func (f *Feed) Each(ctx context.Context, do func(Change)) {
	for {
		changes, err := f.Next(ctx)
		if err != nil {
			return
		}
		for _, ch := range changes {
			do(ch)
		}
	}
}

// Fill hands over what there is of some kinds, each as new: subscribe before, and nothing falls in between.
func Fill(ctx context.Context, r Reader, do func(Change), kinds ...api.Kind) error {
	for _, kind := range kinds {
		snap, err := r.List(ctx, kind, "", 0)
		if err != nil {
			return err
		}
		snap.Ascend("", func(o api.Object) bool {
			do(Change{Key: api.KeyOf(o), New: o})
			return true
		})
	}
	return nil
}

// Close ends the feed; a waiting Next returns.
func (f *Feed) Close() {
	f.cache.mu.Lock()
	delete(f.cache.feeds, f)
	f.cache.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.pending, f.order = true, nil, nil
	f.signal()
}

func (f *Feed) take() (changes []Change, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) > 0 {
		changes = make([]Change, 0, len(f.pending))
	}
	for _, key := range f.order {
		if ch := f.pending[key]; ch != nil {
			changes = append(changes, *ch)
			delete(f.pending, key)
		}
	}
	f.order = nil
	return changes, f.closed
}

// push is called with the cache's lock held, so that all feeds see one order.
func (f *Feed) push(changes []Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	for _, ch := range changes {
		if f.kinds != nil && !f.kinds[ch.Key.Kind] {
			continue
		}
		f.add(ch)
	}
	if len(f.pending) > 0 {
		f.signal()
	}
}

func (f *Feed) add(ch Change) {
	was := f.pending[ch.Key]
	if was == nil {
		f.pending[ch.Key] = &ch
		f.order = append(f.order, ch.Key)
		if len(f.order) > 2*len(f.pending)+64 {
			f.tidy()
		}
		return
	}
	last := was.New
	was.New, was.Revision = ch.New, ch.Revision
	switch {
	case was.Old != nil || was.New != nil:
	case f.brief:
		was.Old = last
	default:
		delete(f.pending, ch.Key)
	}
}

// tidy drops places of keys that came and went, so that order stays as bounded as pending. A
// key that came again has two places; the first one counts.
func (f *Feed) tidy() {
	kept, have := f.order[:0], make(map[api.Key]bool, len(f.pending))
	for _, key := range f.order {
		if f.pending[key] != nil && !have[key] {
			have[key] = true
			kept = append(kept, key)
		}
	}
	f.order = kept
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
