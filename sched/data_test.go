package sched_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/distance"
)

// beside lets x wait, whose data lies in zone z, which another fills for a time; zone far is free.
func (s *stage) beside(busy time.Duration, bytes api.Bytes) *sched.Workload {
	s.regions(time.Millisecond)
	s.p.NoPreemption = true
	a := s.task("a", 1, 2, 4)
	a.Expected, a.Allow = busy, []string{"z"}
	s.q.Add(a)
	s.starts("a")
	x := s.task("x", 1, 1, 1)
	x.Data = []sched.Datum{{Bytes: bytes, Zones: []string{"z"}}}
	s.q.Add(x)
	return x
}

func (s *stage) zoneOf(id string) string {
	at, ok := s.c.Held(id)
	switch {
	case !ok:
		return ""
	case at[0][0].Node == 3:
		return "far"
	}
	return "z"
}

func TestToItsDataUnlessWaitingCostsMore(t *testing.T) {
	gbit := int64(distance.DefaultBandwidth)
	for name, tc := range map[string]struct {
		busy  time.Duration // of the zone with the data
		bytes api.Bytes
		link  int64 // bytes a second
		ends  time.Duration
		zone  string
		after time.Duration
	}{
		"little data moves":           {10 * time.Minute, 1 << 30, 0, 0, "far", 0},
		"much data waits for room":    {10 * time.Minute, 1 << 40, 0, 10 * time.Minute, "z", 10 * time.Minute},
		"not for too long":            {10 * time.Hour, 1 << 40, 0, 0, "far", 0},
		"over a wide link it moves":   {10 * time.Minute, 1 << 40, 100 * gbit, 0, "far", 0},
		"a promise that is not kept":  {10 * time.Minute, api.Bytes(1200 * gbit), 0, 0, "far", 20 * time.Minute},
		"a link of less than nothing": {10 * time.Minute, 1 << 30, -5, 0, "far", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, 4)
			s.beside(tc.busy, tc.bytes)
			s.c.SetZone(sched.Zone{Name: "far", Region: "south", Bandwidth: map[string]int64{"z": tc.link}})
			begin := s.now
			for s.zoneOf("x") == "" && s.now.Sub(begin) < 24*time.Hour {
				res := s.plan()
				if s.zoneOf("x") != "" {
					break
				}
				next := res.Wake
				if end := begin.Add(tc.ends); tc.ends > 0 && s.now.Before(end) && next.After(end) {
					next = end
				}
				if !next.After(s.now) {
					t.Fatalf("nobody wakes the planner: %+v", res)
				}
				if s.now = next; tc.ends > 0 && s.now.Sub(begin) == tc.ends {
					s.end("a")
				}
			}
			if got := s.now.Sub(begin); s.zoneOf("x") != tc.zone || got != tc.after {
				t.Errorf("it starts in %q after %s, want %q after %s", s.zoneOf("x"), got, tc.zone, tc.after)
			}
		})
	}
}

// TestTheDataChangeAdmits: without the rule it starts at once where there is room.
func TestTheDataChangeAdmits(t *testing.T) {
	s := newStage(t, 2, 4)
	x := s.beside(10*time.Minute, 1<<40)
	s.plan()
	ex, _ := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
	if ex.Reason != advice.ReasonData || ex.Change.Kind != advice.ChangeData || ex.Start.Sub(s.now) != 10*time.Minute {
		t.Fatalf("%+v", ex)
	}
	s.q.Add(sched.Apply(ex.Change, x))
	s.starts("x")
}

// TestDataNeverWaitsLongerThanMoving: whatever stands beside the data, and however wrong it is about
// its time, x starts no later than moving would have taken.
func TestDataNeverWaitsLongerThanMoving(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t, 2, 4)
		seconds := rapid.IntRange(1, 1<<20).Draw(rt, "moving")
		s.beside(time.Duration(rapid.IntRange(1, 1<<20).Draw(rt, "busy"))*time.Second, api.Bytes(seconds*distance.DefaultBandwidth))
		begin, most := s.now, time.Duration(seconds)*time.Second
		for range 10000 {
			res := s.plan()
			if slices.Contains(ids(res), "x") {
				break
			}
			s.now = res.Wake
		}
		if got := s.now.Sub(begin); s.zoneOf("x") != "far" || got > most {
			rt.Fatalf("it starts in %q after %s; moving takes %s", s.zoneOf("x"), got, most)
		}
	})
}
