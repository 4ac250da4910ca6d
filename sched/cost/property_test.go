package cost

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost/costtest"
)

// anyZone draws a zone that its rules accept, with windows, spot and carbon.
func anyZone(t *rapid.T, name string) *api.Zone {
	z := zone(name, rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "region"))
	region := z.Spec.Region
	z.Spec = costtest.Terms(t)
	z.Spec.Region = region
	return z
}

func anyPart(t *rapid.T, zone string) Part {
	n := rapid.IntRange(0, 8).Draw(t, "devices")
	return Part{
		Zone: zone, Node: zone + "-" + fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "node")), Replicas: 1, DeviceType: "A100", Devices: n, Thousandths: int64(n) * 1000,
		CPU: api.MilliCPU(rapid.Int64Range(1, 128_000).Draw(t, "cpu")), Memory: api.Bytes(rapid.Int64Range(1<<20, 1<<40).Draw(t, "memory")),
	}
}

func anyTime(t *rapid.T, what string) time.Time {
	return noon.Add(time.Duration(rapid.Int64Range(-int64(9000*time.Hour), int64(9000*time.Hour)).Draw(t, what)))
}

// Cost is additive: an interval costs what its pieces cost, to the last billionth of a nanosecond.
func TestCostAdditive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := ZoneOf(anyZone(t, "z"))
		part := anyPart(t, "z")
		rates := []Daily{z.Daily(part, rapid.Bool().Draw(t, "preemptible"))}
		if c, ok := z.Carbon(part); ok {
			rates = append(rates, c)
		}
		cuts := []time.Time{anyTime(t, "a"), anyTime(t, "b"), anyTime(t, "c")}
		if cuts[2].Before(cuts[0]) {
			cuts[0], cuts[2] = cuts[2], cuts[0]
		}
		if cuts[1].Before(cuts[0]) || cuts[1].After(cuts[2]) {
			cuts[1] = cuts[0].Add(cuts[2].Sub(cuts[0]) / 3)
		}
		for _, d := range rates {
			whole := d.Over(cuts[0], cuts[2])
			if pieces := d.Over(cuts[0], cuts[1]).Plus(d.Over(cuts[1], cuts[2])); whole.Cmp(pieces) != 0 {
				t.Fatalf("%v is not %v", whole.int(), pieces.int())
			}
			if whole.Nano() < 0 || d.At(cuts[0]) < 0 {
				t.Fatalf("less than nothing: %v", whole.int())
			}
		}
	})
}

// The integral agrees with adding up minute by minute.
func TestCostSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := ZoneOf(anyZone(t, "z"))
		part := anyPart(t, "z")
		from := anyTime(t, "from").Truncate(time.Minute)
		minutes := rapid.IntRange(0, 3000).Draw(t, "minutes")
		var slow Sum
		for m := range minutes {
			at := from.Add(time.Duration(m) * time.Minute)
			slow = slow.Plus(Daily{steps: []step{{0, z.Rate(part, at, false).Total()}}}.Over(at, at.Add(time.Minute)))
		}
		if got := z.Daily(part, false).Over(from, from.Add(time.Duration(minutes)*time.Minute)); got.Cmp(slow) != 0 {
			t.Fatalf("%v, slowly %v", got.int(), slow.int())
		}
	})
}

// No start on a fine grid is better than the one that was found.
func TestBestIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rates []Daily
		for i := range rapid.IntRange(1, 3).Draw(t, "zones") {
			name := fmt.Sprint("z", i)
			rates = append(rates, ZoneOf(anyZone(t, name)).Daily(anyPart(t, name), false))
		}
		from := anyTime(t, "from").Truncate(time.Minute)
		length := time.Duration(rapid.IntRange(1, 60*40).Draw(t, "length")) * time.Minute
		latest := from.Add(time.Duration(rapid.IntRange(0, 60*50).Draw(t, "room")) * time.Minute)
		start, least, ok := Best(from, latest, length, rates...)
		if !ok || start.Before(from) || start.After(latest) {
			t.Fatalf("%v of %v to %v", start, from, latest)
		}
		for at := from; !at.After(latest); at = at.Add(7 * time.Minute) {
			var sum Sum
			for _, d := range rates {
				sum = sum.Plus(d.Over(at, at.Add(length)))
			}
			if c := sum.Cmp(least); c < 0 || c == 0 && at.Before(start) {
				t.Fatalf("%v is better than %v", at, start)
			}
		}
	})
}

// Alternatives beat the planned place on the axis they are named for, none is named twice, and the
// same question has the same answer.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		var list []*api.Zone
		for _, n := range names {
			z := anyZone(t, n)
			z.Spec.LatencyMs = map[string]float64{}
			for _, other := range names {
				if other != n && rapid.Bool().Draw(t, "known") {
					z.Spec.LatencyMs[other] = float64(rapid.IntRange(0, 800).Draw(t, "ms")) / 10
				}
			}
			list = append(list, z)
		}
		z := ZonesOf(list, noon)
		judge := func() Place {
			var parts []Part
			for range rapid.IntRange(1, 4).Draw(t, "parts") {
				parts = append(parts, anyPart(t, rapid.SampledFrom(names).Draw(t, "zone")))
			}
			return z.Judge(parts, Wish{}, noon)
		}
		planned := judge()
		var candidates []Place
		for range rapid.IntRange(0, 6).Draw(t, "candidates") {
			candidates = append(candidates, judge())
		}
		got := Choose(planned, candidates, 3)
		if len(got) > 3 || len(got) > len(candidates) {
			t.Fatalf("%d alternatives of %d", len(got), len(candidates))
		}
		seen := map[string]bool{}
		for _, o := range got {
			worse := false
			switch o.Name {
			case Cheaper:
				worse = o.Prices[0].Total > planned.Prices[0].Total
			case Faster:
				worse = o.Latency.P50Ms >= planned.Latency.P50Ms
			case Safer:
				worse = o.RackLoss.Replicas >= planned.RackLoss.Replicas
			case Greener:
				worse = *o.Energy.GramsPerHour > *planned.Energy.GramsPerHour
			default:
				t.Fatalf("named %q", o.Name)
			}
			if worse || seen[o.Name] || o.Text.EN == "" || o.Text.ZH == "" {
				t.Fatalf("%s: %+v against %+v", o.Name, o, planned.PlacementOption)
			}
			seen[o.Name] = true
		}
		if again := Choose(planned, candidates, 3); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", got) {
			// pointers print as addresses of the same options
			t.Fatal("another answer to the same question")
		}
	})
}

// Sums stop at the largest amount; they never turn negative.
func TestSaturates(t *testing.T) {
	z := ZoneOf(zone("z", "r", func(s *api.ZoneSpec) {
		s.Price = api.Price{DeviceHour: ptr(1e6), CoreHour: ptr(1e6), MemoryGBHour: 1e6}
		s.DeviceWatts, s.Carbon = map[string]float64{"A100": 1e6}, &api.Carbon{GramsPerKWh: ptr(1e4)}
	}))
	huge := Part{DeviceType: "A100", Thousandths: 1 << 40, CPU: 1 << 60, Memory: 1 << 62}
	r := z.Rate(huge, noon, false)
	carbon, _ := z.Carbon(huge)
	for _, n := range []Nano{r.Devices, r.CPU, r.Memory, r.Total(), z.Power(huge), carbon.At(noon), z.Daily(huge, false).Over(noon, noon.AddDate(100, 0, 0)).Nano()} {
		if n <= 0 {
			t.Errorf("%d", n)
		}
	}
}
