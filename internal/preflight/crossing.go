package preflight

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// MaxCrossings bounds what is kept of a task: the pairs of nine zones are more.
const MaxCrossings = 32

// Measurement sums up the connections that went well.
type Measurement struct {
	Pairs      int
	Longest    time.Duration // of the round trips that count; 0: none does
	Rate       int64         // the lowest, in bytes a second; 0: none was measured
	OneMachine int           // pairs of two nodes on one machine: their round trips and rates don't count
	Crossings  []roundtrip.Crossing
}

// trip is a round trip between two zones, from the one whose name comes first.
type trip struct {
	fromNode, toNode string
	took             time.Duration
}

// Measure sums up. What two nodes of one machine say to each other crosses no network: it went well, and how long it took is no figure.
func Measure(members []Member) Measurement {
	var out Measurement
	by := make(map[string]*Member, len(members))
	for i := range members {
		by[members[i].Name] = &members[i]
	}
	trips := map[[2]string][]trip{}
	for i := range members {
		m := &members[i]
		if m.Answer == nil {
			continue
		}
		for _, r := range m.Answer.Results {
			if r.Error != "" {
				continue
			}
			out.Pairs++
			to := by[r.Name]
			crosses := to != nil && m.Zone != "" && to.Zone != "" && m.Zone != to.Zone
			if crosses {
				key, one := between(m, to, r.Latency)
				if trips[key] == nil {
					trips[key] = []trip{}
				}
				if !sharesMachine(m, to) && r.Latency > 0 {
					trips[key] = append(trips[key], one)
				}
			}
			if to != nil && sharesMachine(m, to) {
				out.OneMachine++
				continue
			}
			out.Longest = max(out.Longest, r.Latency)
			if r.Rate > 0 && (out.Rate == 0 || r.Rate < out.Rate) {
				out.Rate = r.Rate
			}
		}
	}
	out.Crossings = crossings(trips, members)
	return out
}

// sharesMachine says that two nodes are one machine. Replicas on one node don't pretend to be anything else.
func sharesMachine(a, b *Member) bool {
	return a.Node != b.Node && a.Machine != "" && a.Machine == b.Machine
}

func between(a, b *Member, took time.Duration) (key [2]string, one trip) {
	if b.Zone < a.Zone {
		a, b = b, a
	}
	return [2]string{a.Zone, b.Zone}, trip{a.Node, b.Node, took}
}

// crossings names every pair of zones that replicas connected between. The usual round trip is the median; of an even number the faster.
func crossings(trips map[[2]string][]trip, members []Member) []roundtrip.Crossing {
	var out []roundtrip.Crossing
	keys := slices.SortedFunc(maps.Keys(trips), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	for _, key := range keys[:min(len(keys), MaxCrossings)] {
		c := roundtrip.Crossing{From: key[0], To: key[1], Pairs: len(trips[key])}
		if list := trips[key]; len(list) > 0 {
			slices.SortStableFunc(list, func(a, b trip) int { return cmp.Compare(a.took, b.took) })
			usual := list[(len(list)-1)/2]
			c.LatencyMs, c.SlowestMs, c.FromNode, c.ToNode = Millis(usual.took), Millis(list[len(list)-1].took), usual.fromNode, usual.toNode
		} else {
			c.OneMachine = allOnOne(members, key)
		}
		out = append(out, c)
	}
	return out
}

// allOnOne says that the members in both zones are on one machine.
func allOnOne(members []Member, zones [2]string) bool {
	machine := ""
	for i := range members {
		if m := &members[i]; m.Zone == zones[0] || m.Zone == zones[1] {
			if m.Machine == "" || machine != "" && m.Machine != machine {
				return false
			}
			machine = m.Machine
		}
	}
	return machine != ""
}

// Millis is a time in milliseconds, to a thousandth.
func Millis(d time.Duration) float64 { return float64(d.Round(time.Microsecond).Microseconds()) / 1000 }

// Said puts a crossing in words.
func Said(c roundtrip.Crossing) fault.Text {
	switch {
	case c.OneMachine:
		return fault.T("The task runs across the zones %s and %s. Both are on one machine: the round trip between them was not measured.",
			"任务跨可用区 %s 与 %s 运行。两者的节点在同一台机器上：往返延迟未测量。", c.From, c.To)
	case c.Pairs == 0:
		return fault.T("The task runs across the zones %s and %s. The round trip between them could not be measured.",
			"任务跨可用区 %s 与 %s 运行。未能测得两者之间的往返延迟。", c.From, c.To)
	}
	return fault.T("The task runs across the zones %s and %s. A round trip takes %.2f ms, measured between %s and %s; the slowest of %d [pair|pairs] took %.2f ms.",
		"任务跨可用区 %s 与 %s 运行。往返延迟 %.2f 毫秒（在 %s 与 %s 之间测得），%d 对连接中最慢为 %.2f 毫秒。",
		c.From, c.To, c.LatencyMs, c.FromNode, c.ToNode, c.Pairs, c.SlowestMs)
}
