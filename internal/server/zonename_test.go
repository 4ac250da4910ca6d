package server

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// TestZonesByDisplayName: wherever a request names a zone, what people call it will do; what is kept is its name.
func TestZonesByDisplayName(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Zone{Meta: api.Meta{Name: "bj1", DisplayName: "北京-1"}, Spec: api.ZoneSpec{Region: "north"}})
	w.put(&api.Zone{Meta: api.Meta{Name: "sh1", DisplayName: "上海-1"}, Spec: api.ZoneSpec{Region: "east"}})
	task := w.submit("t", func(t *api.TrainingTask) {
		t.Spec.Zones = &api.ZoneRules{Allow: []string{"北京-1", "sh1"}, Split: where.Split{" 北京-1": where.Exactly(1)}}
	})
	if z := task.Spec.Zones; !slices.Equal(z.Allow, []string{"bj1", "sh1"}) || z.Split["bj1"] != where.Exactly(1) || len(z.Split) != 1 {
		t.Errorf("%+v", z)
	}
	if a := w.do("GET", "/api/v1/zones/"+url.PathEscape("北京-1"), w.admin, nil); a.status != 200 || !strings.Contains(string(a.raw), `"name":"bj1"`) {
		t.Errorf("%d %s", a.status, a.raw)
	}
	a := w.do("POST", "/api/v1/training-tasks", w.admin, manifest("u", func(t *api.TrainingTask) {
		t.Spec.Zones = &api.ZoneRules{Allow: []string{"广州-1"}, Deny: []string{"Z Z"}}
	}))
	if text := string(a.raw); a.status != 400 || !strings.Contains(text, "spec.zones.allow[0]") || !strings.Contains(text, "spec.zones.deny[0]") || !strings.Contains(text, "bj1 (北京-1)") {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// TestPhasesInAnyCase: a phase is what people write.
func TestPhasesInAnyCase(t *testing.T) {
	w := newWorld(t)
	w.submit("t")
	for query, n := range map[string]int{"?phase=pending": 1, "?phase=PENDING,failed": 1, "?phase=failed": 0} {
		a := w.do("GET", "/api/v1/training-tasks"+query, w.admin, nil)
		if got := strings.Count(string(a.raw), `"phase":"Pending"`); a.status != 200 || got != n {
			t.Errorf("%s: %d, %d tasks: %s", query, a.status, got, a.raw)
		}
	}
}
