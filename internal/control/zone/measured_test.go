package zone

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// crossed is a task whose preflight ended then and found this.
func crossed(at time.Time, c ...roundtrip.Crossing) *api.TrainingTask {
	return &api.TrainingTask{
		Meta:   api.Meta{ID: id.Default.New("task"), Name: "t", Project: "lab"},
		Status: api.TrainingTaskStatus{Preflight: &api.PreflightStatus{StartedAt: at, FinishedAt: &at, Crossings: c}},
	}
}

func TestKeep(t *testing.T) {
	found := roundtrip.Crossing{From: "a", To: "b", LatencyMs: 12, SlowestMs: 14, Pairs: 3, FromNode: "a1", ToNode: "b2"}
	log := newLogbook()
	if zones := log.note(crossed(now, found)); !slices.Equal(zones, []string{"a", "b"}) {
		t.Fatalf("news for %v", zones)
	}
	if zones := log.note(crossed(now.Add(-time.Hour), found)); zones != nil {
		t.Errorf("an older one is news for %v", zones)
	}
	want := api.MeasuredLatency{P50Ms: 12, P99Ms: 14, Samples: 3, At: now, FromNode: "a1", ToNode: "b2", Task: "lab/t"}
	if got := log.of("a")["b"]; got != want {
		t.Errorf("%+v", got)
	}
	if back := log.of("b")["a"]; back.FromNode != "b2" || back.ToNode != "a1" || back.P50Ms != 12 {
		t.Errorf("the way back: %+v", back)
	}
	for _, none := range []roundtrip.Crossing{{From: "a", To: "c", OneMachine: true}, {From: "a", To: "c"}} {
		if zones := log.note(crossed(now.Add(time.Hour), none)); zones != nil {
			t.Errorf("%+v is news for %v", none, zones)
		}
	}

	table := func(old api.MeasuredLatency, later time.Duration, ms float64) map[string]api.MeasuredLatency {
		z := &api.Zone{Meta: api.Meta{Name: "a"}, Status: api.ZoneStatus{Measured: map[string]api.MeasuredLatency{"b": old}}}
		next := old
		next.At, next.P50Ms = old.At.Add(later), ms
		return keep(seen{zone: z, trips: map[string]api.MeasuredLatency{"b": next}}, next.At)
	}
	for _, tc := range []struct {
		name  string
		later time.Duration
		ms    float64
		taken bool
	}{
		{"a moment later", time.Second, 13, false}, {"the same", 0, 12, false}, {"earlier", -time.Hour, 1, false},
		{"a quarter of an hour later", 15 * time.Minute, 13, true}, {"another class, at once", time.Second, 1, false}, {"another class", time.Minute, 1, true},
	} {
		if got := table(want, tc.later, tc.ms)["b"]; (got.P50Ms == tc.ms && got.At.Equal(now.Add(tc.later))) != (tc.taken || tc.later == 0) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}

	agents := want
	agents.Task = "" // who never rests
	for _, tc := range []struct {
		later time.Duration
		ms    float64
		taken bool
	}{{time.Hour, 12.5, false}, {time.Hour, 14, true}, {calmAfter, 12.5, true}, {5 * time.Minute, 14, false}, {time.Minute, 1, true}} {
		if got := table(agents, tc.later, tc.ms)["b"]; (got.P50Ms == tc.ms) != tc.taken {
			t.Errorf("an agent, %s later, %v ms: %+v", tc.later, tc.ms, got)
		}
	}

	z := &api.Zone{Meta: api.Meta{Name: "a"}, Status: api.ZoneStatus{Measured: map[string]api.MeasuredLatency{"b": want}}}
	s := seen{zone: z, peers: map[string]bool{"a": true, "b": true}, trips: map[string]api.MeasuredLatency{"b": want, "gone": want}}
	if got := slices.Collect(maps.Keys(keep(s, now))); !slices.Equal(got, []string{"b"}) {
		t.Errorf("zones %v", got)
	}
	fresh := keep(s, now.Add(24*time.Hour))
	if fresh["b"].Stale || wake(fresh, now.Add(24*time.Hour)) != time.Second {
		t.Errorf("a day old: %+v, wakes in %v", fresh, wake(fresh, now.Add(24*time.Hour)))
	}
	old := keep(s, now.Add(24*time.Hour+time.Second))
	if !old["b"].Stale {
		t.Errorf("older than a day: %+v", old)
	}
	z.Status.Measured = old
	if again := keep(s, now.Add(25*time.Hour)); fmt.Sprint(again) != fmt.Sprint(old) {
		t.Errorf("another table without news: %+v", again)
	}
	if got := keep(s, now.Add(31*24*time.Hour)); got != nil {
		t.Errorf("kept for a month: %+v", got)
	}
}

// TestTasksMeasure: what a task found is in both zones, seldom written, and found again by the next leader.
func TestTasksMeasure(t *testing.T) {
	s := storetest.Open(t)
	put := func(op func(api.Object) store.Op, o api.Object) int64 {
		t.Helper()
		rev, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{op(o)}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	for _, name := range []string{"a", "b"} {
		put(store.Create, &api.Zone{Meta: api.Meta{ID: id.Default.New("zone"), Name: name}, Spec: api.ZoneSpec{Region: "r", LatencyMs: map[string]float64{}}})
	}
	lead := func() (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := New(Config{Store: s, Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
		go func() { ended <- c.Run(ctx, store.Epoch{}) }()
		return func() { cancel(); <-ended }
	}
	await := func(zone, to string, ok func(api.MeasuredLatency) bool) *api.Zone {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-clock.Real.After(time.Millisecond) {
			o, err := s.Get(t.Context(), api.Key{Kind: api.KindZone, Name: zone}, 0)
			if err == nil && ok(o.(*api.Zone).Status.Measured[to]) {
				return o.(*api.Zone)
			}
			if time.Now().After(deadline) {
				t.Fatalf("zone %s: %+v, %v", zone, o, err)
			}
		}
	}
	end := lead()
	at := time.Now().Add(-time.Hour).Round(0).UTC()
	put(store.Create, crossed(at, roundtrip.Crossing{From: "a", To: "b", LatencyMs: 12, SlowestMs: 14, Pairs: 3, FromNode: "a1", ToNode: "b2"}))
	is := func(ms float64, from string) func(api.MeasuredLatency) bool {
		return func(m api.MeasuredLatency) bool { return m.P50Ms == ms && m.FromNode == from }
	}
	await("a", "b", is(12, "a1"))
	was := await("b", "a", is(12, "b2"))
	// Another one a moment later changes nothing; one that the leader did not see is found by the next.
	next := crossed(at.Add(time.Second), roundtrip.Crossing{From: "a", To: "b", LatencyMs: 12.5, Pairs: 1, FromNode: "a3", ToNode: "b3"})
	next.Meta.Name = "t2"
	put(store.Create, next)
	end()
	late := crossed(at.Add(time.Hour/2), roundtrip.Crossing{From: "a", To: "b", LatencyMs: 13, SlowestMs: 13, Pairs: 1, FromNode: "a4", ToNode: "b4"})
	late.Meta.Name = "t3"
	put(store.Create, late)
	defer lead()()
	now := await("b", "a", is(13, "b4"))
	if now.Status.Measured["a"].Task != "lab/t3" || was.Status.Measured["a"].Task != "lab/t" {
		t.Errorf("%+v after %+v", now.Status.Measured, was.Status.Measured)
	}
}
