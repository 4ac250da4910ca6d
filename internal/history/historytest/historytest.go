// Package historytest is the conformance suite of history: every adapter's test calls Run.
//
// Place: layer 3, for tests only. Promise: an adapter that passes can stand in for any other.
// Enemies: behaviour that only one adapter has and somebody relies on.
package historytest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

var epoch = time.Date(2026, 3, 1, 8, 0, 0, 123456789, time.UTC)

// Run checks everything the port promises; open gives a new empty store each time and closes it
// at the test's end.
func Run(t *testing.T, open func(t *testing.T) history.History) {
	t.Run("Events", func(t *testing.T) { events(t, open(t)) })
	t.Run("EventsAllOrNone", func(t *testing.T) { eventsConcurrent(t, open(t)) })
	t.Run("Audit", func(t *testing.T) { audit(t, open(t)) })
	t.Run("AuditQueries", func(t *testing.T) { auditQueries(t, open(t)) })
	t.Run("AuditChain", func(t *testing.T) { auditChain(t, open(t)) })
	t.Run("Usage", func(t *testing.T) { usage(t, open(t)) })
	t.Run("Served", func(t *testing.T) { served(t, open(t)) })
	t.Run("Books", func(t *testing.T) { books(t, open(t)) })
	t.Run("Runs", func(t *testing.T) { runs(t, open(t)) })
	t.Run("Points", func(t *testing.T) { points(t, open(t)) })
	t.Run("PointsAgain", func(t *testing.T) { pointsAgain(t, open(t)) })
	t.Run("PointsRead", func(t *testing.T) { pointsRead(t, open(t)) })
	t.Run("PointsBesideReaders", func(t *testing.T) { pointsBeside(t, open(t)) })
	t.Run("PointsForgotten", func(t *testing.T) { pointsForgotten(t, open(t)) })
	t.Run("PointsOutlined", func(t *testing.T) { pointsOutlined(t, open(t)) })
	t.Run("Archive", func(t *testing.T) { archive(t, open(t)) })
	t.Run("ArchiveExpiry", func(t *testing.T) { expiry(t, open(t)) })
	t.Run("ArchiveSearch", func(t *testing.T) { search(t, open(t)) })
	t.Run("ArchiveLists", func(t *testing.T) { lists(t, open(t)) })
	t.Run("Backup", func(t *testing.T) { backup(t, open(t)) })
	t.Run("EndedContext", func(t *testing.T) { endedContext(t, open(t)) })
	t.Run("Closed", func(t *testing.T) { closed(t, open(t)) })
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t testing.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
}

func events(t *testing.T, h history.History) {
	ctx := context.Background()
	var want []history.Event
	for i := range 20 {
		want = append(want, history.Event{
			Time: epoch.Add(time.Duration(i)), Kind: api.KindTrainingTask, Project: fmt.Sprint("p", i%2), Name: "n", ID: fmt.Sprint("task-", i%4),
			Type: "Normal", Reason: "Started", Message: fault.T("It began.", "已开始。"), Actor: "control/train", Dedup: fmt.Sprint("d", i),
		})
	}
	ok(t, h.AddEvents(ctx, want...))
	ok(t, h.AddEvents(ctx, want[3], want[7])) // repeated: nothing happens
	ok(t, h.AddEvents(ctx))
	noDedup := history.Event{Time: epoch, Kind: api.KindNode, Name: "node", ID: "node-1", Type: "Warning", Reason: "Lost"}
	ok(t, h.AddEvents(ctx, noDedup, noDedup))
	want = append(want, noDedup, noDedup)

	all, err := h.ListEvents(ctx, history.EventQuery{})
	ok(t, err)
	ignore := cmpopts.IgnoreFields(history.Event{}, "Seq", "Dedup")
	if diff := cmp.Diff(want, all, ignore); diff != "" {
		t.Fatal(diff)
	}
	if !slices.IsSortedFunc(all, func(a, b history.Event) int { return int(a.Seq - b.Seq) }) {
		t.Fatal("not in order of Seq")
	}
	for _, tt := range []struct {
		q    history.EventQuery
		want []history.Event
	}{
		{history.EventQuery{ObjectID: "task-1"}, []history.Event{all[1], all[5], all[9], all[13], all[17]}},
		{history.EventQuery{ObjectID: "task-1", After: all[5].Seq, Limit: 2}, []history.Event{all[9], all[13]}},
		{history.EventQuery{ObjectID: "task-1", Newest: true, Limit: 2}, []history.Event{all[13], all[17]}},
		{history.EventQuery{Kind: api.KindNode}, all[20:]},
		{history.EventQuery{Project: "p1", Kind: api.KindTrainingTask, Limit: 1}, all[1:2]},
		{history.EventQuery{Project: "nobody"}, nil},
	} {
		got, err := h.ListEvents(ctx, tt.q)
		ok(t, err)
		same(t, tt.want, got)
	}
}

// eventsConcurrent: writers who share a transaction do not share a fate or an order.
func eventsConcurrent(t *testing.T, h history.History) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 10 {
				e := history.Event{Time: epoch, Kind: api.KindTrainingTask, ID: fmt.Sprint("task-", w), Reason: fmt.Sprint(i), Dedup: fmt.Sprintf("%d/%d", w, i)}
				if err := h.AddEvents(ctx, e, e); err != nil {
					t.Error(err)
				}
				if err := h.PutUsage(ctx, history.UsageRow{}); !fault.Is(err, fault.Invalid) {
					t.Errorf("an empty row: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for w := range 16 {
		got, err := h.ListEvents(ctx, history.EventQuery{ObjectID: fmt.Sprint("task-", w)})
		ok(t, err)
		if len(got) != 10 {
			t.Fatalf("writer %d: %d events", w, len(got))
		}
		for i, e := range got {
			same(t, fmt.Sprint(i), e.Reason)
		}
	}
}

func usage(t *testing.T, h history.History) {
	ctx := context.Background()
	a := history.UsageRow{
		Replica: "r-0", TaskID: "task-1", Project: "p", Owner: "o", Zone: "z", Node: "n", Devices: 8, Thousandths: 4000, Type: "A100", CPU: 4000,
		Memory: 1 << 40, Start: epoch, PriceHour: 12.5,
	}
	b := a
	b.Replica, b.Start = "r-1", epoch.Add(-time.Hour)
	ok(t, h.PutUsage(ctx, a, b))
	a.Stop, a.ExitCode, a.Reason, a.CPUTime, a.PeakBytes = epoch.Add(time.Hour), 137, "OutOfMemory", 3*time.Hour, 1<<33
	ok(t, h.PutUsage(ctx, a))
	ok(t, h.PutUsage(ctx, a))
	got, err := h.UsageOf(ctx, "task-1")
	ok(t, err)
	same(t, []history.UsageRow{b, a}, got)
	got, err = h.UsageOf(ctx, "task-2")
	ok(t, err)
	same(t, []history.UsageRow{}, got)
	usageSpans(t, h, a, b)
}

func backup(t *testing.T, h history.History) {
	ctx := context.Background()
	ok(t, h.AddEvents(ctx, history.Event{Time: epoch, ID: "x"}))
	path := filepath.Join(t.TempDir(), "it's a 备份")
	ok(t, h.Backup(ctx, path))
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := h.Backup(ctx, path); !fault.Is(err, fault.Conflict) {
		t.Fatalf("over an existing file: %v", err)
	}
}

func endedContext(t *testing.T, h history.History) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.AddEvents(ctx, history.Event{ID: "x"}); err == nil {
		t.Fatal("written under an ended context")
	}
	if _, err := h.ListEvents(ctx, history.EventQuery{}); err == nil {
		t.Fatal("read under an ended context")
	}
	ok(t, h.AddEvents(context.Background(), history.Event{ID: "y"}))
}

func closed(t *testing.T, h history.History) {
	ok(t, h.Close())
	if err := h.AddEvents(context.Background(), history.Event{ID: "x"}); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("after Close: %v", err)
	}
	ok(t, h.Close())
}
