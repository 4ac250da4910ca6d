package server

import (
	"encoding/json"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
)

func TestPreviewRoute(t *testing.T) {
	w := newWorld(t)
	var p api.Preview
	w.ok("POST", "/api/v1/placements/preview", manifest("a", func(t *api.TrainingTask) { t.Spec.Roles[0].Replicas = 3 }), &p)
	if !p.Fits || p.Planned.NodeCount != 3 {
		t.Errorf("%+v", p)
	}
	// Without a name, and nothing is left behind.
	w.ok("POST", "/api/v1/placements/preview", `{"spec":{"roles":[{"command":["x"]}]}}`, &p)
	var page struct{ Items []json.RawMessage }
	w.ok("GET", "/api/v1/training-tasks", nil, &page)
	if len(page.Items) != 0 {
		t.Errorf("%d tasks were made", len(page.Items))
	}
	w.refused("POST", "/api/v1/placements/preview", `{"spec":{"roles":[]}}`, 400, "InvalidField")
	w.refused("POST", "/api/v1/placements/preview", `{"spec":{"roles":[{"command":["x"]}],"queue":"none"}}`, 400, "InvalidField")
	w.refused("POST", "/api/v1/placements/preview", `{"spec":{"roles":[{"command":["x"]}],"zones":{"sameRegion":"always"}}}`, 400, "InvalidField")
	w.refused("POST", "/api/v1/placements/preview", ``, 400, "BadManifest")
	w.put(&api.Zone{Meta: api.Meta{Name: "a"}, Spec: api.ZoneSpec{Region: "r"}})
	var lost api.Outage
	w.ok("GET", "/api/v1/zones/a/outage", nil, &lost)
	if lost.Zone != "a" || lost.Items[0].To["b"] != 2 {
		t.Errorf("%+v", lost)
	}
	w.refused("GET", "/api/v1/zones/none/outage", nil, 404, "NotFound")
	w = w.over(func(c *Config) { c.Live = nil })
	w.refused("GET", "/api/v1/zones/a/outage", nil, 503, "NoPlanner")
	w.refused("POST", "/api/v1/placements/preview", manifest("a"), 503, "NoPlanner")
}

func TestMeasureZone(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.put(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: "r"}})
	}
	var z api.Zone
	w.ok("POST", "/api/v1/zones/a/latency", `{"to":{"b":{"p50Ms":1.3,"p99Ms":2,"samples":9}}}`, &z)
	w.ok("POST", "/api/v1/zones/a/latency", `{"to":{"c":{"p50Ms":8,"p99Ms":9,"samples":1}}}`, &z)
	if m := z.Status.Measured; len(m) != 2 || m["b"].P50Ms != 1.3 || m["c"].Samples != 1 || m["b"].At.IsZero() {
		t.Errorf("%+v", m)
	}
	var far roundtrip.ZoneMatrix
	w.ok("GET", "/api/v1/zone-matrix", nil, &far)
	if len(far.Items) != 3 || far.Items[0].From != "a" || far.Items[0].To != "b" || far.Items[0].Source != "measured" || far.Items[0].UsedMs != 1.3 || far.Items[0].Measured.Samples != 9 ||
		far.Items[2].Measured != nil || far.Items[2].Source != "assumed" || far.Items[2].OneMachine || far.Items[2].DeclaredMs != nil {
		t.Errorf("%+v", far)
	}
	gone := w.do("DELETE", "/api/v1/zones/c", w.admin, nil)
	w.refused("GET", "/api/v1/zones/c?minRevision="+gone.header.Get("Fermi-Revision"), nil, 404, "NotFound")
	z = api.Zone{}
	w.ok("POST", "/api/v1/zones/a/latency", `{"to":{"b":{"p50Ms":1.4,"p99Ms":2,"samples":9}}}`, &z)
	if m := z.Status.Measured; len(m) != 1 || m["b"].P50Ms != 1.4 {
		t.Errorf("a zone that is gone is still near: %+v", m)
	}
	for body, reason := range map[string]string{
		`{"to":{"a":{"p50Ms":1,"p99Ms":2,"samples":9}}}`:    "InvalidField",
		`{"to":{"b":{"p50Ms":-1,"p99Ms":2,"samples":9}}}`:   "InvalidField",
		`{"to":{"b":{"p50Ms":3,"p99Ms":2,"samples":9}}}`:    "InvalidField",
		`{"to":{"b":{"p50Ms":1,"p99Ms":2,"samples":0}}}`:    "InvalidField",
		`{"to":{"none":{"p50Ms":1,"p99Ms":2,"samples":9}}}`: "InvalidField",
		`{"to":{}}`: "InvalidField",
		`{"to":{"b":{"p50Ms":1,"p99Ms":2,"samples":9,"x":1}}}`:    "BadBody",
		`{"to":{"b":{"p50Ms":1e999,"p99Ms":2,"samples":9}}}`:      "BadBody",
		`{"to":{"b":{"p50Ms":1,"p99Ms":2,"samples":9}}} trailing`: "BadBody",
	} {
		w.refused("POST", "/api/v1/zones/a/latency", body, 400, reason)
	}
	w.refused("POST", "/api/v1/zones/none/latency", `{"to":{"b":{"p50Ms":1,"p99Ms":2,"samples":9}}}`, 404, "NotFound")
}

// TestVirtualZonesAreOneMachine: between them nothing can be measured, and the matrix says so; what is declared counts.
func TestVirtualZonesAreOneMachine(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"a", "b", "c"} {
		w.put(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: "r", LatencyMs: map[string]float64{"z": 1, "b": 12}}})
		w.put(&api.Node{Meta: api.Meta{Name: name + "1"}, Spec: api.NodeSpec{Number: uint32(i + 1), Zone: name, Virtual: name != "c"}})
	}
	var far roundtrip.ZoneMatrix
	w.ok("GET", "/api/v1/zone-matrix", nil, &far)
	for _, d := range far.Items {
		if d.OneMachine != (d.From == "a" && d.To == "b") || d.Measured != nil || d.To == "b" && (*d.DeclaredMs != 12 || d.Source != "declared") {
			t.Errorf("%+v", d)
		}
	}
}

// TestQueueTree: a queue must fit into the tree of the others; a parent stays while it has children.
func TestQueueTree(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Queue{Meta: api.Meta{Name: "root"}, Spec: api.QueueSpec{MaxPending: 1, Guarantee: map[string]int{"A100": 8}}})
	w.put(&api.Queue{Meta: api.Meta{Name: "leaf"}, Spec: api.QueueSpec{MaxPending: 1, Parent: "root", Guarantee: map[string]int{"A100": 8}}})
	for _, q := range []*api.Queue{
		{Meta: api.Meta{Name: "x"}, Spec: api.QueueSpec{Parent: "none"}},
		{Meta: api.Meta{Name: "x"}, Spec: api.QueueSpec{Parent: "root", Guarantee: map[string]int{"a100": 1}}},
		{Meta: api.Meta{Name: "root"}, Spec: api.QueueSpec{Parent: "leaf"}},
	} {
		if _, err := w.checkQueue(q); err == nil {
			t.Errorf("accepted: %+v", q)
		}
	}
	if _, err := w.checkQueue(&api.Queue{Meta: api.Meta{Name: "x"}, Spec: api.QueueSpec{Parent: "root"}}); err != nil {
		t.Error(err)
	}
	w.refused("DELETE", "/api/v1/queues/root", nil, 409, "InUse")
}
