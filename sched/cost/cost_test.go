package cost

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
)

func ptr[T any](v T) *T { return &v }

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func zone(name, region string, change ...func(*api.ZoneSpec)) *api.Zone {
	z := &api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: region}}
	for _, f := range change {
		f(&z.Spec)
	}
	return z
}

// nodes are as in the seed: 8 devices, 64 cores and 256 GB each.
func nodes(zone string, n int) []Part {
	var out []Part
	for i := range n {
		out = append(out, Part{
			Zone: zone, Node: fmt.Sprintf("%s-%d", zone, i), Rack: fmt.Sprintf("r%d", i/4), Replicas: 1,
			CPU: 64_000, Memory: 256 << 30, DeviceType: "A100", Devices: 8, Thousandths: 8000,
		})
	}
	return out
}

// TestSeed: what the seed's own unit prices give for its examples.
func TestSeed(t *testing.T) {
	z := ZonesOf([]*api.Zone{zone("a", "北京"), zone("b", "北京")}, noon)
	for _, tc := range []struct {
		parts []Part
		want  float64
	}{
		{append(nodes("a", 2), nodes("b", 3)...), 404.00},
		{nodes("a", 2), 161.60},
		{append(nodes("a", 4), nodes("b", 4)...), 646.40},
	} {
		p := z.Judge(tc.parts, Wish{}, noon)
		if len(p.Prices) != 1 || p.Prices[0].Total != tc.want || p.Prices[0].Currency != "CNY" || p.Prices[0].Memory != 0 {
			t.Errorf("%d nodes: %+v, want %v", len(tc.parts), p.Prices, tc.want)
		}
	}
}

func TestBook(t *testing.T) {
	z := ZoneOf(zone("a", "r", func(s *api.ZoneSpec) {
		s.UTCOffset = "+08:00"
		s.Price = api.Price{
			DeviceHour: ptr(10.0), Devices: map[string]float64{"Ascend 910": 4}, CoreHour: ptr(0.0), MemoryGBHour: 0.5, SpotFactor: 0.25,
			Windows: []api.PriceWindow{{From: "22:00", To: "06:00", Factor: 0.5}, {From: "10:00", To: "12:00", Factor: 2}},
		}
	}))
	clock := func(hm string) time.Time { // on the zone's clock
		at, err := time.Parse("2006-01-02 15:04 -0700", "2026-11-15 "+hm+" +0800")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	one := Part{DeviceType: "A100", Thousandths: 1000, CPU: 8000, Memory: 2 << 30}
	for _, tc := range []struct {
		part Part
		at   string
		spot bool
		want float64
	}{
		{one, "09:59", false, 11}, {one, "10:00", false, 22}, {one, "11:59", false, 22}, {one, "12:00", false, 11},
		{one, "22:00", false, 5.5}, {one, "23:59", false, 5.5}, {one, "00:00", false, 5.5}, {one, "06:00", false, 11},
		{one, "09:00", true, 2.75}, {one, "23:00", true, 1.375},
		{Part{DeviceType: "ascend-910", Thousandths: 1000}, "09:00", false, 4},
		{Part{DeviceType: "A100", Thousandths: 500}, "09:00", false, 5},
		{Part{Memory: 1}, "09:00", false, 0}, {Part{Memory: 1 << 29}, "09:00", false, 0.25},
	} {
		if got := z.Rate(tc.part, clock(tc.at), tc.spot).Total().Float(); got != tc.want {
			t.Errorf("%+v at %s, spot %v: %v, want %v", tc.part, tc.at, tc.spot, got, tc.want)
		}
		if daily := z.Daily(tc.part, tc.spot).At(clock(tc.at)); daily.Float() != tc.want {
			t.Errorf("the day says %v at %s, not %v", daily.Float(), tc.at, tc.want)
		}
	}
	// Over the dear hours: 9:30 to 12:15 is half an hour, two at double, and a quarter.
	if got := z.Daily(one, false).Over(clock("09:30"), clock("12:15")).Nano().Float(); got != 11*0.5+22*2+11*0.25 {
		t.Errorf("over windows: %v", got)
	}
	// A year, 365 days: the mean of a day is 8 h at half, 2 h at double, 14 h at one.
	year := z.Daily(one, false).Over(clock("09:30"), clock("09:30").AddDate(0, 0, 365)).Nano().Float()
	if want := 365 * 11 * (8*0.5 + 2*2 + 14); year != want {
		t.Errorf("a year costs %v, want %v", year, want)
	}
	if got := z.Daily(one, false).Over(noon, noon.Add(-time.Hour)); got.Nano() != 0 {
		t.Errorf("backwards costs %v", got.Nano())
	}
}

func TestEnergy(t *testing.T) {
	hours := make([]float64, 24)
	for i := range hours {
		hours[i] = 500
	}
	hours[13] = 100
	z := ZoneOf(zone("a", "r", func(s *api.ZoneSpec) {
		s.PUE, s.Carbon, s.DeviceWatts = 1.25, &api.Carbon{ByHour: hours}, map[string]float64{"A-100": 380}
	}))
	p := Part{DeviceType: "A100", Thousandths: 8000}
	if got := z.Power(p).Float(); got != 3.8 { // 8 × 380 W × 1.25
		t.Errorf("power %v kW", got)
	}
	carbon, ok := z.Carbon(p)
	if !ok || carbon.At(noon).Float() != 1900 || carbon.At(noon.Add(90*time.Minute)).Float() != 380 {
		t.Errorf("carbon %v %v", ok, carbon)
	}
	if got := carbon.Over(noon.Add(30*time.Minute), noon.Add(90*time.Minute)).Nano().Float(); got != 1900/2+380/2 {
		t.Errorf("grams over the step: %v", got)
	}
	unknown := ZoneOf(zone("b", "r"))
	if _, ok := unknown.Carbon(p); ok || unknown.Power(p).Float() != 4.8 { // 8 × 400 W × 1.5
		t.Errorf("unknown zone: %v %v", ok, unknown.Power(p).Float())
	}
	if clean, ok := ZoneOf(zone("c", "r", func(s *api.ZoneSpec) { s.Carbon = &api.Carbon{GramsPerKWh: ptr(0.0)} })).Carbon(p); !ok || clean.At(noon) != 0 {
		t.Error("clean power is not known as clean")
	}
}

func TestLatency(t *testing.T) {
	a := zone("a", "北京", func(s *api.ZoneSpec) {
		s.LatencyMs, s.LatencyP99Ms = map[string]float64{"b": 1.3, "c": 8.5}, map[string]float64{"b": 2}
		s.BandwidthGbps = map[string]float64{"c": 40}
	})
	b := zone("b", "北京", func(s *api.ZoneSpec) { s.LatencyMs = map[string]float64{"a": 1.2} })
	c := zone("c", "上海")
	d := zone("d", "上海")
	a.Status.Measured = map[string]api.MeasuredLatency{"d": {P50Ms: 7, P99Ms: 9, At: noon.Add(-48 * time.Hour)}}
	c.Status.Measured = map[string]api.MeasuredLatency{"b": {P50Ms: 30, P99Ms: 44, At: noon}}
	all := []*api.Zone{a, b, c, d}
	for _, tc := range []struct {
		x, y string
		want Latency
	}{
		{"a", "a", Latency{}},
		{"b", "a", Latency{P50: 1.3, P99: 2, From: "a", To: "b", Source: Declared}},
		{"c", "a", Latency{P50: 8.5, Gbps: 40, From: "a", To: "c", Source: Declared}},
		{"b", "c", Latency{P50: 30, P99: 44, From: "b", To: "c", Source: Measured}},
		{"a", "d", Latency{P50: 7, P99: 9, From: "a", To: "d", Source: Measured}}, // old, but better than a guess
		{"c", "d", Latency{P50: 1, From: "c", To: "d", Source: Assumed}},
		{"b", "d", Latency{P50: 20, From: "b", To: "d", Source: Assumed}},
		{"a", "nowhere", Latency{P50: 20, From: "a", To: "nowhere", Source: Assumed}},
	} {
		if got := ZonesOf(all, noon).Between(tc.x, tc.y); got != tc.want {
			t.Errorf("%s–%s: %+v, want %+v", tc.x, tc.y, got, tc.want)
		}
	}
	a.Status.Measured["c"] = api.MeasuredLatency{P50Ms: 4, P99Ms: 5, At: noon.Add(-25 * time.Hour)}
	if got := ZonesOf(all, noon).Between("a", "c"); got.Source != Declared {
		t.Errorf("a measurement of yesterday replaces what is declared: %+v", got)
	}
	if got := ZonesOf(all, noon).Farthest([]string{"a", "b", "c"}); got.P50 != 30 || got.Gbps != 40 {
		t.Errorf("farthest %+v", got)
	}
	for ms, want := range map[float64]string{0: "near", 1.99: "near", 2: "regional", 4.99: "regional", 5: "far", 50: "far", 50.1: "remote"} {
		if got := ClassOf(ms); got.Name != want || got.Action.ZH == "" || Classes[got.Rank()].Name != want {
			t.Errorf("%v ms is %+v", ms, got)
		}
	}
}

func TestEfficiency(t *testing.T) {
	for nodes, want := range map[int]int{1: 1000, 2: 900, 3: 885, 4: 870, 8: 850, 16: 830, 1024: 710} {
		if got, measured := Efficiency(nodes, Latency{P50: 1.3}, nil); got != want || measured {
			t.Errorf("%d nodes: %d", nodes, got)
		}
	}
	samples := []Sample{{8, "near", 930}, {8, "near", 910}, {8, "near", 960}, {8, "far", 400}, {4, "near", 5000}}
	if got, measured := Efficiency(8, Latency{P50: 1.3}, samples); got != 930 || !measured {
		t.Errorf("measured: %d %v", got, measured)
	}
	if _, measured := Efficiency(4, Latency{}, samples); measured {
		t.Error("an impossible sample counts")
	}
	last := 1001
	for _, ms := range []float64{0, 1.3, 2.5, 8.5, 12.3, 60, 500} {
		got, _ := Efficiency(8, Latency{P50: ms}, nil)
		if got > last || got < 0 {
			t.Errorf("%v ms: %d after %d", ms, got, last)
		}
		last = got
	}
	wide, _ := Efficiency(8, Latency{P50: 1, Gbps: 400}, nil)
	narrow, _ := Efficiency(8, Latency{P50: 1, Gbps: 10}, nil)
	if wide != 850 || narrow >= wide || narrow < 400 {
		t.Errorf("bandwidth: %d and %d", wide, narrow)
	}
}

func TestJudge(t *testing.T) {
	z := ZonesOf([]*api.Zone{
		zone("a", "北京", func(s *api.ZoneSpec) {
			s.LatencyMs, s.Price.CrossingGB, s.Carbon = map[string]float64{"b": 8.5}, 0.3, &api.Carbon{GramsPerKWh: ptr(500.0)}
		}),
		zone("b", "上海", func(s *api.ZoneSpec) {
			s.Price = api.Price{Currency: "USD", DeviceHour: ptr(2.0), CoreHour: ptr(0.01)}
		}),
	}, noon)
	p := z.Judge(append(nodes("a", 5), nodes("b", 1)...), Wish{Expected: 2 * time.Hour}, noon)
	want := api.PlacementOption{
		Zones:     []api.ZonePart{{Zone: "a", Region: "北京", Nodes: 5, Replicas: 5, Devices: 40, LossLeaves: 1}, {Zone: "b", Region: "上海", Nodes: 1, Replicas: 1, Devices: 8, LossLeaves: 5}},
		NodeCount: 6,
		Prices: []api.PriceParts{
			{Currency: "CNY", Devices: 340, CPU: 64, CrossingGB: 0.3, Total: 404},
			{Currency: "USD", Devices: 16, CPU: 0.64, Total: 16.64},
		},
		Latency:    api.LatencyNote{P50Ms: 8.5, From: "a", To: "b", Source: "declared", Class: "far", Action: Classes[2].Action},
		Efficiency: api.EfficiencyNote{Percent: 64.9, Basis: "estimated"},
		Energy:     api.EnergyNote{KW: 31.714560, Basis: "estimated"},
		RackLoss:   api.RackLoss{Racks: 3, Zone: "a", Rack: "r0", Replicas: 4, Percent: 67},
		Expected:   &api.ExpectedTotals{Prices: []api.PriceTotal{{Currency: "CNY", Total: 808}, {Currency: "USD", Total: 33.28}}, KWh: 63.42912},
	}
	nodesShown := p.Nodes
	p.Nodes = nil
	if d := cmp.Diff(want, p.PlacementOption); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(nodesShown) != 6 || nodesShown[5].Node != "b-0" || nodesShown[5].DeviceType != "A100" {
		t.Errorf("nodes %+v", nodesShown)
	}
	if many := z.Judge(nodes("a", 100), Wish{}, noon); len(many.Nodes) != 64 || many.NodeCount != 100 || many.Latency.Class != "near" {
		t.Errorf("%d of %d nodes shown", len(many.Nodes), many.NodeCount)
	}
}

func TestWindows(t *testing.T) {
	hours := make([]float64, 24)
	for i := range hours {
		hours[i] = 600
	}
	hours[2], hours[3] = 100, 100
	z := ZonesOf([]*api.Zone{zone("a", "r", func(s *api.ZoneSpec) {
		s.Carbon = &api.Carbon{ByHour: hours}
		s.Price.Windows = []api.PriceWindow{{From: "22:00", To: "06:00", Factor: 0.5}}
	})}, noon)
	got := z.Windows(nodes("a", 1), Wish{Expected: 3 * time.Hour}, noon, noon.Add(24*time.Hour))
	if len(got) != 2 || got[0].For != "price" || got[1].For != "carbon" {
		t.Fatalf("%+v", got)
	}
	if want := time.Date(2026, 11, 15, 22, 0, 0, 0, time.UTC); !got[0].Start.Equal(want) || got[0].Totals.Prices[0].Total != 3*80.8/2 {
		t.Errorf("cheapest %+v", got[0])
	}
	if want := time.Date(2026, 11, 16, 1, 0, 0, 0, time.UTC); !got[1].Start.Equal(want) {
		t.Errorf("cleanest %+v", got[1])
	}
	if late := z.Windows(nodes("a", 1), Wish{Expected: 3 * time.Hour}, noon, noon.Add(-time.Second)); len(late) != 0 {
		t.Errorf("a window after the deadline: %+v", late)
	}
	if soon := z.Windows(nodes("a", 1), Wish{Expected: 3 * time.Hour}, noon, noon.Add(time.Hour)); !soon[0].Start.Equal(noon) {
		t.Errorf("all the same, yet it waits: %+v", soon[0])
	}
}
