package booking

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestMoment: times are read as people write them, on their own clock.
func TestMoment(t *testing.T) {
	here := time.FixedZone("CST", 8*3600)
	now := time.Date(2026, 11, 20, 21, 30, 0, 0, here)
	for text, want := range map[string]string{
		"2026-12-01T08:00":          "2026-12-01T00:00:00Z",
		"2026-12-01 08:00":          "2026-12-01T00:00:00Z",
		"2026-12-01T08:00:00Z":      "2026-12-01T08:00:00Z",
		"2026-12-01T08:00:00+09:00": "2026-11-30T23:00:00Z",
		"22:00":                     "2026-11-20T14:00:00Z",
		"06:00":                     "2026-11-20T22:00:00Z", // tomorrow
		"+2h":                       "2026-11-20T15:30:00Z",
	} {
		if got, ok := Moment(text, now); !ok || got.Format(time.RFC3339) != want {
			t.Errorf("%s is %s, %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "25:00", "2026-13-01T00:00", "+", "+-1h", "7"} {
		if got, ok := Moment(text, now); ok {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestSpec: all that is wrong with the flags is said at once.
func TestSpec(t *testing.T) {
	now := time.Date(2026, 11, 20, 21, 30, 0, 0, time.UTC)
	w := wish{from: "soon", to: "22:00", span: "4h", notice: "-1h", labels: []string{"rack"}}
	_, err := w.spec(nil, now)
	flags := map[string]bool{}
	for _, f := range fault.From(err).Fields {
		flags[f.Path] = f.Message.ZH != ""
	}
	if len(flags) != 4 || !flags["--from"] || !flags["--for"] || !flags["--notice"] || !flags["--label"] {
		t.Errorf("%v: %v", err, flags)
	}
	s, err := (&wish{from: "+1h", span: "4h", zone: "z", labels: []string{"rack=r1"}}).spec([]string{"n1"}, now)
	if err != nil || !s.From.Equal(now.Add(time.Hour)) || s.To.Sub(s.From) != 4*time.Hour || s.Labels["rack"] != "r1" || s.Nodes[0] != "n1" {
		t.Errorf("%+v %v", s, err)
	}
}
