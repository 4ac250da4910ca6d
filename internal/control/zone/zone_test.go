package zone

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func links(ms map[string]float64, age time.Duration) map[string]api.MeasuredLatency {
	out := map[string]api.MeasuredLatency{}
	for to, p50 := range ms {
		out[to] = api.MeasuredLatency{P50Ms: p50, P99Ms: 2 * p50, Samples: 9, At: now.Add(-age)}
	}
	return out
}

func TestDecide(t *testing.T) {
	declared := map[string]float64{"b": 1.3, "c": 8.5, "d": 12}
	for _, tc := range []struct {
		name         string
		spec         api.ZoneSpec
		measured     map[string]api.MeasuredLatency
		nodes, ready int
		silent       int
		retired      int
		health       api.ZoneHealth
		reason, says string
	}{
		{"well", api.ZoneSpec{}, nil, 10, 9, 0, 0, "healthy", ReasonAllWell, ""},
		{"well but retired", api.ZoneSpec{}, nil, 10, 5, 0, 5, "healthy", ReasonAllWell, ""},
		{"all retired", api.ZoneSpec{}, nil, 3, 0, 0, 3, "degraded", ReasonNoNodes, "no nodes"},
		{"by hand", api.ZoneSpec{Health: "degraded", HealthReason: "检修"}, nil, 10, 10, 0, 0, "degraded", ReasonSetByHand, "检修"},
		{"by hand in two languages", api.ZoneSpec{Health: "degraded", HealthReason: "maintenance\n检修\n"}, nil, 10, 10, 0, 0, "degraded", ReasonSetByHand, "maintenance"},
		{"well by hand", api.ZoneSpec{Health: "healthy"}, nil, 10, 0, 10, 0, "healthy", ReasonSetByHand, ""},
		{"empty", api.ZoneSpec{}, nil, 0, 0, 0, 0, "degraded", ReasonNoNodes, "no nodes"},
		{"not ready", api.ZoneSpec{}, nil, 10, 8, 1, 0, "degraded", ReasonNotReady, "8 of 10"},
		{"silent", api.ZoneSpec{}, nil, 10, 0, 10, 0, "degraded", ReasonUnreachable, "10 nodes"},
		{"slow", api.ZoneSpec{LatencyMs: declared}, links(map[string]float64{"b": 2.5, "c": 60, "d": 12}, 0), 1, 1, 0, 0, "degraded", ReasonSlowLinks, "to c it takes 60 ms instead of 8.5"},
		{"one slow", api.ZoneSpec{LatencyMs: declared}, links(map[string]float64{"b": 1.3, "c": 60, "d": 12}, 0), 1, 1, 0, 0, "healthy", ReasonAllWell, ""},
		{"slower, same class", api.ZoneSpec{LatencyMs: declared}, links(map[string]float64{"b": 1.9, "c": 40}, 0), 1, 1, 0, 0, "healthy", ReasonAllWell, ""},
		{"slow long ago", api.ZoneSpec{LatencyMs: declared}, links(map[string]float64{"b": 9}, 25*time.Hour), 1, 1, 0, 0, "healthy", ReasonAllWell, ""},
		{"never declared", api.ZoneSpec{}, links(map[string]float64{"b": 900}, 0), 1, 1, 0, 0, "healthy", ReasonAllWell, ""},
	} {
		s := seen{zone: &api.Zone{Spec: tc.spec, Status: api.ZoneStatus{Measured: tc.measured}}, nodes: tc.nodes, ready: tc.ready, silent: tc.silent, retired: tc.retired}
		got := decide(s, now)
		if got.Health != tc.health || got.Reason != tc.reason || !strings.Contains(got.Message.EN, tc.says) || len(got.Measured) != len(tc.measured) {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if s.zone.Status = got; fmt.Sprint(decide(s, now)) != fmt.Sprint(got) {
			t.Errorf("%s: another state the second time", tc.name)
		}
	}
}

// TestFollows: the state follows nodes, the hand and measurements, and rests when nothing changes.
func TestFollows(t *testing.T) {
	s := storetest.Open(t)
	var seenAt int64
	put := func(op func(api.Object) store.Op, o api.Object) {
		t.Helper()
		rev, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{op(o)}})
		if err != nil {
			t.Fatal(err)
		}
		seenAt = rev
	}
	key := api.Key{Kind: api.KindZone, Name: "a"}
	get := func() *api.Zone {
		o, err := s.Get(t.Context(), key, seenAt)
		if err != nil {
			t.Fatal(err)
		}
		return o.(*api.Zone)
	}
	await := func(reason string, nodes int) *api.Zone {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-clock.Real.After(time.Millisecond) {
			if z := get(); z.Status.Reason == reason && z.Status.Nodes == nodes {
				return z
			} else if time.Now().After(deadline) {
				t.Fatalf("never %s with %d nodes: %+v", reason, nodes, z.Status)
			}
		}
	}
	// change edits the zone as others do, again when the controller was faster.
	change := func(f func(*api.Zone)) {
		t.Helper()
		for range 100 {
			z := store.Clone(get())
			f(z)
			if _, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Update(z)}}); err == nil {
				return
			}
		}
		t.Fatal("the zone could not be written")
	}
	put(store.Create, &api.Zone{Meta: api.Meta{ID: id.Default.New("zone"), Name: "a"}, Spec: api.ZoneSpec{Region: "r", LatencyMs: map[string]float64{"b": 1}}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := New(Config{Store: s, Clock: clock.Real, Log: slog.New(slog.DiscardHandler)})
	go func() { ended <- c.Run(ctx, store.Epoch{}) }()
	defer func() { cancel(); <-ended }()

	await(ReasonNoNodes, 0)
	node := &api.Node{Meta: api.Meta{ID: id.Default.New("node"), Name: "n"}, Spec: api.NodeSpec{Number: 1, Zone: "a", Devices: []api.Device{{}}}, Status: api.NodeStatus{Ready: true}}
	put(store.Create, node)
	if z := await(ReasonAllWell, 1); z.Status.Devices != 1 || z.Status.Ready != 1 || z.Status.Health != api.ZoneHealthy {
		t.Errorf("%+v", z.Status)
	}
	change(func(z *api.Zone) {
		z.Status.Measured = map[string]api.MeasuredLatency{"b": {P50Ms: 7, P99Ms: 9, Samples: 1, At: time.Now()}}
	})
	if z := await(ReasonSlowLinks, 1); z.Status.Measured["b"].P50Ms != 7 {
		t.Errorf("the measurement is gone: %+v", z.Status)
	}
	change(func(z *api.Zone) { z.Spec.Health, z.Spec.HealthReason = api.ZoneHealthy, "known" })
	z := await(ReasonSetByHand, 1)
	// A turn with nothing new writes nothing.
	if _, err := c.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if again := get(); again.Meta.Revision != z.Meta.Revision {
		t.Errorf("revision %d became %d", z.Meta.Revision, again.Meta.Revision)
	}
	gone := store.Clone(node)
	gone.Status = api.NodeStatus{Reason: unreported}
	put(store.Update, gone)
	change(func(z *api.Zone) { z.Spec.Health, z.Spec.HealthReason = "", "" })
	await(ReasonUnreachable, 1)
}

// TestReasonOfBothLanguages: each reader sees theirs; what is not two lines is everybody's.
func TestReasonOfBothLanguages(t *testing.T) {
	for reason, want := range map[string]fault.Text{
		"检修": {EN: "检修", ZH: "检修"}, "repairs\n检修": {EN: "repairs", ZH: "检修"}, " repairs \n 检修 \n": {EN: "repairs", ZH: "检修"}, "a\nb\nc": {EN: "a\nb\nc", ZH: "a\nb\nc"}, "": {},
	} {
		if got := byHand(reason); got != want {
			t.Errorf("%q is told as %+v", reason, got)
		}
	}
}
