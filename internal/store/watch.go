package store

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// askAfter lets the event of an ordinary write arrive by itself before etcd is asked.
	askAfter = 5 * time.Millisecond
	askAgain = 50 * time.Millisecond
)

// backoff doubles from firstBackoff to lastBackoff; each wait is half fixed, half random, so
// that many servers do not come back at the same moment.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(lastBackoff, max(firstBackoff, 2*b.next))
	return wait(ctx, b.next/2+rand.N(b.next/2))
}

// mirror fills the cache from one watch, and waits for it on behalf of readers.
type mirror struct {
	keyspace
	cache *cache
	ready chan struct{}
	// ask wakes the one goroutine that asks etcd for progress; room for one.
	ask   chan struct{}
	known atomic.Int64 // the newest revision heard of
	// freshFor is freshTimeout; tests of what comes after it are impatient.
	freshFor time.Duration
}

// feed fills the cache and keeps it fed: list, watch from there, and again when the watch's
// revision was compacted away.
func (s *mirror) feed(ctx context.Context) error {
	var b backoff
	for ctx.Err() == nil {
		if err := s.relist(ctx); err != nil {
			if ctx.Err() == nil {
				s.log.Warn("the store can't be listed; trying again", "error", err)
			}
			b.wait(ctx)
			continue
		}
		b.reset()
		s.watch(ctx)
	}
	return nil
}

// relist reads everything and applies the difference to what the cache has, deletions included.
func (s *mirror) relist(ctx context.Context) error {
	known := s.cache.keys()
	found, revision, err := s.load(ctx, s.prefix, clientv3.GetPrefixRangeEnd(s.prefix), known)
	if err != nil {
		return etcdFault(ctx, err, false)
	}
	changes := make([]Change, 0, len(found))
	for _, d := range found {
		delete(known, d.key)
		if d.object != nil {
			changes = append(changes, Change{Key: d.key, New: d.object, Revision: d.object.GetMeta().Revision})
		}
	}
	for key := range known {
		changes = append(changes, Change{Key: key, Revision: revision})
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) })
	if was := s.cache.at(); revision < was {
		s.log.Error("the store went back in time; was etcd restored without a higher revision?", "from", was, "to", revision)
		s.cache.reset(revision)
	}
	s.cache.apply(changes, revision)
	raise(&s.known, revision)
	select {
	case <-s.ready:
	default:
		s.log.Info("the cache is filled", "objects", len(found), "revision", revision)
		close(s.ready)
	}
	return nil
}

// watch follows one watch over the whole prefix until everything must be listed again or ctx
// ends. The client re-opens a broken stream by itself; what ends a watch all the same is tried
// again from the last revision seen.
func (s *mirror) watch(ctx context.Context) {
	var b backoff
	for ctx.Err() == nil {
		err := s.watchOnce(ctx, &b)
		switch {
		case errors.Is(err, errRelist):
			s.log.Info("the store's past was compacted; listing it again", "revision", s.cache.at())
			return
		case ctx.Err() == nil:
			s.log.Warn("the watch ended; starting it again", "error", err)
			b.wait(ctx)
		}
	}
}

func (s *mirror) watchOnce(ctx context.Context, b *backoff) error {
	// The progress requests must carry the same metadata as the watch: both derive from wctx.
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.askProgress(wctx)
	}()
	defer func() { cancel(); <-asked }()
	events := s.client.Watch(wctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(s.cache.at()+1), clientv3.WithCreatedNotify())
	for resp := range events {
		if err := resp.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) || resp.CompactRevision != 0 {
				return errRelist
			}
			return err
		}
		b.reset()
		if resp.Created {
			continue
		}
		s.take(resp)
	}
	return errors.New("the watch was closed")
}

// take applies one answer of the watch. Its header may be ahead of its events, except in a
// progress answer, which is sent only to a watch that has got everything.
func (s *mirror) take(resp clientv3.WatchResponse) {
	if resp.IsProgressNotify() {
		raise(&s.known, resp.Header.Revision)
		s.cache.advance(resp.Header.Revision)
		return
	}
	changes := make([]Change, 0, len(resp.Events))
	var revision int64
	for _, ev := range resp.Events {
		revision = max(revision, ev.Kv.ModRevision)
		key, _, ok := parsePath(string(ev.Kv.Key[len(s.prefix):]))
		if !ok {
			continue
		}
		ch := Change{Key: key, Revision: ev.Kv.ModRevision}
		if ev.Type == clientv3.EventTypePut {
			// One that can't be read leaves the last good one in place: to everybody else a
			// missing object means "deleted", and work would be stopped.
			d, _ := s.decodePair(ev.Kv, nil)
			if d.object == nil {
				continue
			}
			ch.New = d.object
		}
		changes = append(changes, ch)
	}
	raise(&s.known, revision)
	s.cache.apply(changes, revision)
}

// askProgress asks etcd how far it is while somebody waits for a revision. A write outside of
// our prefix moves the store's revision without an event for us.
func (s *mirror) askProgress(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ask:
		}
		if err := s.client.RequestProgress(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("no progress from the watch", "error", err)
		}
	}
}

// reached is the revision that etcd is at; fallback when it does not say.
func (s *mirror) reached(ctx context.Context, fallback int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, s.freshFor)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix, clientv3.WithCountOnly())
	if err != nil {
		return fallback
	}
	return resp.Header.Revision
}

// fresh waits until the cache has seen revision, or all that etcd has where that is less: nobody
// waits for what is not written. false: it has not in time, read etcd itself.
func (s *mirror) fresh(ctx context.Context, revision int64) (bool, error) {
	ready := s.ready
	select {
	case <-ready:
		if revision == 0 || s.cache.at() >= revision {
			return true, nil
		}
		ready = nil
	default:
	}
	deadline := time.NewTimer(s.freshFor)
	defer deadline.Stop()
	again := time.NewTimer(askAfter)
	defer again.Stop()
	for first := true; ; {
		var moved <-chan struct{}
		if ready == nil {
			if moved = s.cache.until(revision); moved == nil {
				return true, nil
			}
		}
		select {
		case <-ready:
			ready = nil
		case <-moved:
		case <-again.C:
			if first {
				first = false
				revision = min(revision, s.reached(ctx, revision))
			}
			select {
			case s.ask <- struct{}{}:
			default:
			}
			again.Reset(askAgain)
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, fault.From(ctx.Err())
		}
	}
}

// catchUp waits until the cache has what was written before this server was elected; nothing of its
// predecessor can come later, by the fence. Who leads by an older view takes tasks for unknown that
// run, and places on nodes that are taken. One whose cache does not follow stands back.
func (s *mirror) catchUp(ctx context.Context) error {
	select {
	case <-s.ready:
	default:
		return nil // nobody feeds the cache yet: its first list comes after this
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.client.Get(call, s.prefix, clientv3.WithCountOnly())
	if err != nil {
		return etcdFault(ctx, err, false)
	}
	for call.Err() == nil {
		if ok, err := s.fresh(call, resp.Header.Revision); ok || err != nil {
			return err
		}
	}
	return fault.From(call.Err())
}
