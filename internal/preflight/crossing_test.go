package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"pgregory.net/rapid"
)

// gang makes members that each connect to the next.
func gangOf(stands [][3]string, took ...time.Duration) []Member {
	var out []Member
	for i, s := range stands {
		next := (i + 1) % len(stands)
		out = append(out, Member{
			Name: fmt.Sprintf("worker-%d", i), Zone: s[0], Node: s[1], Machine: s[2],
			Answer: &Report{Results: []Result{{Target: Target{Name: fmt.Sprintf("worker-%d", next)}, Latency: took[i], Rate: int64(100 + i)}}},
		})
	}
	return out
}

func TestMeasureMachines(t *testing.T) {
	const ms = time.Millisecond
	apart := Measure(gangOf([][3]string{{"a", "a1", "x"}, {"b", "b1", "y"}, {"a", "a2", "z"}}, 12*ms, 14*ms, ms))
	want := roundtrip.Crossing{From: "a", To: "b", LatencyMs: 12, SlowestMs: 14, Pairs: 2, FromNode: "a1", ToNode: "b1"}
	if apart.Pairs != 3 || apart.OneMachine != 0 || apart.Longest != 14*ms || apart.Rate != 100 || len(apart.Crossings) != 1 || apart.Crossings[0] != want {
		t.Errorf("three machines: %+v", apart)
	}
	// What virtual nodes say to each other is no figure of a network.
	demo := Measure(gangOf([][3]string{{"a", "a1", "virtual"}, {"b", "b1", "virtual"}}, 30*time.Microsecond, 30*time.Microsecond))
	if demo.Pairs != 2 || demo.OneMachine != 2 || demo.Longest != 0 || demo.Rate != 0 || len(demo.Crossings) != 1 || demo.Crossings[0] != (roundtrip.Crossing{From: "a", To: "b", OneMachine: true}) {
		t.Errorf("one machine: %+v", demo)
	}
	if text := Said(demo.Crossings[0]); !strings.Contains(text.EN, "not measured") || !strings.Contains(text.ZH, "未测量") || strings.Contains(text.EN, "ms") {
		t.Errorf("%+v", text)
	}
	if text := Said(want); !strings.Contains(text.EN, "12.00 ms, measured between a1 and b1") {
		t.Errorf("%+v", text)
	}
	// Two replicas on one node are where they say, and a machine that is not known is its own.
	if same := Measure(gangOf([][3]string{{"a", "a1", "x"}, {"a", "a1", "x"}}, ms, 2*ms)); same.Longest != 2*ms || same.OneMachine != 0 || same.Crossings != nil {
		t.Errorf("one node: %+v", same)
	}
	if unknown := Measure(gangOf([][3]string{{"a", "a1", ""}, {"b", "b1", ""}}, ms, 3*ms)); unknown.Longest != 3*ms || unknown.Crossings[0].LatencyMs != 1 {
		t.Errorf("machines that are not known: %+v", unknown)
	}
	failed := gangOf([][3]string{{"a", "a1", "x"}, {"b", "b1", "y"}}, ms, ms)
	for i := range failed {
		failed[i].Answer.Results[0].Error = Silent
	}
	if got := Measure(failed); got.Pairs != 0 || got.Longest != 0 || got.Crossings != nil {
		t.Errorf("none connected: %+v", got)
	}
}

// TestMeasureNeverMakesAFigureUp: what is told of two zones is the round trip of some pair of their nodes on two machines.
func TestMeasureNeverMakesAFigureUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "members")
		var stands [][3]string
		var took []time.Duration
		for i := range n {
			zone := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone")
			stands = append(stands, [3]string{zone, fmt.Sprintf("%s%d", zone, i), rapid.SampledFrom([]string{"", "m1", "m2", "virtual"}).Draw(t, "machine")})
			took = append(took, time.Duration(rapid.IntRange(1, 50).Draw(t, "ms"))*time.Millisecond)
		}
		members := gangOf(stands, took...)
		got := Measure(members)
		for _, c := range got.Crossings {
			var seen []float64
			for i := range members {
				a, b := &members[i], &members[(i+1)%n]
				if c.From == min(a.Zone, b.Zone) && c.To == max(a.Zone, b.Zone) && (a.Machine == "" || a.Machine != b.Machine) {
					seen = append(seen, Millis(took[i]))
				}
			}
			switch {
			case len(seen) != c.Pairs:
				t.Fatalf("%+v of %v", c, seen)
			case len(seen) == 0 && (c.LatencyMs != 0 || c.FromNode != ""):
				t.Fatalf("a figure of nothing: %+v", c)
			case len(seen) > 0 && (!slices.Contains(seen, c.LatencyMs) || c.SlowestMs != slices.Max(seen) || c.OneMachine):
				t.Fatalf("%+v of %v", c, seen)
			}
		}
	})
}
