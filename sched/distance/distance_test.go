package distance_test

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched/distance"
	"github.com/fermi-cluster/fermi/sched/gang"
	"github.com/fermi-cluster/fermi/sched/site"
)

func TestDistance(t *testing.T) {
	const ms, gbit = time.Millisecond, distance.DefaultBandwidth
	a := &site.Zone{Name: "a", Region: "r", Latency: map[string]time.Duration{"c": 3 * ms}, Bandwidth: map[string]int64{"c": 10 * gbit}}
	b := &site.Zone{Name: "b", Region: "r"}
	c := &site.Zone{Name: "c", Region: "s", Latency: map[string]time.Duration{"a": 4 * ms}, Bandwidth: map[string]int64{"a": 2 * gbit}}
	for _, x := range []struct {
		one, other *site.Zone
		want       time.Duration
	}{{a, a, 0}, {a, c, 4 * ms}, {c, a, 4 * ms}, {a, b, ms}, {b, c, 20 * ms}} {
		if got := distance.Trip(x.one, x.other); got != x.want {
			t.Errorf("%s and %s: %v", x.one.Name, x.other.Name, got)
		}
	}
	zones := distance.Zones(func(name string) *site.Zone { return map[string]*site.Zone{"a": a, "b": b, "c": c}[name] })
	if got := zones.Nearest(c, []string{"b", "a", "nowhere"}); got != 4*ms {
		t.Error(got)
	}
	if got := zones.Nearest(c, []string{"nowhere"}); got != 0 {
		t.Error(got)
	}
	for _, x := range []struct {
		to   string
		from []string
		want time.Duration
	}{{"a", []string{"a"}, 0}, {"a", []string{"b", "c"}, 5 * time.Second}, {"b", []string{"a"}, 10 * time.Second}, {"b", nil, 10 * time.Second}} {
		if got := zones.Moving([]gang.Datum{{Bytes: 10 * gbit, Zones: x.from}}, x.to); got != x.want {
			t.Errorf("from %v to %s: %v", x.from, x.to, got)
		}
	}
}
