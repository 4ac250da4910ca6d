package ha

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// checkMeasured: the servers have measured the way between all their zones, and the preview of a gang
// over two of them says so.
func (w *world) checkMeasured() {
	w.t.Helper()
	w.within(2*time.Minute, "every zone knows the way to the others", func(ctx context.Context) bool {
		for _, from := range zones {
			o, err := w.any.Get(ctx, api.KindZone, "", from)
			if err != nil {
				return false
			}
			for _, to := range zones {
				m, ok := o.(*api.Zone).Status.Measured[to]
				if ok == (from == to) || ok && (m.Samples < 10 || m.P50Ms <= 0 || m.P99Ms < m.P50Ms) {
					return false
				}
			}
		}
		return true
	})
	task := &api.TrainingTask{Meta: api.Meta{Name: "far"}, Spec: api.TrainingTaskSpec{
		Roles: []api.Role{{Replicas: 2, Command: []string{"true"}}},
		Zones: &api.ZoneRules{Split: where.Split{zones[0]: where.Exactly(1), zones[2]: where.Exactly(1)}},
	}}
	var note api.LatencyNote
	w.within(time.Minute, "the preview uses what was measured", func(ctx context.Context) bool {
		for _, n := range w.nodes { // one of them leads
			if p, err := n.client.Preview(ctx, task); err == nil && p.Planned != nil {
				note = p.Planned.Latency
				return note.Source == "measured" && note.P50Ms > 0
			}
		}
		return false
	})
	w.t.Logf("from %s to %s: p50 %v ms, p99 %v ms, %s (declared: 8.5)", note.From, note.To, note.P50Ms, note.P99Ms, note.Source)
}

// within waits for something to become true.
func (w *world) within(limit time.Duration, what string, ok func(ctx context.Context) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	for !ok(ctx) {
		if ctx.Err() != nil {
			w.t.Fatalf("not within %v: %s", limit, what)
		}
		pause(ctx, 200*time.Millisecond)
	}
}
