package sched_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// nightly is a zone with other prices for two hours of the day.
func nightly(name, from string, factor float64) sched.Zone {
	minutes, _ := api.ParseClock(from)
	to := fmt.Sprintf("%02d:%02d", (minutes/60+2)%24, minutes%60)
	return priced(&api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{
		Region: "r", Price: api.Price{Windows: []api.PriceWindow{{From: from, To: to, Factor: factor}}},
	}})
}

func priced(z *api.Zone) sched.Zone {
	return sched.Zone{Name: z.Meta.Name, Region: z.Spec.Region, Cost: cost.ZoneOf(z)}
}

func (s *stage) deferrable(id string, what api.Deferral, length time.Duration) *sched.Workload {
	w := s.task(id, 1, 1, 1)
	w.Expected, w.Defer, w.Submitted = length, what, s.now
	return w
}

// follow plans and passes time as the planner asks, until x starts.
func (s *stage) follow(id string, most time.Duration) time.Time {
	s.t.Helper()
	for end := s.now.Add(most); !s.now.After(end); {
		res := s.plan()
		if slices.Contains(ids(res), id) {
			return s.now
		}
		if res.Wake.IsZero() || !res.Wake.After(s.now) {
			s.t.Fatalf("at %s nobody wakes the planner for %s: %+v", s.now, id, res)
		}
		s.now = res.Wake
	}
	s.t.Fatalf("%s does not start", id)
	return time.Time{}
}

func TestDeferrable(t *testing.T) {
	hour := time.Hour
	green := func(c *api.Carbon) sched.Zone {
		return priced(&api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Carbon: c, UTCOffset: "+02:00"}})
	}
	series := make([]float64, 24)
	for i := range series {
		series[i] = 500
	}
	series[9] = 100 // 09:00 on the zone's clock is 07:00 UTC
	for name, tc := range map[string]struct {
		zone sched.Zone
		make func(s *stage) *sched.Workload
		want time.Duration // after midnight
	}{
		"the cheap hours": {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, hour) }, 4 * hour},
		"the green hours": {green(&api.Carbon{ByHour: series}), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferGreen, hour) }, 7 * hour},
		"a deadline before them": {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload {
			w := s.deferrable("x", api.DeferCheap, hour)
			w.Deadline = s.now.Add(3 * hour)
			return w
		}, 0},
		"a deadline in the midst of them": {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload {
			w := s.deferrable("x", api.DeferCheap, hour)
			w.Deadline = s.now.Add(5 * hour) // minus an hour, a tenth of it, and ten minutes
			return w
		}, 3*hour + 44*time.Minute},
		"a deadline that is past": {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload {
			w := s.deferrable("x", api.DeferCheap, hour)
			w.Deadline = s.now.Add(-hour)
			return w
		}, 0},
		"it gives up waiting sooner": {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload {
			w := s.deferrable("x", api.DeferCheap, hour)
			w.StartBy = s.now.Add(hour)
			return w
		}, 0},
		"not worth it":          {nightly("z", "04:00", 0.995), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, hour) }, 0},
		"dearer later":          {nightly("z", "04:00", 2), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, hour) }, 0},
		"of unknown length":     {nightly("z", "04:00", 0.5), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, 0) }, 0},
		"of unknown carbon":     {green(nil), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferGreen, hour) }, 0},
		"a series with holes":   {green(&api.Carbon{ByHour: series[:7]}), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferGreen, hour) }, 0},
		"prices of less than 0": {nightly("z", "04:00", -3), func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, hour) }, 0},
		"no prices at all":      {sched.Zone{Name: "z"}, func(s *stage) *sched.Workload { return s.deferrable("x", api.DeferCheap, hour) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, 4)
			s.c.SetZone(tc.zone)
			s.q.Add(tc.make(s))
			start := s.now
			if got := s.follow("x", 48*hour).Sub(start); got != tc.want {
				t.Errorf("it starts after %s, want %s", got, tc.want)
			}
		})
	}
}

// TestDeferrableGoesToTheCheapZone: the zone whose hours it waited for comes first, though another
// comes before it by name.
func TestDeferrableGoesToTheCheapZone(t *testing.T) {
	s := newStage(t, 1, 4)
	n := s.node(2)
	n.Zone = "b"
	s.set(n)
	n = s.node(3)
	n.Zone = "c"
	s.set(n)
	s.c.SetZone(nightly("b", "04:00", 0.9))
	s.c.SetZone(nightly("c", "05:00", 0.5))
	s.c.SetZone(nightly("z", "04:00", 0.8))
	s.q.Add(s.deferrable("x", api.DeferCheap, time.Hour))
	start := s.now
	for len(s.plan().Decisions) == 0 {
		res := s.plan()
		s.now = res.Wake
	}
	h, ok := s.c.Held("x")
	if !ok || h[0][0].Node != 3 || s.now.Sub(start) != 5*time.Hour {
		t.Errorf("it stands on %v after %s", h, s.now.Sub(start))
	}
}

func TestHeldBackAndTheRest(t *testing.T) {
	s := newStage(t, 1, 4)
	s.c.SetZone(nightly("z", "04:00", 0.5))
	x := s.deferrable("x", api.DeferCheap, time.Hour)
	s.q.Add(x)
	before, _ := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
	s.plan()
	ex, _ := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
	if ex.Message != before.Message || ex.Change.Kind != advice.ChangeDefer || !ex.Start.Equal(s.now.Add(4*time.Hour)) {
		t.Errorf("%+v", ex)
	}
	for _, want := range []string{"¥8.50 if it started now", "¥4.25", "04:00"} {
		if !strings.Contains(ex.Message.EN, want) {
			t.Errorf("%q does not say %q", ex.Message.EN, want)
		}
	}
	if s.q.Len() != 1 || s.q.Waiting("q") != 1 {
		t.Error("it waits, and counts:", s.q.Len())
	}
	if res := sched.Plan(s.now.Add(-time.Hour), s.c, s.q, s.p); len(res.Decisions) > 0 { // a clock that goes back
		t.Error(ids(res))
	}
	s.c.SetZone(nightly("z", "02:00", 0.5)) // other prices: found anew
	if res := s.plan(); !res.Wake.Equal(s.now.Add(2 * time.Hour)) {
		t.Error(res.Wake)
	}
	s.pass(2 * time.Hour)
	res := s.plan()
	if len(res.Decisions) != 1 {
		t.Fatal(res)
	}
	sched.Undo(s.c, s.q, res.Decisions[0])
	s.pass(3 * time.Hour)
	if res := s.plan(); len(res.Decisions) != 1 { // let go is let go: not for the next night
		t.Error("held back twice:", res)
	}
	s.q.Add(s.deferrable("y", api.DeferCheap, time.Hour))
	s.plan()
	s.q.Remove("y")
	if res := s.plan(); s.q.Len() != 0 || !res.Wake.IsZero() {
		t.Error("somebody is still held back:", res.Wake)
	}
	change := sched.Change{Kind: advice.ChangeDefer}
	s.q.Add(s.deferrable("z", api.DeferCheap, time.Hour))
	s.plan()
	s.q.Add(sched.Apply(change, s.deferrable("z", api.DeferCheap, time.Hour)))
	s.starts("z")
}

// TestWindowMeetsItsDeadline: over random price books and series a deferrable task on an idle
// cluster never misses a deadline that a start at once would have met, costs no more than a start at
// once, and within a hundredth as little as the best of all half hours.
func TestWindowMeetsItsDeadline(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		z := &api.Zone{Meta: api.Meta{Name: "z"}}
		z.Spec.UTCOffset = rapid.SampledFrom([]string{"", "+08:00", "-03:30"}).Draw(rt, "offset")
		from := 0
		for from < 22 && rapid.Bool().Draw(rt, "window") {
			a := rapid.IntRange(from, 22).Draw(rt, "from")
			b := rapid.IntRange(a+1, 23).Draw(rt, "to")
			z.Spec.Price.Windows = append(z.Spec.Price.Windows, api.PriceWindow{
				From: fmt.Sprintf("%02d:30", a), To: fmt.Sprintf("%02d:30", b), Factor: float64(rapid.IntRange(0, 30).Draw(rt, "factor")) / 10,
			})
			from = b
		}
		z.Spec.Carbon = &api.Carbon{ByHour: rapid.SliceOfN(rapid.Float64Range(0, 900), 24, 24).Draw(rt, "carbon")}
		s := newStage(t, 1, 1)
		s.now = s.now.Add(time.Duration(rapid.IntRange(0, 24*60).Draw(rt, "now")) * time.Minute)
		s.c.SetZone(priced(z))
		what := rapid.SampledFrom([]api.Deferral{api.DeferCheap, api.DeferGreen}).Draw(rt, "what")
		length := time.Duration(rapid.IntRange(1, 30*60).Draw(rt, "length")) * time.Minute
		x := s.deferrable("x", what, length)
		last := sched.WindowHorizon
		if rapid.Bool().Draw(rt, "due") {
			slack := time.Duration(rapid.IntRange(0, 72*60).Draw(rt, "slack")) * time.Minute
			x.Deadline = s.now.Add(length + slack)
			last = slack - length/10 - 10*time.Minute
		}
		s.q.Add(x)
		begin := s.now
		start := s.follow("x", 100*time.Hour)
		if !x.Deadline.IsZero() && start.Add(length).After(x.Deadline) {
			rt.Fatalf("%s after %s misses %s", length, start, x.Deadline)
		}
		bill := func(at time.Time) float64 {
			part := cost.Part{CPU: 1, Memory: 1 << 30, Thousandths: 1000, DeviceType: "A100", Devices: 1}
			rate := cost.ZoneOf(z).Daily(part, false)
			if what == api.DeferGreen {
				rate, _ = cost.ZoneOf(z).Carbon(part)
			}
			return float64(rate.Over(at, at.Add(length)).Nano())
		}
		got, now := bill(start), bill(begin)
		best := now
		for d := time.Duration(0); d <= last; d += 30 * time.Minute {
			best = min(best, bill(begin.Add(d)))
		}
		if got > now || got > best+now/100+1 {
			rt.Fatalf("%v at %s, %v at once, %v at best", got, start, now, best)
		}
	})
}

// BenchmarkHeldBack is a turn beside 10,000 that are held back.
func BenchmarkHeldBack(b *testing.B) {
	for _, held := range []int{0, 10000} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			s := newStage(b, 100, 8)
			s.c.SetZone(nightly("z", "04:00", 0.5))
			for i := range held {
				s.q.Add(s.deferrable(fmt.Sprintf("held%05d", i), api.DeferCheap, time.Hour))
			}
			s.plan()
			for b.Loop() {
				s.q.Add(s.task("x", 1, 1, 1))
				if len(s.plan().Decisions) != 1 {
					b.Fatal("it does not start")
				}
				s.end("x")
			}
			if s.q.Len() != held {
				b.Fatal(s.q.Len())
			}
		})
	}
}
