package placement

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
	"pgregory.net/rapid"
)

// TestMeasuredDistancesDecide: over any two zones, a gang is cut exactly where the round trip that counts allows it: the measured one while it is
// fresh or nothing is declared, else the declared one, else what the regions let assume. The estimate of efficiency uses the same.
func TestMeasuredDistancesDecide(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		ms := func(what string) *float64 {
			if rapid.Bool().Draw(t, what+" is known") {
				v := float64(rapid.IntRange(1, 400).Draw(t, what)) / 10
				return &v
			}
			return nil
		}
		declared, measured := ms("declared"), ms("measured")
		age := time.Duration(rapid.IntRange(0, 48).Draw(t, "hours")) * time.Hour
		there := rapid.Bool().Draw(t, "told by a")
		regions := rapid.SampledFrom([][2]string{{"r", "r"}, {"r", "s"}}).Draw(t, "regions")
		zones := []*api.Zone{{Meta: api.Meta{Name: "a"}, Spec: api.ZoneSpec{Region: regions[0]}}, {Meta: api.Meta{Name: "b"}, Spec: api.ZoneSpec{Region: regions[1]}}}
		teller, other := zones[0], "b"
		if !there {
			teller, other = zones[1], "a"
		}
		if declared != nil {
			zones[0].Spec.LatencyMs = map[string]float64{"b": *declared}
		}
		if measured != nil {
			teller.Status.Measured = map[string]api.MeasuredLatency{other: {P50Ms: *measured, P99Ms: *measured, Samples: 1, At: now.Add(-age)}}
		}
		want := 20.0
		switch {
		case measured != nil && (declared == nil || age <= 24*time.Hour):
			want = *measured
		case declared != nil:
			want = *declared
		case regions[0] == regions[1]:
			want = 1
		}

		m := newModel("h", 100)
		m.now = func() time.Time { return now }
		for i, z := range zones {
			m.setZone(z)
			m.setNode(&api.Node{
				Meta: api.Meta{Name: z.Meta.Name + "1"}, Status: api.NodeStatus{Ready: true},
				Spec: api.NodeSpec{Number: uint32(i + 1), Zone: z.Meta.Name, CPU: 8000, Memory: 8 << 30, Devices: []api.Device{{Type: "A100", Island: "x"}}},
			})
		}
		bound := api.Duration(rapid.IntRange(1, 40).Draw(t, "bound")) * api.Duration(time.Millisecond)
		m.setTask(&api.TrainingTask{Meta: api.Meta{ID: "t", Name: "t"}, Spec: api.TrainingTaskSpec{
			Zones: &api.ZoneRules{MaxLatency: bound},
			Roles: []api.Role{{Name: "w", Replicas: 2, Resources: api.Resources{CPU: 1000, Accelerators: api.Accelerators{Count: 1}}}},
		}})
		placed := len(sched.Plan(now, m.cluster, m.queues, sched.Policy{}).Decisions) == 1
		if near := time.Duration(want*float64(time.Millisecond)) <= bound.Std(); placed != near {
			t.Fatalf("%v ms count, %v is allowed; placed: %v (declared %v, measured %v, %v old)", want, bound, placed, declared, measured, age)
		}
		far := cost.ZonesOf(zones, now)
		d := far.Distance("b", "a")
		share, _ := cost.Efficiency(2, cost.Latency{P50: want}, nil)
		if d.UsedMs != want || d.From != "a" || d.Efficiency != float64(share)/10 || (d.DeclaredMs != nil) != (declared != nil) || (d.Measured != nil) != (measured != nil) {
			t.Fatalf("%v ms count: %+v", want, d)
		}
		place := far.Judge([]cost.Part{{Zone: "a", Node: "a1", Replicas: 1}, {Zone: "b", Node: "b1", Replicas: 1}}, cost.Wish{}, now)
		if place.Latency.P50Ms != want || place.Efficiency.Percent != d.Efficiency {
			t.Fatalf("%v ms count: %+v", want, place.PlacementOption)
		}
	})
}
