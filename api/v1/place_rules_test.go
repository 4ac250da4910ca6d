package v1

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// says looks for a refusal at a path, in both languages, that holds a text.
func says(fields []fault.Field, path, text string) bool {
	for _, f := range fields {
		if f.Path == path && strings.Contains(f.Message.EN, text) && f.Message.ZH != "" {
			return true
		}
	}
	return false
}

func TestPlaceRulesRefuse(t *testing.T) {
	at := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
	zone := func(f func(s *ZoneSpec)) Object {
		z := &Zone{Meta: Meta{Name: "z"}, Spec: ZoneSpec{Region: "r"}}
		f(&z.Spec)
		return z
	}
	queue := func(f func(s *QueueSpec)) Object {
		q := &Queue{Meta: Meta{Name: "q"}}
		f(&q.Spec)
		return q
	}
	window := func(ws ...PriceWindow) Object {
		return zone(func(s *ZoneSpec) { s.Price.Windows = ws })
	}
	const acc = "spec.roles[0].resources.accelerators"
	accel := func(a Accelerators) Object { return role(func(r *Role) { r.Resources.Accelerators = a }) }
	zones := func(replicas int, z ZoneRules) Object {
		return spec(func(s *TrainingTaskSpec) { s.Roles[0].Replicas, s.Zones = replicas, &z })
	}
	for _, tc := range []struct {
		o          Object
		path, says string
	}{
		{zone(func(s *ZoneSpec) { s.LatencyMs = map[string]float64{"z": 1} }), "spec.latencyMs.z", "itself"},
		{zone(func(s *ZoneSpec) { s.LatencyP99Ms = map[string]float64{"a": 1} }), "spec.latencyP99Ms.a", "missing"},
		{zone(func(s *ZoneSpec) {
			s.LatencyMs, s.LatencyP99Ms = map[string]float64{"a": 2}, map[string]float64{"a": 1}
		}), "spec.latencyP99Ms.a", "less than"},
		{zone(func(s *ZoneSpec) { s.BandwidthGbps = map[string]float64{"a": 0} }), "spec.bandwidthGbps.a", "none"},
		{zone(func(s *ZoneSpec) { s.BandwidthGbps = map[string]float64{"a": -1} }), "spec.bandwidthGbps.a", "0 to"},
		{zone(func(s *ZoneSpec) { s.UTCOffset = "8" }), "spec.utcOffset", "+08:00"},
		{zone(func(s *ZoneSpec) { s.UTCOffset = "+15:00" }), "spec.utcOffset", "14 hours"},
		{zone(func(s *ZoneSpec) { s.PUE = 0.9 }), "spec.pue", "1 ("},
		{zone(func(s *ZoneSpec) { s.PUE = math.NaN() }), "spec.pue", "out of range"},
		{zone(func(s *ZoneSpec) { s.Carbon = &Carbon{} }), "spec.carbon", "exactly one"},
		{zone(func(s *ZoneSpec) { s.Carbon = &Carbon{GramsPerKWh: ptr(-1.0)} }), "spec.carbon.gramsPerKWh", "0 to"},
		{zone(func(s *ZoneSpec) { s.Carbon = &Carbon{ByHour: []float64{1, 2}} }), "spec.carbon.byHour", "24"},
		{zone(func(s *ZoneSpec) { s.Carbon = &Carbon{ByHour: append(make([]float64, 23), -1)} }), "spec.carbon.byHour[23]", "0 to"},
		{zone(func(s *ZoneSpec) { s.DeviceWatts = map[string]float64{"A100": -1} }), "spec.deviceWatts.A100", "0 to"},
		{zone(func(s *ZoneSpec) { s.Price.Devices = map[string]float64{"Ascend 910": 1, "ascend-910": 2} }), "spec.price.devices.ascend-910", "same type"},
		{zone(func(s *ZoneSpec) { s.Price.CrossingGB = -0.1 }), "spec.price.crossingGB", "0 to"},
		{zone(func(s *ZoneSpec) { s.Price.CoreHour = ptr(0.0000001) }), "spec.price.coreHour", "millionth"},
		{zone(func(s *ZoneSpec) { s.Price.SpotFactor = 1.1 }), "spec.price.spotFactor", "at most 1"},
		{zone(func(s *ZoneSpec) { s.Price.Currency, s.Price.DeviceHour = "USD", ptr(2.0) }), "spec.price.currency", "coreHour"},
		{window(PriceWindow{"22:00", "06:00", 1}, PriceWindow{"05:59", "07:00", 1}), "spec.price.windows[1]", "overlaps with window 1"},
		{window(PriceWindow{"6:00", "07:00", 1}), "spec.price.windows[0].from", "time of day"},
		{window(PriceWindow{"24:00", "07:00", 1}), "spec.price.windows[0].from", "time of day"},
		{window(PriceWindow{"06:00", "24:01", 1}), "spec.price.windows[0].to", "time of day"},
		{window(PriceWindow{"06:00", "06:00", 1}), "spec.price.windows[0].to", "whole day"},
		{window(PriceWindow{"06:00", "07:00", -1}), "spec.price.windows[0].factor", "0 to"},
		{window(make([]PriceWindow, 49)...), "spec.price.windows", "49"},

		{queue(func(s *QueueSpec) { s.Weight = -1 }), "spec.weight", "-1"},
		{queue(func(s *QueueSpec) { s.Parent = "q" }), "spec.parent", "own parent"},
		{queue(func(s *QueueSpec) { s.Guarantee = map[string]int{"A100": -1} }), "spec.guarantee.A100", "-1"},
		{queue(func(s *QueueSpec) { s.Limit = map[string]int{"A100": 1, "a100": 1} }), "spec.limit.a100", "same"},
		{queue(func(s *QueueSpec) {
			s.Guarantee, s.Limit = map[string]int{"A100": 9}, map[string]int{"a100": 8}
		}), "spec.guarantee.A100", "never met"},

		{role(func(r *Role) { r.Replicas, r.MinReplicas = 2, ptr(3) }), "spec.roles[0].minReplicas", "1 to 2"},
		{role(func(r *Role) { r.Replicas, r.MaxReplicas = 2, ptr(1) }), "spec.roles[0].maxReplicas", "2 to"},
		{spared(func(*TrainingTaskSpec) {}, -1), "spec.roles[0].spares", "0 to 64"},
		{spared(func(*TrainingTaskSpec) {}, 65), "spec.roles[0].spares", "0 to 64"},
		{spared(func(s *TrainingTaskSpec) { s.Restart = nil }, 1), "spec.roles[0].spares", "maxRestarts"},
		{spared(func(s *TrainingTaskSpec) { s.Framework = "pytorch-fsdp" }, 1), "spec.roles[0].spares", "plain and pytorch-ddp"},
		{spared(func(s *TrainingTaskSpec) { s.Roles[0].MaxReplicas = ptr(9) }, 1), "spec.roles[0].spares", "elastic"},
		{spared(func(s *TrainingTaskSpec) { s.Inside = []string{"env"} }, 1), "spec.roles[0].spares", "inside"},
		{spared(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{Split: where.Split{"a": where.Exactly(1)}} }, 1), "spec.roles[0].spares", "zones.split"},
		{spared(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{SurviveZoneLoss: true} }, 1), "spec.roles[0].spares", "surviveZoneLoss"},
		{spared(func(s *TrainingTaskSpec) { s.Roles = append(s.Roles, Role{Name: "ps", Command: []string{"a"}}) }, 1), "spec.roles[0].spares", "one role"},
		{spared(func(s *TrainingTaskSpec) { s.Roles[0].Replicas = 16384 }, 1), "spec.roles", "16384"},
		{accel(Accelerators{Type: "A100|", Count: 1}), acc + ".type", "no type beside it"},
		{accel(Accelerators{Type: "A100|a100", Count: 1}), acc + ".type", "twice"},
		{accel(Accelerators{Type: "a|b|c|d|e|f|g|h|i", Count: 1}), acc + ".type", "9 types"},
		{accel(Accelerators{Count: 2, Share: 500}), acc + ".share", "count 1"},
		{zones(2, ZoneRules{Split: where.Split{"a": where.Exactly(1)}}), "spec.zones.split", "1 replicas, the task 2"},
		{zones(2, ZoneRules{Split: where.Split{"a": where.Exactly(2), "b": where.Exactly(0)}}), "spec.zones.split.b", "1 to"},
		{zones(2, ZoneRules{Deny: []string{"a"}, Split: where.Split{"a": where.Exactly(2)}}), "spec.zones.split.a", "keep the task out"},
		{zones(2, ZoneRules{SurviveZoneLoss: true, Split: where.Split{"a": where.Exactly(2)}}), "spec.zones.surviveZoneLoss", "two zones"},
		{zones(2, ZoneRules{SurviveZoneLoss: true, Allow: []string{"a"}}), "spec.zones.surviveZoneLoss", "two zones"},
		{zones(1, ZoneRules{SurviveZoneLoss: true}), "spec.zones.surviveZoneLoss", "one replica"},
		{zones(4, ZoneRules{SurviveZoneLoss: true, Split: where.Split{"a": where.Exactly(3), "b": where.Exactly(1)}}), "spec.zones.split.a", "leaves 1 of 4"},
		{zones(2, ZoneRules{Data: []DataPlace{{Bytes: 1}}}), "spec.zones.data[0].zones", "Name the zones"},
		{zones(2, ZoneRules{Data: []DataPlace{{Bytes: -1, Zones: []string{"a"}}}}), "spec.zones.data[0].bytes", "1Pi"},
		{zones(2, ZoneRules{Data: []DataPlace{{Bytes: 1, Zones: []string{"a", "a"}}}}), "spec.zones.data[0].zones[1]", "twice"},
		{zones(2, ZoneRules{Data: make([]DataPlace, 65)}), "spec.zones.data", "65"},
		{zones(2, ZoneRules{MaxLatency: -1}), "spec.zones.maxLatency", "10 years"},
		{zones(2, ZoneRules{SameRegion: "must"}), "spec.zones.sameRegion", "prefer, require"},
		{zones(2, ZoneRules{Spot: "always"}), "spec.zones.spot", "never, prefer, only"},
		{zones(2, ZoneRules{Prefer: &where.Weights{}}), "spec.zones.prefer", "nothing counts"},
		{zones(2, ZoneRules{Prefer: &where.Weights{Price: -1, Carbon: 1}}), "spec.zones.prefer.price", "0 to 100"},
		{zones(2, ZoneRules{Prefer: &where.Weights{Latency: 101}}), "spec.zones.prefer.latency", "0 to 100"},
		{spec(func(s *TrainingTaskSpec) { s.Deferrable = "now" }), "spec.deferrable", "cheap or green"},
		{spec(func(s *TrainingTaskSpec) { s.Deferrable = DeferCheap }), "spec.deferrable", "expectedTime"},
		{spec(func(s *TrainingTaskSpec) { s.Deferrable, s.Deadline = DeferGreen, &at }), "spec.deferrable", "expectedTime"},
		{spec(func(s *TrainingTaskSpec) { s.Topology = &Topology{Mode: "x"} }), "spec.topology", "pack"},
		{spec(func(s *TrainingTaskSpec) { s.Topology = &Topology{Mode: TopologyBounded} }), "spec.topology.maxPerRack", "1 to"},
		{spec(func(s *TrainingTaskSpec) { s.ExpectedTime = -1 }), "spec.expectedTime", "10 years"},
	} {
		tc.o.(Defaulter).Default()
		if fields := tc.o.(Validator).Validate(); !says(fields, tc.path, tc.says) {
			t.Errorf("%s should say %q; refused: %+v", tc.path, tc.says, fields)
		}
	}
}

// spared is a task with spares, changed.
func spared(change func(*TrainingTaskSpec), n int) Object {
	return spec(func(s *TrainingTaskSpec) {
		s.Restart, s.Roles[0].Spares = &RestartPolicy{MaxRestarts: 1}, n
		change(s)
	})
}

func TestPlaceRulesAccept(t *testing.T) {
	for i, o := range []Object{
		&Zone{Meta: Meta{Name: "z"}, Spec: ZoneSpec{
			Region: "r", LatencyMs: map[string]float64{"a": 1}, LatencyP99Ms: map[string]float64{"a": 1}, UTCOffset: "-03:30", PUE: 1,
			Carbon: &Carbon{GramsPerKWh: ptr(0.0)}, DeviceWatts: map[string]float64{"A100": 400},
			Price: Price{
				Currency: "USD", DeviceHour: ptr(2.0), CoreHour: ptr(0.0), SpotFactor: 0.3,
				Windows: []PriceWindow{{"22:00", "06:00", 0.5}, {"06:00", "22:00", 1.25}},
			},
		}},
		&Zone{Meta: Meta{Name: "z"}, Spec: ZoneSpec{Region: "r", Price: Price{Windows: []PriceWindow{{"00:00", "24:00", 0}}}}},
		spared(func(*TrainingTaskSpec) {}, 64),
		spec(func(s *TrainingTaskSpec) { s.ExpectedTime = Duration(time.Hour) }),
		spec(func(s *TrainingTaskSpec) { s.Topology = &Topology{Mode: TopologyPack} }),
		spec(func(s *TrainingTaskSpec) { s.Zones = &ZoneRules{SameRegion: RegionPrefer} }),
		spec(func(s *TrainingTaskSpec) { s.Deferrable, s.ExpectedTime = DeferGreen, Duration(time.Hour) }),
		spec(func(s *TrainingTaskSpec) {
			s.Roles[0].Replicas = 3
			s.Zones = &ZoneRules{SameRegion: RegionRequire, SurviveZoneLoss: true, Split: where.Split{"a": where.Exactly(2), "b": where.Exactly(1)}, Data: []DataPlace{{1 << 40, []string{"a", "b"}}}}
		}),
		spec(func(s *TrainingTaskSpec) { s.Topology = &Topology{Mode: TopologySpread} }),
		spec(func(s *TrainingTaskSpec) { s.Topology = &Topology{Mode: TopologyBounded, MaxPerRack: 2} }),
		spec(func(s *TrainingTaskSpec) {
			s.Roles[0].Replicas = 3
			s.Zones = &ZoneRules{Allow: []string{"a", "b", "c"}, Split: where.Split{"a": where.Exactly(2), "b": where.Exactly(1)}, MaxLatency: Duration(2 * time.Millisecond)}
		}),
		role(func(r *Role) {
			r.Resources.Accelerators = Accelerators{Type: "Ascend 910", Count: 1, Share: WholeDevice}
		}),
		role(func(r *Role) { r.Resources.Accelerators = Accelerators{Type: "A100|H800", Count: 8} }),
		role(func(r *Role) { r.Resources.Accelerators = Accelerators{Count: 1, Share: 250} }),
	} {
		if err := Prepare(o, fixed); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestCheckQueues(t *testing.T) {
	q := func(name, parent string, a100 int) *Queue {
		out := &Queue{Meta: Meta{Name: name}, Spec: QueueSpec{Parent: parent}}
		if a100 > 0 {
			out.Spec.Guarantee = map[string]int{"A100": a100}
		}
		return out
	}
	deep := []*Queue{q("q0", "", 0)}
	for i := 1; i < 40; i++ {
		deep = append(deep, q(fmt.Sprintf("q%d", i), fmt.Sprintf("q%d", i-1), 0))
	}
	for _, tc := range []struct {
		name string
		q    *Queue
		all  []*Queue
		path string
		says string
	}{
		{"whole", q("a", "root", 8), []*Queue{q("root", "", 16), q("b", "root", 8)}, "", ""},
		{"changed", q("a", "root", 8), []*Queue{q("root", "", 16), q("b", "root", 8), q("a", "root", 99)}, "", ""},
		{"no parent", q("a", "x", 0), nil, "spec.parent", `no queue "x"`},
		{"circle", q("a", "c", 0), []*Queue{q("b", "a", 0), q("c", "b", 0)}, "spec.parent", "a, c, b, a"},
		{"circle of others", q("a", "b", 0), []*Queue{q("b", "c", 0), q("c", "b", 0)}, "spec.parent", "circle"},
		{"deep", q("a", "q39", 0), deep, "spec.parent", "16 deep"},
		{"child too much", q("a", "root", 9), []*Queue{q("root", "", 16), q("b", "root", 8)}, "spec.guarantee.A100", "17"},
		{"below too deep", q("q0", "a", 0), append(deep[:16:16], q("a", "", 0)), "spec.parent", "16 deep"},
		{"grandchild too much", q("c", "b", 9), []*Queue{q("a", "", 8), q("b", "a", 0)}, "spec.guarantee.A100", "9"},
		{"moved with its children", q("b", "a", 0), []*Queue{q("a", "", 8), q("c", "b", 9)}, "spec.guarantee.A100", "9"},
		{"parent too little", q("root", "", 4), []*Queue{q("a", "root", 8)}, "spec.guarantee.A100", "8"},
	} {
		got := CheckQueues(tc.q, tc.all)
		if tc.path == "" && len(got) > 0 || tc.path != "" && !says(got, tc.path, tc.says) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func TestCheckMeasured(t *testing.T) {
	good := map[string]MeasuredLatency{"a": {P50Ms: 1, P99Ms: 2, Samples: 3}}
	if got := CheckMeasured("to", "z", good); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	for _, tc := range []struct {
		table      map[string]MeasuredLatency
		path, text string
	}{
		{nil, "to", "1 to"},
		{map[string]MeasuredLatency{"z": {P50Ms: 1, P99Ms: 2, Samples: 3}}, "to.z", "itself"},
		{map[string]MeasuredLatency{"a": {P50Ms: -1, P99Ms: 2, Samples: 3}}, "to.a", "0 to"},
		{map[string]MeasuredLatency{"a": {P50Ms: 2, P99Ms: 1, Samples: 3}}, "to.a.p99Ms", "less than"},
		{map[string]MeasuredLatency{"a": {P50Ms: 1, P99Ms: 2, Samples: 0}}, "to.a.samples", "1 to"},
	} {
		if got := CheckMeasured("to", "z", tc.table); !says(got, tc.path, tc.text) {
			t.Errorf("%s: %+v", tc.path, got)
		}
	}
}

func TestShareAndTopologyJSON(t *testing.T) {
	for in, want := range map[string]Share{`0.5`: 500, `"500m"`: 500, `1`: 1000, `"1"`: 1000, `0.001`: 1, `0`: 0} {
		var got Share
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{`1.5`, `-0.5`, `"half"`, `0.0001`, `true`, `{}`, `null`} {
		var got Share
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s was read as %d", in, got)
		}
	}
	for in, want := range map[string]Topology{
		`"pack"`: {Mode: TopologyPack}, `"spread"`: {Mode: TopologySpread}, `{"maxPerRack":2}`: {Mode: TopologyBounded, MaxPerRack: 2},
	} {
		var got Topology
		err := json.Unmarshal([]byte(in), &got)
		if back, _ := json.Marshal(got); err != nil || got != want || string(back) != in {
			t.Errorf("%s: %+v, %v, back %s", in, got, err, back)
		}
	}
	for _, in := range []string{`"maxPerRack"`, `"x"`, `{}`, `{"maxPerRack":0}`, `{"maxPerRack":1,"a":2}`, `{"maxPerRack":99999}`, `3`, `[]`, `null`} {
		var got Topology
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s was read as %+v", in, got)
		}
	}
}
