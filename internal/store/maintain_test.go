package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

func TestMaintenance(t *testing.T) {
	fake := clock.NewFake(time.Unix(1.7e9, 0))
	s := New(Config{Client: etcd(t, folder(t)).Client(), Clock: fake, QuotaBytes: 1})
	s.maintenance.defragFrom = 1
	o := task("one")
	o.Spec.Description = string(make([]byte, 100<<10))
	first := mustCommit(t, s, Create(o))
	for range 30 {
		mustCommit(t, s, Update(o))
	}
	small := task("small")
	mustCommit(t, s, Create(small))
	before, quota, err := s.Size(t.Context())
	if err != nil || quota != 1 || s.Warning(t.Context()) == nil {
		t.Fatalf("%d %d %v, warning %v", before, quota, err, s.Warning(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.RunMaintenance(ctx) }()
	eventually(t, "the past is compacted and the room given back", func() bool {
		fake.Advance(time.Hour)
		mustCommit(t, s, Update(small)) // pages come free with the next write
		_, err := s.client.Get(t.Context(), "/", clientv3.WithRev(first))
		now, _, sizeErr := s.Size(t.Context())
		return err != nil && sizeErr == nil && now < before
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := s.getDirect(t.Context(), keyOf("one")); err != nil || got.GetMeta().Revision != o.Meta.Revision {
		t.Errorf("%v, %v", got, err)
	}
}

// At its quota etcd refuses writes, also after deletions; maintenance makes room and says so.
func TestQuota(t *testing.T) {
	srv, err := embedded.Start(t.Context(), embedded.Config{Dir: folder(t), UnsafeNoFsync: true, QuotaBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	s := New(Config{Client: srv.Client()})
	var names []string
	for i := 0; ; i++ {
		o := task(fmt.Sprintf("t%d", i))
		o.Spec.Description = strings.Repeat("x", 200<<10)
		_, err = s.Commit(t.Context(), Txn{Ops: []Op{Create(o)}})
		if err != nil {
			break
		}
		names = append(names, o.Meta.Name)
		if i > 100 {
			t.Fatal("the quota holds nobody back")
		}
	}
	if fault.ReasonOf(err) != "StoreFull" || !fault.Is(err, fault.Full) {
		t.Fatalf("got %v", err)
	}
	if err := s.Healthy(t.Context()); fault.ReasonOf(err) != "StoreFull" {
		t.Errorf("health: %v", err)
	}
	if s.Warning(t.Context()) == nil {
		t.Error("no warning")
	}
	for _, name := range names {
		if _, err := s.getDirect(t.Context(), keyOf(name)); err != nil {
			t.Errorf("acknowledged and gone: %v", err)
		}
		mustCommit(t, s, Delete(keyOf(name), 0))
	}
	var m maintenance
	eventually(t, "there is room again", func() bool {
		m.turn(t.Context(), &s.upkeep)
		return s.Healthy(t.Context()) == nil
	})
	mustCommit(t, s, Create(task("after")))
}
