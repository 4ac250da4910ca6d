package cost

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/api/v1/way"
)

// Source is where a latency comes from.
type Source string

// The sources, the best first.
const (
	Measured Source = "measured"
	Declared Source = "declared"
	Assumed  Source = "assumed" // from the regions: the table has a hole
)

// What is assumed between zones of which nothing is known, in milliseconds: as the planner does.
const (
	assumedNear = 1
	assumedFar  = 20
)

// Fresh is how long a measurement replaces what is declared.
const Fresh = 24 * time.Hour

// Latency is the round trip between two zones. P99 and Gbps are 0 when unknown.
type Latency struct {
	P50, P99, Gbps float64
	From, To       string // "" within one zone
	Source         Source
}

// Between is the distance of two zones. Either may have told it; of two, the newer measurement, then
// the slower declaration.
func (z *Zones) Between(a, b string) Latency {
	if a == b {
		return Latency{}
	}
	if b < a {
		a, b = b, a
	}
	x, y := z.Get(a), z.Get(b)
	l := Latency{From: a, To: b, Gbps: narrower(x.spec.BandwidthGbps[b], y.spec.BandwidthGbps[a])}
	there, okThere := x.spec.LatencyMs[b]
	back, okBack := y.spec.LatencyMs[a]
	declared := okThere || okBack
	if m, ok := newest(x.measured, b, y.measured, a); ok && (!declared || z.now.Sub(m.At) <= Fresh) {
		l.P50, l.P99, l.Source = m.P50Ms, m.P99Ms, Measured
		return l
	}
	switch {
	case declared:
		l.P50, l.Source = max(there, back), Declared
		l.P99 = max(x.spec.LatencyP99Ms[b], y.spec.LatencyP99Ms[a])
	case x.Region != "" && x.Region == y.Region:
		l.P50, l.Source = assumedNear, Assumed
	default:
		l.P50, l.Source = assumedFar, Assumed
	}
	return l
}

// Distance is everything that is known between two zones, and what is used of it.
func (z *Zones) Distance(a, b string) roundtrip.ZoneDistance {
	if b < a {
		a, b = b, a
	}
	used, x, y := z.Between(a, b), z.Get(a), z.Get(b)
	class := ClassOf(used.P50)
	share, _ := Efficiency(2, used, nil)
	out := roundtrip.ZoneDistance{
		From: a, To: b, DeclaredMs: slower(x.spec.LatencyMs, b, y.spec.LatencyMs, a), DeclaredP99Ms: slower(x.spec.LatencyP99Ms, b, y.spec.LatencyP99Ms, a),
		UsedMs: used.P50, Source: string(used.Source), Class: class.Name, Action: class.Action, Efficiency: float64(share) / 10,
		Encrypted: way.Encrypted(a, &x.spec.Roads, b, &y.spec.Roads),
	}
	if m, ok := newest(x.measured, b, y.measured, a); ok {
		m.Stale = z.now.Sub(m.At) > Fresh
		out.Measured = &m
	}
	return out
}

// slower is the larger of what two tables say; nil where neither does.
func slower(x map[string]float64, b string, y map[string]float64, a string) *float64 {
	there, okThere := x[b]
	back, okBack := y[a]
	if !okThere && !okBack {
		return nil
	}
	worse := max(there, back)
	return &worse
}

// newest is seen from a.
func newest(x map[string]api.MeasuredLatency, b string, y map[string]api.MeasuredLatency, a string) (api.MeasuredLatency, bool) {
	there, okThere := x[b]
	back, okBack := y[a]
	if okBack && (!okThere || back.At.After(there.At)) {
		back.FromNode, back.ToNode = back.ToNode, back.FromNode
		return back, true
	}
	return there, okThere
}

func narrower(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Farthest is the worst distance between any two of these zones: the highest latency, and the
// narrowest link of all.
func (z *Zones) Farthest(zones []string) Latency {
	var worst Latency
	gbps := 0.0
	for i, a := range zones {
		for _, b := range zones[:i] {
			l := z.Between(a, b)
			gbps = narrower(gbps, l.Gbps)
			if l.P50 > worst.P50 || worst.Source == "" && l.Source != "" {
				worst = l
			}
		}
	}
	worst.Gbps = gbps
	return worst
}

// Class is a range of latencies and what to do there.
type Class struct {
	Name string
	// upTo is where it ends; that value itself is inside only where closed says so.
	upTo   float64
	closed bool
	Action api.Text
	// Training says that replicas that wait for each other in every step may stand so far apart.
	Training bool
}

// Classes is the table, nearest first; the last has no end.
var Classes = []Class{
	{"near", 2, false, api.T("good for synchronous training across these zones", "适合跨区同步训练"), true},
	{"regional", 5, false, api.T("synchronous training works with larger batches or gradient accumulation", "同步训练建议增大批量或使用梯度累积"), true},
	{"far", 50, true, api.T("for inference and asynchronous training; synchronous steps wait for the network", "适合推理与异步训练；同步训练会等待网络"), false},
	{"remote", 0, false, api.T("only for independent replicas, copies and failover", "仅适合相互独立的副本、备份与容灾"), false},
}

// ClassOf is the class of a latency in milliseconds.
func ClassOf(ms float64) Class {
	for _, c := range Classes[:len(Classes)-1] {
		if ms < c.upTo || c.closed && ms == c.upTo {
			return c
		}
	}
	return Classes[len(Classes)-1]
}

// Rank orders classes: 0 is the nearest.
func (c Class) Rank() int {
	for i := range Classes {
		if Classes[i].Name == c.Name {
			return i
		}
	}
	return len(Classes) - 1
}
