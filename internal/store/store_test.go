package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestLife(t *testing.T) {
	s := fresh(t)
	o := task("one")
	rev := mustCommit(t, s, Create(o))
	if o.Meta.Revision != rev {
		t.Errorf("revision %d, want %d", o.Meta.Revision, rev)
	}
	got, err := s.Get(t.Context(), keyOf("one"), rev)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.Object(o), got); diff != "" {
		t.Error(diff)
	}
	byID, err := s.GetByID(t.Context(), api.KindTrainingTask, o.Meta.ID, rev)
	if err != nil || byID != got {
		t.Errorf("by id: %v, %v", byID, err)
	}
	mine := Clone(got.(*api.TrainingTask))
	mine.Spec.Queue = "fast"
	rev2 := mustCommit(t, s, Update(mine))
	again, err := s.Get(t.Context(), keyOf("one"), rev2)
	if err != nil || again.(*api.TrainingTask).Spec.Queue != "fast" || again.GetMeta().Revision != rev2 {
		t.Errorf("after update: %+v, %v", again, err)
	}
	if got.(*api.TrainingTask).Spec.Queue != "" {
		t.Error("a shared object was changed")
	}
	rev3 := mustCommit(t, s, Delete(keyOf("one"), rev2))
	if _, err := s.Get(t.Context(), keyOf("one"), rev3); !fault.Is(err, fault.NotFound) {
		t.Errorf("after delete: %v", err)
	}
	if _, err := s.GetByID(t.Context(), api.KindTrainingTask, o.Meta.ID, rev3); !fault.Is(err, fault.NotFound) {
		t.Errorf("by id after delete: %v", err)
	}
}

// The revision is etcd's own and must not be frozen into the value.
func TestRevisionIsNotStored(t *testing.T) {
	o := task("x")
	o.Meta.Revision = 42
	raw, err := encode(o)
	if err != nil || strings.Contains(string(raw), "revision") || o.Meta.Revision != 42 {
		t.Errorf("%s, %v, %d", raw, err, o.Meta.Revision)
	}
}

func TestCommitFaults(t *testing.T) {
	s := fresh(t)
	old, there, gone := task("old"), task("there"), task("gone")
	mustCommit(t, s, Create(old), Create(there), Create(gone))
	stale := Clone(old)
	mustCommit(t, s, Update(old), Delete(keyOf("gone"), 0))
	never := task("never")
	huge := task("huge")
	huge.Spec.Description = strings.Repeat("x", maxValue)
	half1, half2 := task("half1"), task("half2")
	half1.Spec.Description, half2.Spec.Description = strings.Repeat("x", 900<<10), strings.Repeat("x", 900<<10)
	slash := task("a/b")
	under := task("x")
	under.Meta.Project = "_"
	many := make([]Op, 101)
	for i := range many {
		many[i] = Create(task(fmt.Sprintf("many-%d", i)))
	}
	cases := map[string]struct {
		txn    Txn
		code   fault.Code
		reason string
		says   string
	}{
		"create over":          {Txn{Ops: []Op{Create(never), Create(task("there"))}}, fault.Conflict, "NameTaken", "TrainingTask/default/there"},
		"update of the past":   {Txn{Ops: []Op{Create(never), Update(stale)}}, fault.Conflict, "Stale", "default/old"},
		"update of a deleted":  {Txn{Ops: []Op{Update(gone)}}, fault.Conflict, "Stale", "deleted"},
		"update without":       {Txn{Ops: []Op{Update(task("there"))}}, fault.Invalid, "RevisionMissing", "revision"},
		"delete of the past":   {Txn{Ops: []Op{Create(never), Delete(keyOf("old"), stale.Meta.Revision)}}, fault.Conflict, "Stale", "old"},
		"guard on the past":    {Txn{Ops: []Op{Create(never), Unchanged(keyOf("old"), stale.Meta.Revision)}}, fault.Conflict, "Stale", "old"},
		"guard on an absence":  {Txn{Ops: []Op{Create(never), Unchanged(keyOf("old"), 0)}}, fault.Conflict, "Stale", "old"},
		"foreign fence":        {Txn{Ops: []Op{Create(never), Update(stale)}, Fence: Epoch{Key: "/fermi/v1/_leader/x", Revision: 3}}, fault.Conflict, "NotLeader", "leader"},
		"too many":             {Txn{Ops: many}, fault.Invalid, "TooManyOperations", "101"},
		"too large an object":  {Txn{Ops: []Op{Create(huge)}}, fault.Invalid, "ObjectTooLarge", "huge"},
		"too large together":   {Txn{Ops: []Op{Create(half1), Create(half2)}}, fault.Invalid, "TransactionTooLarge", ""},
		"a slash in the name":  {Txn{Ops: []Op{Create(slash)}}, fault.Invalid, "BadKey", "a/b"},
		"no name":              {Txn{Ops: []Op{Create(task(""))}}, fault.Invalid, "BadKey", ""},
		"project underscore":   {Txn{Ops: []Op{Create(under)}}, fault.Invalid, "BadKey", ""},
		"unknown kind":         {Txn{Ops: []Op{Delete(api.Key{Kind: "Nonsense", Name: "x"}, 0)}}, fault.Invalid, "BadKey", "Nonsense"},
		"twice the same":       {Txn{Ops: []Op{Create(never), Delete(keyOf("never"), 0)}}, fault.Invalid, "DuplicateKey", "never"},
		"delete absent is ok":  {Txn{Ops: []Op{Delete(keyOf("nowhere"), 0)}}, "", "", ""},
		"guard on absent ok":   {Txn{Ops: []Op{Unchanged(keyOf("nowhere"), 0)}}, "", "", ""},
		"guard and write ok":   {Txn{Ops: []Op{Unchanged(keyOf("there"), there.Meta.Revision), Update(there)}}, "", "", ""},
		"a hundred are enough": {Txn{Ops: many[:100]}, "", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := s.Commit(t.Context(), c.txn)
			if fault.CodeOf(err) != c.code || fault.ReasonOf(err) != c.reason {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				if f := fault.From(err); !strings.Contains(f.Message.EN, c.says) || f.Message.ZH == "" {
					t.Errorf("message %+v", f.Message)
				}
			}
			if _, err := s.getDirect(t.Context(), keyOf("never")); !fault.Is(err, fault.NotFound) {
				t.Errorf("a refused transaction wrote something: %v", err)
			}
		})
	}
}

// Writers that read, change and retry on Stale lose no increment.
func TestManyWriters(t *testing.T) {
	s := fresh(t)
	created := mustCommit(t, s, Create(task("counter")))
	const writers, each = 8, 12
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			rev := created
			for done := 0; done < each; {
				o, err := s.Get(t.Context(), keyOf("counter"), rev)
				if err != nil {
					t.Error(err)
					return
				}
				mine := Clone(o.(*api.TrainingTask))
				mine.Status.Attempt++
				r, err := s.Commit(t.Context(), Txn{Ops: []Op{Update(mine)}})
				switch {
				case err == nil:
					done++
					rev = r
				case fault.ReasonOf(err) != "Stale":
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	o, err := s.getDirect(t.Context(), keyOf("counter"))
	if err != nil || o.(*api.TrainingTask).Status.Attempt != writers*each {
		t.Errorf("got %+v, %v", o, err)
	}
}

// A write outside of our prefix moves the revision without an event: only progress tells.
func TestReadWaitsForForeignRevision(t *testing.T) {
	s := fresh(t)
	mustCommit(t, s, Create(task("one")))
	for range 20 {
		resp, err := s.client.Put(t.Context(), "/elsewhere", "x")
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.fresh(t.Context(), resp.Header.Revision)
		if err != nil || !ok {
			t.Fatalf("not fresh: %v", err)
		}
	}
}

// Who was too late reads what is newer at once, as often as it happens: a loop of a few tries must not spend them on the same.
func TestStaleOnce(t *testing.T) {
	client := etcd(t, folder(t)).Client()
	here, there := running(t, Config{Client: client}), running(t, Config{Client: client})
	begun := mustCommit(t, here, Create(task("one")))
	for n := range 300 {
		o, err := here.Get(t.Context(), keyOf("one"), begun)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, there, Update(changed(t, there, "one")))
		guarded := Txn{Ops: []Op{Unchanged(keyOf("one"), o.GetMeta().Revision)}}
		if _, err := here.Commit(t.Context(), guarded); fault.ReasonOf(err) != "Stale" {
			t.Fatalf("round %d: %v", n, err)
		}
		if o, err = here.Get(t.Context(), keyOf("one"), 0); err != nil {
			t.Fatal(err)
		}
		guarded.Ops[0] = Unchanged(keyOf("one"), o.GetMeta().Revision)
		if _, err := here.Commit(t.Context(), guarded); err != nil {
			t.Fatalf("round %d, again: %v", n, err)
		}
	}
}

// changed is a copy of what etcd has, to be written.
func changed(t *testing.T, s *Store, name string) api.Object {
	t.Helper()
	o, err := s.getDirect(t.Context(), keyOf(name))
	if err != nil {
		t.Fatal(err)
	}
	next := Clone(o.(*api.TrainingTask))
	next.Status.Attempt++
	return next
}

// A revision that was never written is not waited for, nor is it a way around the cache.
func TestReadOfAFutureRevision(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	s.freshFor = time.Hour
	start(t, s)
	rev := mustCommit(t, s, Create(task("one")))
	if ok, err := s.fresh(t.Context(), math.MaxInt64); err != nil || !ok {
		t.Errorf("from the cache: %v, %v", ok, err)
	}
	list, err := s.List(t.Context(), api.KindTrainingTask, "", math.MaxInt64)
	if err != nil || list.Len() != 1 || list.Revision < rev {
		t.Errorf("%+v, %v", list, err)
	}
}

// Without a fed cache reads go to etcd itself.
func TestReadsWithoutACache(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	s.freshFor = time.Millisecond
	o := task("one")
	other := task("two")
	other.Meta.Project = "else"
	rev := mustCommit(t, s, Create(o), Create(other))
	if got, err := s.Get(t.Context(), keyOf("one"), rev); err != nil || got.GetMeta().ID != o.Meta.ID {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.GetByID(t.Context(), api.KindTrainingTask, other.Meta.ID, rev); err != nil || got.GetMeta().Name != "two" {
		t.Errorf("%v, %v", got, err)
	}
	list, err := s.List(t.Context(), api.KindTrainingTask, "else", rev)
	if err != nil || list.Len() != 1 || list.Revision < rev {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := s.List(t.Context(), "Nonsense", "", 0); !fault.Is(err, fault.Invalid) {
		t.Errorf("unknown kind: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, keyOf("one"), 0); err == nil {
		t.Error("a read with an ended context")
	}
}

func TestSnapshotOrder(t *testing.T) {
	s := fresh(t)
	var want []string
	var rev int64
	for i := range 10 {
		o := task(fmt.Sprintf("t%d", i))
		o.Meta.ID = fmt.Sprintf("task-%02d", i)
		if i%2 == 1 {
			o.Meta.Project = "odd"
		}
		rev = mustCommit(t, s, Create(o))
		want = append(want, o.Meta.ID)
	}
	list, err := s.List(t.Context(), api.KindTrainingTask, "", rev)
	if err != nil {
		t.Fatal(err)
	}
	collect := func(walk func(func(api.Object) bool), limit int) (got []string) {
		walk(func(o api.Object) bool { got = append(got, o.GetMeta().ID); return len(got) < limit })
		return got
	}
	cases := map[string]struct {
		got, want []string
	}{
		"all":         {collect(func(v func(api.Object) bool) { list.Ascend("", v) }, 99), want},
		"after":       {collect(func(v func(api.Object) bool) { list.Ascend("task-06", v) }, 99), want[7:]},
		"between":     {collect(func(v func(api.Object) bool) { list.Ascend("task-06x", v) }, 99), want[7:]},
		"two":         {collect(func(v func(api.Object) bool) { list.Ascend("", v) }, 2), want[:2]},
		"newest":      {collect(func(v func(api.Object) bool) { list.Descend("", v) }, 2), []string{"task-09", "task-08"}},
		"before":      {collect(func(v func(api.Object) bool) { list.Descend("task-02", v) }, 99), []string{"task-01", "task-00"}},
		"before none": {collect(func(v func(api.Object) bool) { list.Descend("task-00", v) }, 99), nil},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	odd, err := s.List(t.Context(), api.KindTrainingTask, "odd", rev)
	if err != nil || odd.Len() != 5 {
		t.Errorf("project: %d, %v", odd.Len(), err)
	}
	mustCommit(t, s, Delete(keyOf("t0"), 0))
	eventually(t, "the deletion is seen", func() bool {
		l, _ := s.List(t.Context(), api.KindTrainingTask, "", 0)
		return l.Len() == 9
	})
	if list.Len() != 10 {
		t.Error("a snapshot changed")
	}
	var empty Snapshot
	empty.Ascend("", nil)
	empty.Descend("", nil)
}

// What can't be read is left alone in etcd, and what is known of it stays in the cache.
func TestUnreadableObjects(t *testing.T) {
	s := New(Config{Client: etcd(t, folder(t)).Client()})
	mustCommit(t, s, Create(task("good")), Create(task("turns")))
	raw := func(name, value string) {
		t.Helper()
		if _, err := s.client.Put(t.Context(), s.prefix+name, value); err != nil {
			t.Fatal(err)
		}
	}
	raw("training-tasks/default/bad", "{")
	raw("training-tasks/default/liar", `{"metadata":{"name":"other","project":"default"}}`)
	raw("nonsense/default/x", "{}")
	raw("training-tasks/short", "{}")
	start(t, s)
	list := func() (names []string) {
		l, err := s.List(t.Context(), api.KindTrainingTask, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		l.Ascend("", func(o api.Object) bool { names = append(names, o.GetMeta().Name); return true })
		return names
	}
	if diff := cmp.Diff([]string{"good", "turns"}, list()); diff != "" {
		t.Error(diff)
	}
	raw("training-tasks/default/turns", "not json")
	rev := mustCommit(t, s, Create(task("later")))
	if _, err := s.Get(t.Context(), keyOf("later"), rev); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"good", "turns", "later"}, list()); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Commit(t.Context(), Txn{Ops: []Op{Create(task("bad"))}}); fault.ReasonOf(err) != "NameTaken" {
		t.Errorf("create over an unreadable object: %v", err)
	}
	if _, err := s.getDirect(t.Context(), keyOf("bad")); fault.ReasonOf(err) != "ObjectUnreadable" {
		t.Errorf("got %v", err)
	}
}

func TestDiskReserve(t *testing.T) {
	var free uint64 = 1 << 40
	s := New(Config{Client: etcd(t, folder(t)).Client(), DiskFree: func() (uint64, error) { return free, nil }})
	one := task("one")
	mustCommit(t, s, Create(one))
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	free = 40 << 20
	if _, err := s.Commit(t.Context(), Txn{Ops: []Op{Create(task("two"))}}); fault.CodeOf(err) != fault.Full || fault.ReasonOf(err) != "DiskFull" {
		t.Errorf("write: %v", err)
	}
	if err := s.Healthy(t.Context()); !fault.Is(err, fault.Full) {
		t.Errorf("health: %v", err)
	}
	mustCommit(t, s, Delete(keyOf("one"), 0)) // the way out stays open
	free = 0
	if _, err := s.Commit(t.Context(), Txn{Ops: []Op{Create(task("two"))}, Urgent: true}); err != nil {
		t.Errorf("what is urgent: %v", err)
	}
	if _, err := s.Commit(Urgent(t.Context()), Txn{Ops: []Op{Create(task("four"))}}); err != nil {
		t.Errorf("what is urgent: %v", err)
	}
	mustCommit(t, s, Delete(keyOf("two"), 0))
	s.diskFree = func() (uint64, error) { return 0, errors.New("unknown") }
	mustCommit(t, s, Create(task("three")))
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := running(t, Config{Client: etcd(t, folder(t)).Client(), Metrics: reg})
	rev := mustCommit(t, s, Create(task("one")))
	if _, err := s.Commit(t.Context(), Txn{Ops: []Op{Create(task("one"))}}); err == nil {
		t.Fatal("created twice")
	}
	if _, err := s.Get(t.Context(), keyOf("one"), rev); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"fermi_store_commits_total": 2, "fermi_store_commit_seconds": 1, "fermi_store_cache_objects": len(api.Kinds),
		"fermi_store_cache_revision_lag": 1, "fermi_store_db_bytes": 1,
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	eventually(t, "the size is known", func() bool { return s.dbSize.Load() > 0 })
	New(Config{Client: s.client, Metrics: reg}) // a second one is not worth a crash
}

func TestUnavailable(t *testing.T) {
	srv := etcd(t, folder(t))
	s := New(Config{Client: dial(t, srv.Endpoint())})
	mustCommit(t, s, Create(task("one")))
	srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Commit(ctx, Txn{Ops: []Op{Create(task("two"))}}); fault.ReasonOf(err) != "StoreUnavailable" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("commit: %v", err)
	}
	if err := s.Healthy(ctx); fault.ReasonOf(err) != "StoreUnavailable" {
		t.Errorf("health: %v", err)
	}
}
