package placement_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// slow is a store whose answer to the first placement of one task comes after something else
// happened: the controller is still at its writes, and its feed grows.
type slow struct {
	*store.Store
	name      string
	meanwhile func(p *api.Placement)
	once      sync.Once
}

func (s *slow) Commit(ctx context.Context, txn store.Txn) (int64, error) {
	rev, err := s.Store.Commit(ctx, txn)
	for _, op := range txn.Ops {
		if p, ok := op.Object.(*api.Placement); ok && err == nil && op.Verb == store.VerbCreate && p.OwnerName() == s.name {
			s.once.Do(func() { s.meanwhile(p) })
		}
	}
	return rev, err
}

// finish ends a task and takes its place away, in one write as train does, and waits until all
// feeds have it.
func finish(t *testing.T, s *store.Store, name string, took time.Duration) {
	t.Helper()
	o, err := s.Get(t.Context(), api.Key{Kind: api.KindTrainingTask, Project: "p", Name: name}, 0)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{
		store.Update(ended(store.Clone(o.(*api.TrainingTask)), took)),
		store.Delete(api.PlaceKey("p", o.GetMeta().ID), 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), api.KeyOf(o), rev); err != nil {
		t.Fatal(err)
	}
}

// measured leads over two nodes and says what a gang of both would get: an estimate while no run of
// both is known.
func measured(t *testing.T, s *slow) func() api.EfficiencyNote {
	past, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "h")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { past.Close() })
	alone := task("训练 0", 1, 2)
	if err := past.PutRun(t.Context(), history.RunOf(ended(alone, 100*time.Minute), 1, 100*time.Minute)); err != nil {
		t.Fatal(err)
	}
	zones := []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}}
	c := leadOn(t, s, s.Store, zones, nodes(2), func(cfg *placement.Config) { cfg.Past = past })
	look := func() api.EfficiencyNote {
		next := task("next", 2, 2)
		next.Meta.DisplayName = "训练 9"
		p, err := c.Preview(t.Context(), next)
		if err != nil || p.Planned == nil {
			return api.EfficiencyNote{}
		}
		return p.Planned.Efficiency
	}
	eventually(t, "it leads", func() bool { return look().Basis == "estimated" })
	return look
}

var lesson = api.EfficiencyNote{Percent: 80, Basis: "measured", Runs: 1}

func both(name string) *api.TrainingTask {
	tk := task(name, 2, 2)
	tk.Meta.DisplayName = "训练 3"
	return tk
}

// TestAPlaceThatCameAndWent: a gang that stood and ended while the controller was busy is learned
// from, and what it held is free again.
func TestAPlaceThatCameAndWent(t *testing.T) {
	s := &slow{Store: storetest.Open(t), name: "brief"}
	s.meanwhile = func(*api.Placement) { finish(t, s.Store, "brief", 62*time.Minute+30*time.Second) }
	look := measured(t, s)
	commit(t, s.Store, store.Create(both("brief")))
	eventually(t, "it learns", func() bool { return look() == lesson })
	commit(t, s.Store, store.Create(both("next")))
	eventually(t, "the nodes are free", func() bool { return place(s.Store, "next") != nil })
}

// TestAPlaceThatCameAndWentToWait is one whose task waits again: it is placed again.
func TestAPlaceThatCameAndWentToWait(t *testing.T) {
	s := &slow{Store: storetest.Open(t), name: "again"}
	s.meanwhile = func(p *api.Placement) {
		o, err := s.Get(t.Context(), api.Key{Kind: api.KindTrainingTask, Project: "p", Name: "again"}, 0)
		if err != nil {
			t.Error(err)
			return
		}
		next := store.Clone(o.(*api.TrainingTask))
		next.Status.Attempt = 1
		rev, err := s.Store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Update(next), store.Delete(api.KeyOf(p), 0)}})
		if err == nil {
			_, err = s.Get(t.Context(), api.KeyOf(o), rev)
		}
		if err != nil {
			t.Error(err)
		}
	}
	measured(t, s)
	commit(t, s.Store, store.Create(both("again")))
	eventually(t, "it is placed again", func() bool {
		p := place(s.Store, "again")
		return p != nil && p.Spec.Attempt == 2
	})
}

// TestAnEndBehindAChangeOfItsPlace: the place changed, then the task ended and the place went, all
// while the controller was busy. The lesson is not lost because the place comes first in the feed.
func TestAnEndBehindAChangeOfItsPlace(t *testing.T) {
	s := &slow{Store: storetest.Open(t), name: "other"}
	look := measured(t, s)
	s.meanwhile = func(*api.Placement) {
		p := store.Clone(place(s.Store, "live"))
		p.Meta.UpdatedAt = p.Meta.UpdatedAt.Add(time.Second)
		commit(t, s.Store, store.Update(p))
		finish(t, s.Store, "live", 62*time.Minute+30*time.Second)
	}
	live := both("live")
	commit(t, s.Store, store.Create(live))
	eventually(t, "it is placed", func() bool { return place(s.Store, "live") != nil })
	commit(t, s.Store, store.Create(task("other", 1, 0))) // beside it: it takes no device
	eventually(t, "it learns", func() bool { return look() == lesson })
}

// TestANameTakenAgain: a task that went, and another of its name, while the controller was busy: the
// first one waits no more.
func TestANameTakenAgain(t *testing.T) {
	s := &slow{Store: storetest.Open(t), name: "other"}
	zones := []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}}
	c := leadOn(t, s, s.Store, zones, nodes(1))
	waits := func(n int) func() bool {
		return func() bool {
			got, ok := waiting(c, "q")
			return ok && got == n
		}
	}
	first, second := task("x", 3, 2), task("x", 3, 2)
	s.meanwhile = func(*api.Placement) {
		commit(t, s.Store, store.Delete(api.KeyOf(first), 0))
		commit(t, s.Store, store.Create(second))
		if _, err := s.Get(t.Context(), api.KeyOf(second), second.Meta.Revision); err != nil {
			t.Error(err)
		}
	}
	commit(t, s.Store, store.Create(first))
	eventually(t, "the first waits", waits(1))
	commit(t, s.Store, store.Create(task("other", 1, 0)))
	eventually(t, "the second waits", func() bool { _, ok := c.Why(second.Meta.ID); return ok })
	eventually(t, "only the second waits", waits(1))
}
