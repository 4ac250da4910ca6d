package sim

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestServices: with the controller's own judgement a day of requests costs at most 15 of 100 more than what an oracle needs for the same goal,
// meets that goal, and the number of replicas seldom changes its direction, whatever the seed.
func TestServices(t *testing.T) {
	for _, row := range serving.Rows {
		if _, ok := api.InfoOf(row.Kind); !ok {
			api.Register(row)
		}
	}
	var all [][]*Day
	for seed := range uint64(3) {
		days := PlayServices(seed)
		all = append(all, days)
		ours, naive, best := days[0], days[1], days[len(days)-1]
		heads, rows := ServicesTable("en", seed, days)
		t.Log(heads)
		for _, r := range rows {
			t.Log(strings.Join(r, " | "))
		}
		if best.inTime() < goalOf {
			t.Errorf("seed %d: the oracle misses the goal: %.4f", seed, best.inTime())
		}
		if ours.Hours > 1.15*best.Hours {
			t.Errorf("seed %d: %.1f replica-hours; the oracle needs %.1f", seed, ours.Hours, best.Hours)
		}
		if ours.inTime() < goalOf {
			t.Errorf("seed %d: %.4f of the requests begin in time", seed, ours.inTime())
		}
		if ours.most() > 20 || 10*ours.most() > naive.most() {
			t.Errorf("seed %d: %d changes of direction in an hour; without windows %d", seed, ours.most(), naive.most())
		}
		if ours.FromZero == 0 {
			t.Errorf("seed %d: it never came from zero", seed)
		}
	}
	again := PlayServices(1)
	if !reflect.DeepEqual(all[1], again) || reflect.DeepEqual(all[2], again) {
		t.Error("a day is not what its seed says")
	}
	var page, csv bytes.Buffer
	if err := WriteServicesHTML(&page, "zh", 1, again); err != nil || !strings.Contains(page.String(), "副本时") {
		t.Errorf("the page: %v", err)
	}
	if err := WriteServicesCSV(&csv, again); err != nil || strings.Count(csv.String(), "\n") != 1+len(again)*seconds/bin {
		t.Errorf("the curves: %v, %d lines", err, strings.Count(csv.String(), "\n"))
	}
}
