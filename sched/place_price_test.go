package sched_test

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
)

// TestTheCheapestZoneWithRoom: an ordinary gang stands where it costs least while it runs; or burns least, if that
// counts for it; where the cheapest is full, in the next.
func TestTheCheapestZoneWithRoom(t *testing.T) {
	world := func() *stage {
		s := &stage{t: t, c: sched.NewCluster(), q: sched.NewQueues(), now: now}
		for i, name := range []string{"a", "b", "c"} {
			grams := []float64{100, 300, 200}[i]
			z := priced(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: "r", Carbon: &api.Carbon{GramsPerKWh: &grams}, Price: api.Price{Windows: []api.PriceWindow{
				{From: "00:00", To: "12:00", Factor: []float64{3, 1, 2}[i]}, {From: "12:00", To: "00:00", Factor: []float64{3, 1, 2}[i]},
			}}}})
			s.c.SetZone(z)
			s.set(node(uint32(i+1), name, "A100", "A100"))
		}
		return s
	}
	stands := func(s *stage, id string) string {
		at, ok := s.c.Held(id)
		if !ok {
			return ""
		}
		return []string{"", "a", "b", "c"}[at[0][0].Node]
	}
	for want, weigh := range map[string]where.Weights{"b": {}, "a": {Carbon: 1}} {
		s := world()
		w := s.task("x", 1, 1, 2)
		w.Expected, w.Weigh = 5*time.Hour, weigh
		s.q.Add(w)
		s.plan()
		if got := stands(s, "x"); got != want {
			t.Errorf("with %+v it stands in %s, want %s", weigh, got, want)
		}
	}
	s := world()
	for i, want := range []string{"b", "c", "a"} {
		id := fmt.Sprint("x", i)
		s.q.Add(s.task(id, 1, 1, 2))
		s.plan()
		if got := stands(s, id); got != want {
			t.Errorf("%s stands in %s, want %s", id, got, want)
		}
	}
}

// TestLatencyIsWeighed: a gang whose data lies in a zone that is full stands in the cheapest of the others, or, where latency counts, in
// one that is near.
func TestLatencyIsWeighed(t *testing.T) {
	for want, weigh := range map[uint32]where.Weights{2: {Price: 1}, 3: {Price: 1, Latency: 4}} {
		s := &stage{t: t, c: sched.NewCluster(), q: sched.NewQueues(), now: now}
		for i, name := range []string{"data", "cheap", "near"} {
			factor := []float64{1, 1, 1.5}[i]
			z := priced(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: name, Price: api.Price{Windows: []api.PriceWindow{{From: "00:00", To: "12:00", Factor: factor}, {From: "12:00", To: "00:00", Factor: factor}}}}})
			z.Latency = map[string]time.Duration{"data": []time.Duration{0, 20 * time.Millisecond, time.Millisecond}[i]}
			s.c.SetZone(z)
			if i > 0 {
				s.set(node(uint32(i+1), name, "A100"))
			}
		}
		w := s.task("x", 1, 1, 1)
		w.Expected, w.Weigh, w.Data = 5*time.Hour, weigh, []sched.Datum{{Bytes: 1, Zones: []string{"data"}}}
		s.q.Add(w)
		s.plan()
		if at, ok := s.c.Held("x"); !ok || at[0][0].Node != want {
			t.Errorf("with %+v it stands at %v, want node %d", weigh, at, want)
		}
	}
}
