package demand

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

// reporter is a gateway whose counters grow.
type reporter struct {
	name string
	load serving.ServiceLoad
	rev  serving.RevisionLoad
}

func (r *reporter) tell(d *Desk, now time.Time, requests int, busy, waiting int) []string {
	r.rev.Revision = 1
	r.rev.Requests += int64(requests)
	if r.rev.Begun == nil {
		r.rev.Begun = make([]int64, serving.LoadBuckets)
	}
	r.rev.Begun[3] += int64(requests)
	begun := append([]int64(nil), r.rev.Begun...)
	one := r.rev
	one.Begun = begun
	r.load = serving.ServiceLoad{ServiceID: "s", Busy: busy, Waiting: waiting, Revisions: []serving.RevisionLoad{one}}
	return d.Take(&serving.LoadReport{Gateway: r.name, Services: []serving.ServiceLoad{r.load}}, now)
}

// TestDesk: figures of several gateways add up, one that begins anew counts on, one that says nothing has no gauges.
func TestDesk(t *testing.T) {
	d := NewDesk()
	if d.Of("s", time.Minute, monday).Known {
		t.Error("it knows without being told")
	}
	a, b := &reporter{name: "a"}, &reporter{name: "b"}
	now := monday
	for range 60 {
		now = now.Add(time.Second)
		a.tell(d, now, 10, 2, 0)
		b.tell(d, now, 5, 1, 1)
	}
	l := d.Of("s", 30*time.Second, now)
	if !l.Known || math.Abs(l.QPS-15) > 0.6 || math.Abs(l.Concurrency-4) > 0.1 || l.Now != 4 || l.Waiting != 1 || l.Latency != 0.008 {
		t.Errorf("%+v", l)
	}
	b.rev, b.name = serving.RevisionLoad{}, "c" // killed, and another one in its place
	for range 10 {
		now = now.Add(time.Second)
		a.tell(d, now, 10, 2, 0)
		b.tell(d, now, 5, 1, 0)
	}
	if l = d.Of("s", 5*time.Second, now); l.Now != 3 || math.Abs(l.QPS-15) > 1 {
		t.Errorf("%+v", l)
	}
	if c := d.Count("s", 1, 5*time.Millisecond); c.Requests != 70*15 || c.Slow != c.Requests {
		t.Errorf("%+v", c)
	}
	if held := a.tell(d, now.Add(time.Second), 0, 0, 1); len(held) != 1 {
		t.Errorf("nobody is told that a request waits: %v", held)
	}
	if l = d.Of("s", time.Minute, now.Add(time.Minute)); l.Known || l.Now != 0 {
		t.Errorf("a minute of silence: %+v", l)
	}
}

// TestWanted: a table of what is asked and what that needs.
func TestWanted(t *testing.T) {
	scale := func(change func(*serving.ServiceAutoscale)) *serving.ServiceAutoscale {
		a := &serving.ServiceAutoscale{MinReplicas: 1, MaxReplicas: 10, Metrics: []serving.ScaleMetric{{Type: serving.MetricConcurrency, Target: 10}}, Policy: serving.ScalePolicy{Window: api.Duration(time.Minute), Down: api.Duration(time.Minute)}}
		if change != nil {
			change(a)
		}
		return a
	}
	busy := func(n float64) Load { return Load{Known: true, Concurrency: n, Now: int(n), Requests: 100, QPS: n} }
	long := monday.Add(-time.Hour)
	for name, tc := range map[string]struct {
		a      *serving.ServiceAutoscale
		s      Seen
		want   int
		reason string
	}{
		"enough":               {scale(nil), Seen{Wanted: 2, Ready: 2, Changed: long, Stable: busy(18), Panic: busy(18)}, 2, "Enough"},
		"more":                 {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: busy(31), Panic: busy(31)}, 4, "Load"},
		"a peak":               {scale(nil), Seen{Wanted: 2, Ready: 2, Changed: long, Stable: busy(5), Panic: busy(45)}, 5, "Panic"},
		"a queue that is gone": {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true, Concurrency: 60, Queue: 33, Grew: -10, Now: 27, Requests: 400, QPS: 6.7}, Panic: busy(27)}, 3, "Enough"},
		"a queue that grows":   {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true, Concurrency: 100, Queue: 70, Grew: 200, Waiting: 200, Now: 230, Requests: 600, QPS: 10}, Panic: busy(27)}, 5, "Load"},
		"nothing done yet":     {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true, Concurrency: 60, Queue: 30, Grew: 60, Waiting: 60, Now: 90}, Panic: busy(27)}, 6, "Load"},
		"a small peak":         {scale(nil), Seen{Wanted: 2, Ready: 2, Changed: long, Stable: busy(15), Panic: busy(25)}, 2, "Enough"},
		"not above the bound":  {scale(nil), Seen{Wanted: 9, Ready: 9, Changed: long, Stable: busy(500), Panic: busy(500)}, 10, "Panic"},
		"less":                 {scale(nil), Seen{Wanted: 5, Ready: 5, Changed: long, Stable: busy(11), Panic: busy(11)}, 2, "Load"},
		"less, too soon":       {scale(nil), Seen{Wanted: 5, Ready: 5, Changed: monday.Add(-time.Second), Stable: busy(11), Panic: busy(11)}, 5, "CoolDown"},
		"more, too soon":       {scale(func(a *serving.ServiceAutoscale) { a.Policy.Up = api.Duration(time.Minute) }), Seen{Wanted: 4, Ready: 4, Changed: monday.Add(-time.Second), Stable: busy(51), Panic: busy(51)}, 4, "CoolDown"},
		"at the edge":          {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: busy(19), Panic: busy(19)}, 3, "Enough"},
		"idle, not to zero":    {scale(nil), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true}, Panic: Load{Known: true}}, 1, "Load"},
		"idle, to zero":        {scale(func(a *serving.ServiceAutoscale) { a.MinReplicas = 0 }), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true}, Panic: Load{Known: true}}, 0, "Idle"},
		"from zero":            {scale(func(a *serving.ServiceAutoscale) { a.MinReplicas = 0 }), Seen{Changed: monday, Stable: Load{Known: true}, Panic: Load{Known: true, Now: 1}}, 1, "FromZero"},
		"still nobody":         {scale(func(a *serving.ServiceAutoscale) { a.MinReplicas = 0 }), Seen{Changed: long, Stable: Load{Known: true}, Panic: Load{Known: true}}, 0, "Idle"},
		"nobody reports":       {scale(nil), Seen{Wanted: 7, Ready: 7, Changed: long}, 7, "NoFigures"},
		"fewer are allowed":    {scale(nil), Seen{Wanted: 20, Ready: 20, Changed: monday, Stable: busy(500), Panic: busy(500)}, 10, "Maximum"},
		"more are asked for":   {scale(func(a *serving.ServiceAutoscale) { a.MinReplicas = 4 }), Seen{Wanted: 1, Changed: monday}, 4, "Minimum"},
		"the schedule": {scale(func(a *serving.ServiceAutoscale) {
			a.Schedule = []serving.ScaleWindow{{From: "22:00", To: "06:00", Days: []int{7}, MinReplicas: 6, MaxReplicas: 9}}
		}), Seen{Wanted: 1}, 6, "Schedule"},
		"another day's": {scale(func(a *serving.ServiceAutoscale) {
			a.Schedule = []serving.ScaleWindow{{From: "22:00", To: "06:00", Days: []int{1}, MinReplicas: 6, MaxReplicas: 9}}
		}), Seen{Wanted: 1, Stable: busy(5), Panic: busy(5)}, 1, "Enough"},
		"in another time zone": {scale(func(a *serving.ServiceAutoscale) {
			a.Schedule = []serving.ScaleWindow{{From: "08:00", To: "09:00", Days: []int{1}, TimeZone: "Asia/Shanghai", MinReplicas: 6, MaxReplicas: 9}}
		}), Seen{Wanted: 1}, 6, "Schedule"},
		"latency": {scale(func(a *serving.ServiceAutoscale) {
			a.Metrics = []serving.ScaleMetric{{Type: serving.MetricLatency, Target: 0.5}}
		}), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true, Requests: 9, Latency: 0.8, Concurrency: 1}, Panic: Load{Known: true}}, 5, "Load"},
		"the one that wants most": {scale(func(a *serving.ServiceAutoscale) {
			a.Metrics = append(a.Metrics, serving.ScaleMetric{Type: serving.MetricTokens, Target: 100}, serving.ScaleMetric{Type: serving.MetricQueue, Target: 1})
		}), Seen{Wanted: 3, Ready: 3, Changed: long, Stable: Load{Known: true, Requests: 9, Concurrency: 9, Tokens: 650, Queue: 2}, Panic: Load{Known: true}}, 7, "Load"},
	} {
		d := Wanted(tc.a, tc.s, monday.Add(15*time.Minute))
		if tc.s.Changed == monday.Add(-time.Second) || tc.s.Changed == monday {
			d = Wanted(tc.a, tc.s, monday)
		}
		if d.Wanted != tc.want || d.Reason != tc.reason || d.Message.EN == "" || d.Message.ZH == "" {
			t.Errorf("%s: %+v, want %d, %s", name, d, tc.want, tc.reason)
		}
	}
}

// TestDay plays a day of traffic (a slow tide, a lunch break, sudden peaks) through desk and judgement, with replicas that
// need 30 s to start, beside an oracle that knows the future: at every moment the fewest replicas that what is asked within the next
// 30 s needs. Little more is used, little is missing, and the direction seldom changes.
func TestDay(t *testing.T) {
	const start = 30
	rnd := rand.New(rand.NewPCG(1, 2))
	asked := make([]float64, 24*3600) // requests at once
	for i := range asked {
		hour := float64(i) / 3600
		asked[i] = 30 + 170*math.Pow(math.Sin(math.Pi*hour/24), 2) - 40*math.Exp(-math.Pow((hour-12.5)/0.4, 2))
	}
	for range 6 { // peaks that grow within a minute, last ten, and go
		at := rnd.IntN(22) * 3600
		for i := range 600 {
			asked[at+i] += 80 * min(1, float64(i)/60, float64(600-i)/60)
		}
	}
	a := &serving.ServiceAutoscale{MinReplicas: 1, MaxReplicas: 100, Metrics: []serving.ScaleMetric{{Type: serving.MetricConcurrency, Target: 9}}, Policy: serving.ScalePolicy{Window: api.Duration(time.Minute), Down: api.Duration(3 * time.Minute)}}
	d, g := NewDesk(), &reporter{name: "g"}
	wanted, changed := 4, monday
	var used, oracle, short float64
	var ready []int // when each replica answers
	for range wanted {
		ready = append(ready, 0)
	}
	direction, turns := 0, make([]int, 24)
	for i, n := range asked {
		now := monday.Add(time.Duration(i) * time.Second)
		noisy := n * (0.9 + 0.2*rnd.Float64())
		g.tell(d, now, int(noisy), int(noisy), 0)
		answer := 0
		for _, at := range ready {
			if at <= i {
				answer++
			}
		}
		if i%2 == 0 {
			got := Wanted(a, Seen{Wanted: wanted, Ready: answer, Changed: changed, Stable: d.Of("s", time.Minute, now), Panic: d.Of("s", 6*time.Second, now)}, now)
			if got.Wanted != wanted {
				way := 1
				if got.Wanted < wanted {
					way = -1
				}
				if way != direction && direction != 0 {
					turns[i/3600]++
				}
				direction, changed = way, now
				for len(ready) < got.Wanted {
					ready = append(ready, i+start)
				}
				ready = ready[:got.Wanted]
				wanted = got.Wanted
			}
		}
		most := 0.0
		for j := i; j < min(i+start, len(asked)); j++ {
			most = max(most, asked[j])
		}
		used += float64(len(ready)) / 3600
		oracle += math.Ceil(most/10) / 3600 // a replica takes ten at once; the autoscaler aims at nine
		if n > float64(answer)*10 {
			short++
		}
	}
	t.Logf("%.0f replica-hours, the oracle's %.0f; too few for %.2f %% of the day; changes of direction an hour: %v", used, oracle, 100*short/float64(len(asked)), turns)
	if used > 1.15*oracle {
		t.Errorf("%.1f replica-hours; the oracle needs %.1f", used, oracle)
	}
	if share := short / float64(len(asked)); share > 0.02 {
		t.Errorf("too few replicas for %.2f %% of the day", 100*share)
	}
	for hour, n := range turns {
		if n > 6 {
			t.Errorf("%d changes of direction in hour %d", n, hour)
		}
	}
}
