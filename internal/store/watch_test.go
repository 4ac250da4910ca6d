package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// seen is what a reader of a feed knows: names by what it was told.
type seen map[string]int64

func (m seen) take(t *testing.T, changes []Change) {
	t.Helper()
	for _, ch := range changes {
		_, had := m[ch.Key.Name]
		if had != (ch.Old != nil) {
			t.Errorf("%s: the change starts from %v, the reader had it: %v", ch.Key, ch.Old, had)
		}
		if ch.New == nil {
			delete(m, ch.Key.Name)
		} else {
			m[ch.Key.Name] = ch.New.GetMeta().Revision
		}
	}
}

func (m seen) follow(t *testing.T, f *Feed, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		changes, err := f.Next(ctx)
		if err != nil {
			t.Fatalf("the feed ended at %v: %v", m, err)
		}
		m.take(t, changes)
	}
}

// While the watch is away the past is compacted: the cache lists again and tells the difference.
func TestCompactionWhileAway(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	stop := start(t, s)
	feed := s.Subscribe(api.KindTrainingTask)
	defer feed.Close()
	m := seen{}
	changed := task("changed")
	mustCommit(t, s, Create(task("stays")), Create(changed), Create(task("goes")))
	m.follow(t, feed, func() bool { return len(m) == 3 })
	stop()

	s.maintenance.compactEvery = 0
	mustCommit(t, s, Update(changed), Delete(keyOf("goes"), 0))
	rev := mustCommit(t, s, Create(task("comes")))
	if _, err := s.client.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	// Run again: list, then watch. The watch itself from a compacted revision is the next test.
	start(t, s)
	m.follow(t, feed, func() bool { _, comes := m["comes"]; return comes })
	want := seen{"stays": m["stays"], "changed": changed.Meta.Revision, "comes": rev}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

// A watch that starts in the compacted past ends with errRelist, and feed carries on from there.
func TestWatchFromCompactedRevision(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	mustCommit(t, s, Create(task("one")))
	if err := s.relist(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, Delete(keyOf("one"), 0))
	rev := mustCommit(t, s, Create(task("two")))
	if _, err := s.client.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	var b backoff
	if err := s.watchOnce(t.Context(), &b); err != errRelist {
		t.Fatalf("got %v", err)
	}
	start(t, s)
	if _, err := s.Get(t.Context(), keyOf("two"), rev); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), keyOf("one"), rev); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

// The server goes and comes back under the same client; meanwhile reads still work.
func TestReconnect(t *testing.T) {
	dir := folder(t)
	srv := etcd(t, dir)
	wire := newWire(t, srv)
	s := running(t, Config{Client: dial(t, wire.endpoint())})
	feed := s.Subscribe()
	defer feed.Close()
	defer wire.cut() // a graceful end would wait for the client
	m := seen{}
	rev := mustCommit(t, s, Create(task("before")))
	m.follow(t, feed, func() bool { return len(m) == 1 })
	for round := range 2 {
		wire.cut()
		srv.Close()
		if _, err := s.Get(t.Context(), keyOf("before"), rev); err != nil {
			t.Errorf("without etcd: %v", err)
		}
		srv = etcd(t, dir)
		wire.mend()
		name := fmt.Sprintf("after-%d", round)
		var at int64
		eventually(t, "etcd takes writes again", func() bool {
			r, err := s.Commit(t.Context(), Txn{Ops: []Op{Create(task(name))}})
			at = r
			return err == nil || fault.ReasonOf(err) == "NameTaken"
		})
		if _, err := s.Get(t.Context(), keyOf(name), at); err != nil {
			t.Fatal(err)
		}
		m.follow(t, feed, func() bool { return len(m) == 2+round })
	}
}

// The server comes back restored from a backup: older objects, higher revisions.
func TestRestoredUnderneath(t *testing.T) {
	dir := folder(t)
	srv := etcd(t, dir)
	wire := newWire(t, srv)
	s := running(t, Config{Client: dial(t, wire.endpoint())})
	defer wire.cut()
	m := seen{}
	feed := s.Subscribe()
	defer feed.Close()
	mustCommit(t, s, Create(task("kept")))
	backup := backUp(t, srv)
	last := mustCommit(t, s, Create(task("after-the-backup")))
	m.follow(t, feed, func() bool { return len(m) == 2 })
	wire.cut()
	srv.Close()
	removeAll(t, dir)
	if err := embedded.Restore(backup, dir); err != nil {
		t.Fatal(err)
	}
	etcd(t, dir)
	wire.mend()
	m.follow(t, feed, func() bool { return len(m) == 1 })
	if _, ok := m["kept"]; !ok {
		t.Errorf("left: %v", m)
	}
	if at := s.cache.at(); at <= last {
		t.Errorf("revision %d after %d", at, last)
	}
}

func TestFeedCoalesces(t *testing.T) {
	s := fresh(t)
	feed := s.Subscribe(api.KindTrainingTask)
	defer feed.Close()
	zones := s.Subscribe(api.KindZone)
	defer zones.Close()
	busy := task("busy")
	mustCommit(t, s, Create(busy))
	m := seen{}
	m.follow(t, feed, func() bool { return len(m) == 1 })
	first := busy.Meta.Revision
	for range 50 {
		mustCommit(t, s, Update(busy))
	}
	mustCommit(t, s, Create(task("flash")))
	rev := mustCommit(t, s, Delete(keyOf("flash"), 0), Create(&api.Zone{Meta: api.Meta{ID: "zone-1", Name: "z"}}))
	if _, err := s.Get(t.Context(), keyOf("busy"), rev); err != nil {
		t.Fatal(err)
	}
	changes, err := feed.Next(t.Context())
	if err != nil || len(changes) != 1 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	ch := changes[0]
	if ch.Old.GetMeta().Revision != first || ch.New.GetMeta().Revision != busy.Meta.Revision || ch.Revision != busy.Meta.Revision {
		t.Errorf("from %d to %d; want from %d to %d", ch.Old.GetMeta().Revision, ch.New.GetMeta().Revision, first, busy.Meta.Revision)
	}
	if changes, err := zones.Next(t.Context()); err != nil || len(changes) != 1 || changes[0].Key.Kind != api.KindZone {
		t.Errorf("zones: %v, %v", changes, err)
	}
}

// TestBriefFeed: what came and went between two reads is told as deleted, as it was last.
func TestBriefFeed(t *testing.T) {
	s := fresh(t)
	feed := s.SubscribeBrief(api.KindTrainingTask)
	defer feed.Close()
	flash := task("flash")
	mustCommit(t, s, Create(flash))
	last := mustCommit(t, s, Update(flash))
	rev := mustCommit(t, s, Delete(keyOf("flash"), 0))
	if _, err := s.List(t.Context(), api.KindTrainingTask, "", rev); err != nil {
		t.Fatal(err)
	}
	changes, err := feed.Next(t.Context())
	if err != nil || len(changes) != 1 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	if ch := changes[0]; ch.New != nil || ch.Old == nil || ch.Old.GetMeta().Revision != last || ch.Revision != rev {
		t.Errorf("%+v; want it deleted at %d, as it was at %d", ch, rev, last)
	}
	mustCommit(t, s, Create(task("flash")))
	rev = mustCommit(t, s, Create(task("other")))
	if _, err := s.List(t.Context(), api.KindTrainingTask, "", rev); err != nil {
		t.Fatal(err)
	}
	if changes, err = feed.Next(t.Context()); err != nil || len(changes) != 2 || changes[0].Old != nil || changes[0].New == nil {
		t.Errorf("%+v, %v", changes, err)
	}
}

func TestFeedStaysBounded(t *testing.T) {
	f := &Feed{cache: newCache(), pending: map[api.Key]*Change{}, wake: make(chan struct{}, 1)}
	for i := range 10_000 {
		key := keyOf(fmt.Sprint(i))
		f.push([]Change{{Key: key, New: task("x"), Revision: 1}})
		f.push([]Change{{Key: key, Revision: 2}})
	}
	if len(f.order) > 100 || len(f.pending) != 0 {
		t.Errorf("%d places for %d keys", len(f.order), len(f.pending))
	}
}

func TestFeedEnds(t *testing.T) {
	s := fresh(t)
	feed := s.Subscribe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := feed.Next(ctx); err == nil {
		t.Error("Next with an ended context")
	}
	done := make(chan error, 1)
	go func() {
		_, err := feed.Next(context.Background())
		done <- err
	}()
	feed.Close()
	if err := <-done; fault.ReasonOf(err) != "FeedClosed" {
		t.Errorf("got %v", err)
	}
	if len(s.cache.feeds) != 0 {
		t.Error("a closed feed is still fed")
	}
}

// A client to nowhere: Run waits for etcd and ends with its context.
func TestRunWithoutEtcd(t *testing.T) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix:///nonexistent/etcd.sock"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := New(Config{Client: c})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	hctx, hcancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer hcancel()
	if err := s.Healthy(hctx); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("health: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
