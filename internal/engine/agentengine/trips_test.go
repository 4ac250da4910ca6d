package agentengine

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestDue: in five minutes every pair of zones is asked for once, nobody is asked for two at once, not always the same machines measure, and one machine
// measures nothing.
func TestDue(t *testing.T) {
	zones := map[string][]station{}
	for z := range 6 {
		zone := fmt.Sprint("z", z)
		for m := range 3 {
			name := fmt.Sprint(zone, "-", m)
			zones[zone] = append(zones[zone], station{name, zone, "boot-" + name, name + ":7073"})
		}
	}
	zones["z0"], zones["z1"] = []station{{"z0-0", "z0", "one", "a"}}, []station{{"z1-0", "z1", "one", "b"}}
	measure := &trips{asked: map[pair]time.Time{}}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	pairs, who := map[pair]int{}, map[string]bool{}
	for range 2 * tripsEvery / lookTrips {
		now = now.Add(lookTrips)
		if !measure.time(now) || measure.time(now.Add(lookTrips-1)) {
			t.Fatal("it does not look every time, or too often")
		}
		out := measure.due(now, zones)
		if len(out) > mostTrips {
			t.Fatalf("%d at once", len(out))
		}
		for from, to := range out {
			p := pair{from[:2], to.Node[:2]}
			if p.a >= p.b || p == (pair{"z0", "z1"}) {
				t.Fatalf("%v", p)
			}
			pairs[p]++
			who[from] = true
		}
	}
	if len(pairs) != 14 {
		t.Errorf("%d pairs: %v", len(pairs), pairs)
	}
	for p, n := range pairs {
		if n != 2 {
			t.Errorf("%v was asked for %d times", p, n)
		}
	}
	if !who["z2-0"] || !who["z2-1"] || !who["z2-2"] {
		t.Errorf("always the same: %v", who)
	}
}

// TestReadTrips: what an agent says that can't be is no figure.
func TestReadTrips(t *testing.T) {
	joined := map[string]api.Node{}
	for _, name := range []string{"a1", "a2", "b1"} {
		joined[name] = api.Node{Meta: api.Meta{Name: name}, Spec: api.NodeSpec{Zone: name[:1]}}
	}
	now := time.Now()
	read := func(from, body string) []found { return readTrips([]byte(body), joined, from, now) }
	good := `[{"node":"b1","p50Ms":12.5,"p99Ms":14,"samples":10}]`
	if got := read("a1", good); len(got) != 1 || got[0].from != "a" || got[0].to != "b" || got[0].FromNode != "a1" || got[0].ToNode != "b1" || got[0].P50Ms != 12.5 || got[0].Samples != 10 {
		t.Errorf("%+v", got)
	}
	if got := read("stranger", good); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for _, body := range []string{
		`{}`, `[`, `null`, `[{"node":"a2","p50Ms":1,"p99Ms":2,"samples":10}]`, `[{"node":"nobody","p50Ms":1,"p99Ms":2,"samples":10}]`,
		`[{"node":"b1","p50Ms":0,"p99Ms":2,"samples":10}]`, `[{"node":"b1","p50Ms":3,"p99Ms":2,"samples":10}]`, `[{"node":"b1","p50Ms":3,"p99Ms":2e9,"samples":10}]`, `[{"node":"b1","p50Ms":3,"p99Ms":4,"samples":4}]`,
	} {
		if got := read("a1", body); len(got) != 0 {
			t.Errorf("%s: %+v", body, got)
		}
	}
}
