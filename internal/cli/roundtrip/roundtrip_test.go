package roundtrip

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func ago(time.Time) string { return "5m" }

func TestNote(t *testing.T) {
	declared := 12.0
	at := &roundtrip.MeasuredLatency{P50Ms: 13.25, FromNode: "a1", ToNode: "b2"}
	for _, tc := range []struct {
		d      roundtrip.ZoneDistance
		en, zh string
	}{
		{roundtrip.ZoneDistance{OneMachine: true}, "both are on one machine: not measured", "两者的节点在同一台机器上：未测量"},
		{roundtrip.ZoneDistance{}, "not measured yet: the next task over both zones does it", "尚未测量：下一个跨这两个可用区的任务会测量"},
		{roundtrip.ZoneDistance{Measured: at, OneMachine: true}, "a1 – b2, 5m", "a1 – b2，5m"},
		{roundtrip.ZoneDistance{Measured: at, Encrypted: true}, "a1 – b2, 5m; encrypted", "a1 – b2，5m；已加密"},
		{roundtrip.ZoneDistance{Measured: &roundtrip.MeasuredLatency{}}, "reported by an operator, 5m", "由运维人员上报，5m"},
		{roundtrip.ZoneDistance{DeclaredMs: &declared, Measured: &roundtrip.MeasuredLatency{FromNode: "a1", ToNode: "b2", Stale: true}}, "a1 – b2, 5m, too old to be used", "a1 – b2，5m，已过期，不再采用"},
		{roundtrip.ZoneDistance{Measured: &roundtrip.MeasuredLatency{FromNode: "a1", ToNode: "b2", Stale: true}}, "a1 – b2, 5m, old", "a1 – b2，5m，较旧"},
	} {
		if got := Note(tc.d, ago); got.EN != tc.en || got.ZH != tc.zh {
			t.Errorf("%+v", got)
		}
	}
	items := []roundtrip.ZoneDistance{{From: "a", To: "b", Measured: at}, {From: "b", To: "c"}, {From: "a", To: "c"}}
	if got := of(items, "b"); len(got) != 2 || got[0].From != "b" || got[0].To != "a" || got[0].Measured.FromNode != "b2" || got[1].To != "c" || at.FromNode != "a1" {
		t.Errorf("seen from b: %+v", got)
	}
	for ms, want := range map[float64]string{12: "12ms", 13.25: "13.25ms", 0.034: "0.03ms", 1.5: "1.5ms", 100: "100ms", 0: "0ms"} {
		if got := Millis(ms); got != want {
			t.Errorf("%v: %s", ms, got)
		}
	}
}

// TestTheDemoHasNoFigure: what virtual nodes say to each other is not shown as a round trip.
func TestTheDemoHasNoFigure(t *testing.T) {
	end := time.Now()
	size := func(int64) string { return "SIZE" }
	demo := Preflight(&api.PreflightStatus{StartedAt: end, FinishedAt: &end, Pairs: 2, OneMachine: 2}, size)
	if strings.Contains(demo.EN, "round trip up to") || !strings.Contains(demo.EN, "no round trip was measured") || !strings.Contains(demo.ZH, "未测量") || strings.Contains(demo.EN, "SIZE") {
		t.Errorf("%+v", demo)
	}
	real := Preflight(&api.PreflightStatus{StartedAt: end, FinishedAt: &end, Pairs: 3, OneMachine: 1, LatencyMs: 12.5, Rate: 1}, size)
	if real.EN != "3 pairs connect, round trip up to 12.50 ms, at least SIZE/s, 1 of them on one machine and not measured, 0 findings in 0s" {
		t.Errorf("%+v", real)
	}
	declared := 12.0
	known := &roundtrip.ZoneDistance{DeclaredMs: &declared, Efficiency: 60, Action: fault.T("far", "远")}
	one := Crossing(roundtrip.Crossing{From: "a", To: "b", OneMachine: true}, known)
	if one.EN != "a – b: both are on one machine: not measured; declared 12ms; estimated efficiency 60 %: far" {
		t.Errorf("%+v", one)
	}
	two := Crossing(roundtrip.Crossing{From: "a", To: "b", Pairs: 2, LatencyMs: 13, SlowestMs: 14, FromNode: "a1", ToNode: "b1"}, nil)
	if two.ZH != "a – b：实测 13ms（a1 与 b1 之间），最长 14ms" {
		t.Errorf("%+v", two)
	}
}
