package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// reign is one leadership, seen from a test.
type reign struct {
	name  string
	epoch Epoch
	ctx   context.Context
	end   chan error
}

// stand lets a store campaign; each reign is sent to the channel and lasts until told.
func stand(t *testing.T, s *Store, name string, reigns chan<- reign) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Campaign(ctx, name, func(ctx context.Context, epoch Epoch) error {
			r := reign{name, epoch, ctx, make(chan error, 1)}
			reigns <- r
			select {
			case err := <-r.end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return stop
}

func next(t *testing.T, reigns <-chan reign) reign {
	t.Helper()
	select {
	case r := <-reigns:
		return r
	case <-time.After(patience):
		t.Fatal("nobody leads")
		return reign{}
	}
}

func TestHandover(t *testing.T) {
	client := etcd(t, folder(t)).Client()
	a, b := New(Config{Client: client}), New(Config{Client: client})
	if _, _, err := a.Leader(t.Context()); fault.ReasonOf(err) != "NoLeader" {
		t.Errorf("got %v", err)
	}
	reigns := make(chan reign, 4)
	stopA := stand(t, a, "a", reigns)
	first := next(t, reigns)
	stand(t, b, "b", reigns)
	name, epoch, err := b.Leader(t.Context())
	if err != nil || name != "a" || epoch != first.epoch {
		t.Errorf("leader %s %v, %v", name, epoch, err)
	}
	if _, err := a.Commit(t.Context(), Txn{Ops: []Op{Create(task("fenced"))}, Fence: first.epoch}); err != nil {
		t.Fatal(err)
	}
	if err := stopA(); err != nil {
		t.Error(err)
	}
	second := next(t, reigns)
	if second.name != "b" || second.epoch.Revision <= first.epoch.Revision {
		t.Errorf("%s with %d after %d", second.name, second.epoch.Revision, first.epoch.Revision)
	}
	_, err = a.Commit(t.Context(), Txn{Ops: []Op{Create(task("late"))}, Fence: first.epoch})
	if fault.ReasonOf(err) != "NotLeader" || !fault.Is(err, fault.Conflict) {
		t.Errorf("a former leader's write: %v", err)
	}
	if _, err := b.Commit(t.Context(), Txn{Ops: []Op{Create(task("mine"))}, Fence: second.epoch}); err != nil {
		t.Error(err)
	}
}

// TestANewLeaderSeesAll: when it begins to lead, its cache has everything that its predecessor wrote.
func TestANewLeaderSeesAll(t *testing.T) {
	srv := etcd(t, folder(t))
	var stores []*Store
	for range 2 {
		stores = append(stores, running(t, Config{Client: dial(t, srv.Endpoint())}))
	}
	last := task("last")
	mustCommit(t, stores[0], Create(last))
	written := last.Meta.Revision
	for round := range 100 {
		s := stores[round%2]
		reigned := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Campaign(ctx, "s", func(ctx context.Context, epoch Epoch) error {
			o, err := s.Get(ctx, keyOf("last"), 0)
			if err == nil && o.GetMeta().Revision != written {
				err = fmt.Errorf("round %d: it sees revision %d, %d was written before it led", round, o.GetMeta().Revision, written)
			}
			if err == nil {
				next := Clone(o.(*api.TrainingTask))
				written, err = s.Commit(ctx, Txn{Ops: []Op{Update(next)}, Fence: epoch})
			}
			reigned <- err
			return nil
		})
		err := <-reigned
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A leader that was paused longer than its lease: its key is gone, another one leads, and when
// it wakes up its first write is refused although it has noticed nothing yet.
func TestPausedLeader(t *testing.T) {
	client := etcd(t, folder(t)).Client()
	a, b := New(Config{Client: client}), New(Config{Client: client})
	reigns := make(chan reign, 4)
	stand(t, a, "a", reigns)
	first := next(t, reigns)
	stand(t, b, "b", reigns)
	kv, err := client.Get(t.Context(), first.epoch.Key)
	if err != nil || len(kv.Kvs) != 1 {
		t.Fatal(kv, err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(kv.Kvs[0].Lease)); err != nil { // as its end does
		t.Fatal(err)
	}
	second := next(t, reigns)
	if second.name != "b" {
		t.Fatalf("%s leads", second.name)
	}
	if _, err := a.Commit(t.Context(), Txn{Ops: []Op{Create(task("late"))}, Fence: first.epoch}); fault.ReasonOf(err) != "NotLeader" {
		t.Errorf("got %v", err)
	}
	select {
	case <-first.ctx.Done():
	case <-time.After(patience):
		t.Error("the former leader was not told")
	}
	eventually(t, "a stands again", func() bool {
		kvs, err := client.Get(t.Context(), a.prefix+electionFolder+"/", clientv3.WithPrefix())
		return err == nil && len(kvs.Kvs) == 2
	})
	second.end <- nil // b gives way; a stands again and gets a later epoch
	third := next(t, reigns)
	if third.name != "a" || third.epoch.Revision <= first.epoch.Revision {
		t.Errorf("%s with %d", third.name, third.epoch.Revision)
	}
}

// A predecessor that died leaves a key that would live for its lease.
func TestForgetLeaders(t *testing.T) {
	client := etcd(t, folder(t)).Client()
	s := New(Config{Client: client})
	lease, err := client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), s.prefix+electionFolder+"/dead", "dead", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), s.prefix+electionFolder+"/deader", "no lease"); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetLeaders(t.Context()); err != nil {
		t.Fatal(err)
	}
	reigns := make(chan reign, 1)
	stand(t, s, "heir", reigns)
	if r := next(t, reigns); r.name != "heir" {
		t.Errorf("%s leads", r.name)
	}
	if err := s.ForgetLeaders(t.Context()); err != nil { // also ends a living one
		t.Fatal(err)
	}
	next(t, reigns)
}

func TestLeadersOwnError(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	broken := errors.New("broken")
	for _, c := range []struct {
		first error
		want  error
	}{{broken, broken}, {notLeader(), broken}} {
		errs := []error{c.first, broken}
		err := s.Campaign(t.Context(), "x", func(context.Context, Epoch) error {
			err := errs[0]
			errs = errs[1:]
			return err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("got %v", err)
		}
	}
	if _, _, err := s.Leader(t.Context()); fault.ReasonOf(err) != "NoLeader" {
		t.Errorf("it did not resign: %v", err)
	}
}
