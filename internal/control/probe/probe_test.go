package probe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// servers answer with a zone and a round trip by address.
type servers struct {
	mu    sync.Mutex
	zones map[string]string
	trips map[string]time.Duration
	dead  map[string]bool
}

func (s *servers) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for a := range s.zones {
		out = append(out, a)
	}
	return out
}

func (s *servers) Ping(_ context.Context, address string) (string, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead[address] {
		return "", 0, errors.New("no answer")
	}
	return s.zones[address], s.trips[address], nil
}

func (s *servers) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func zoneOf(t *testing.T, s *store.Store, name string, least int64) *api.Zone {
	t.Helper()
	o, err := s.Get(t.Context(), api.Key{Kind: api.KindZone, Name: name}, least)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*api.Zone)
}

// TestReports: what changed is written, once a minute at most; what did not, and what nobody can use,
// is not.
func TestReports(t *testing.T) {
	s := storetest.Open(t)
	for _, name := range []string{"a", "b"} {
		rev, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(&api.Zone{Meta: api.Meta{ID: id.Default.New("zone"), Name: name}, Spec: api.ZoneSpec{Region: "r"}})}})
		if err != nil {
			t.Fatal(err)
		}
		zoneOf(t, s, name, rev) // the cache has heard of it
	}
	peers := &servers{
		zones: map[string]string{"1": "b", "2": "a", "3": "", "4": "unknown"},
		trips: map[string]time.Duration{"1": 3 * time.Millisecond, "2": time.Hour, "3": time.Hour, "4": time.Hour}, dead: map[string]bool{},
	}
	clk := clock.NewFake(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC))
	p := New(Config{Zone: "a", Peers: peers, Store: s, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	rounds := func(n int) {
		for range n {
			p.round(t.Context())
			clk.Advance(every)
		}
	}
	report := func() *api.Zone {
		t.Helper()
		if err := p.report(t.Context(), clk.Now().UTC()); err != nil {
			t.Fatal(err)
		}
		rev, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return zoneOf(t, s, "a", rev)
	}
	rounds(least - 1)
	if z := report(); len(z.Status.Measured) != 0 {
		t.Errorf("too few say something: %+v", z.Status.Measured)
	}
	rounds(least)
	z := report()
	if m := z.Status.Measured; len(m) != 1 || m["b"].P50Ms != 3 || m["b"].P99Ms != 3 || m["b"].Samples != 2*least-1 {
		t.Fatalf("%+v", m)
	}
	first := z.Meta.Revision
	peers.set(func() { peers.trips["1"] = 3200 * time.Microsecond })
	rounds(size)
	if z := report(); z.Meta.Revision != first {
		t.Error("3.2 ms after 3 ms was written")
	}
	peers.set(func() { peers.trips["1"] = 5 * time.Millisecond })
	rounds(size)
	if z := report(); z.Status.Measured["b"].P50Ms != 5 || z.Status.Measured["b"].Samples != size {
		t.Errorf("%+v", z.Status.Measured)
	}
	clk.Advance(renewAfter)
	rounds(1)
	again := report()
	if at := again.Status.Measured["b"].At; clk.Now().Sub(at) > time.Minute {
		t.Error("it grows old:", at)
	}
	peers.set(func() { peers.dead["1"] = true })
	rounds(1)
	if len(p.windows) == 0 {
		t.Error("one lost answer, and all is forgotten")
	}
	clk.Advance(2 * renewAfter)
	rounds(1)
	if z := report(); z.Meta.Revision != again.Meta.Revision {
		t.Error("a server that is gone is measured")
	}
}

func TestWindow(t *testing.T) {
	var w window
	for i := range size + 100 {
		w.add(time.Duration(i) * time.Millisecond)
	}
	m, ok := w.measured(time.Time{})
	if !ok || m.Samples != size || m.P50Ms != 227 || m.P99Ms != 353 {
		t.Errorf("%+v: the last %d of %d", m, size, size+100)
	}
	for _, tc := range []struct {
		was, now float64
		want     bool
	}{{1, 1.05, false}, {1, 1.2, true}, {10, 10.9, false}, {10, 12, true}, {10, 8, true}, {0.05, 0.12, false}} {
		at := time.Unix(1e9, 0)
		if got := changed(api.MeasuredLatency{P50Ms: tc.was, P99Ms: 50, Samples: 1, At: at}, api.MeasuredLatency{P50Ms: tc.now, P99Ms: 50, Samples: 1, At: at}); got != tc.want {
			t.Errorf("%v to %v: %v", tc.was, tc.now, got)
		}
	}
}

// TestRun: it measures by itself, and ends with its context.
func TestRun(t *testing.T) {
	s := storetest.Open(t)
	peers := &servers{zones: map[string]string{"1": "b"}, trips: map[string]time.Duration{"1": time.Millisecond}}
	clk := clock.NewFake(time.Unix(1e9, 0))
	p := New(Config{Zone: "nowhere", Peers: peers, Store: s, Clock: clk, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
