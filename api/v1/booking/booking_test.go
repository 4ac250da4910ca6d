package booking

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
)

var from = time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)

func booking(change func(*BookingSpec)) *Booking {
	b := &Booking{Meta: api.Meta{Name: "firmware"}, Spec: BookingSpec{From: from, To: from.Add(4 * time.Hour), Zone: "beijing-1"}}
	change(&b.Spec)
	b.Default()
	return b
}

func TestRules(t *testing.T) {
	if b := booking(func(*BookingSpec) {}); len(b.Validate()) > 0 || b.Spec.Notice != usualNotice || !b.Spec.Maintenance() {
		t.Fatal(b.Validate(), b.Spec)
	}
	for path, change := range map[string]func(*BookingSpec){
		"spec.to":          func(s *BookingSpec) { s.To = s.From },
		"spec.nodes":       func(s *BookingSpec) { s.Zone = "" },
		"spec.nodes[1]":    func(s *BookingSpec) { s.Nodes = []string{"n1", "n1"} },
		"spec.projects[0]": func(s *BookingSpec) { s.Projects = []string{"../x"} },
		"spec.labels":      func(s *BookingSpec) { s.Labels = map[string]string{"a": ""} },
		"spec.notice":      func(s *BookingSpec) { s.Notice = -1 },
	} {
		bad := booking(change).Validate()
		if len(bad) == 0 || bad[0].Path != path || bad[0].Message.EN == "" || bad[0].Message.ZH == "" {
			t.Errorf("%s: %v", path, bad)
		}
	}
	if bad := booking(func(s *BookingSpec) { s.To = time.Time{} }).Validate(); len(bad) != 1 || bad[0].Path != "spec.to" {
		t.Error(bad)
	}
}

func TestCovers(t *testing.T) {
	n := &api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Zone: "beijing-1", Rack: "r1", Spec: joined.Spec{Agent: &joined.Agent{Labels: map[string]string{"pool": "a"}}}}}
	for name, c := range map[string]struct {
		spec BookingSpec
		want bool
	}{
		"its zone":           {BookingSpec{Zone: "beijing-1"}, true},
		"another zone":       {BookingSpec{Zone: "beijing-2"}, false},
		"its name":           {BookingSpec{Nodes: []string{"n0", "n1"}}, true},
		"its name elsewhere": {BookingSpec{Zone: "beijing-2", Nodes: []string{"n1"}}, false},
		"its rack":           {BookingSpec{Labels: map[string]string{"rack": "r1"}}, true},
		"its agent's label":  {BookingSpec{Labels: map[string]string{"pool": "a", "rack": "r1"}}, true},
		"another label":      {BookingSpec{Labels: map[string]string{"pool": "b"}}, false},
		"a label it has not": {BookingSpec{Labels: map[string]string{"x": "y"}}, false},
	} {
		if c.spec.Covers(n) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

func TestPhase(t *testing.T) {
	s := booking(func(*BookingSpec) {}).Spec
	for at, want := range map[time.Duration]BookingPhase{-time.Second: Upcoming, 0: Active, 4*time.Hour - 1: Active, 4 * time.Hour: Over} {
		if got := s.PhaseAt(from.Add(at)); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
	o := BookingSpec{From: s.To, To: s.To.Add(1)}
	if s.Overlaps(&o) || o.Overlaps(&s) || !s.Overlaps(&s) {
		t.Error("overlap")
	}
}
