package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// stat adds up while the world runs.
type stat struct {
	capacity  float64 // devices
	running   float64 // devices in use
	waiting   int
	jobs      int // running
	used      float64
	cost      map[string]float64 // by queue
	broken    []breakdown
	evictions int
	curve     curve
	zones     map[string]*api.Zone
}

func newStat(cfg Config) *stat {
	s := &stat{cost: map[string]float64{}, zones: map[string]*api.Zone{}}
	for _, n := range cfg.Nodes {
		s.capacity += float64(len(n.Spec.Devices))
	}
	for _, z := range cfg.Zones {
		s.zones[z.Meta.Name] = z
	}
	return s
}

func (s *stat) waits(n int) { s.waiting += n }

func (s *stat) runs(j *Job, sign int) {
	s.running += float64(sign) * float64(j.Devices()) / 1000
	s.jobs += sign
}

// advance lets time pass with nothing changing.
func (s *stat) advance(from, to time.Duration) {
	if to > from {
		s.used += s.running * (to - from).Hours()
		s.curve.add(from, to, s.running, float64(s.waiting))
	}
}

// pay charges a stay by the zones' prices.
func (s *stat) pay(l *life, stay time.Duration, nodes map[uint32]*api.Node) {
	for i, slots := range l.at {
		r := l.job.Task.Spec.Roles[i].Resources
		for _, slot := range slots {
			z := s.zones[nodes[slot.Node].Spec.Zone]
			if z == nil {
				continue
			}
			p := z.Spec.Price
			hour := p.Device(r.Accelerators.Type)*float64(r.Accelerators.Count) + p.Core()*float64(r.CPU)/1000 + p.MemoryGBHour*float64(r.Memory)/(1<<30)
			s.cost[l.job.Task.Spec.Queue] += hour * stay.Hours()
		}
	}
}

// curve is a step function thinned as it grows: never more than maxPoints spans.
type curve struct {
	step  time.Duration
	spans []span
}

type span struct {
	Used, Waiting float64 // means over the span
	weight        float64
}

const maxPoints = 512

func (c *curve) add(from, to time.Duration, used, waiting float64) {
	if c.step == 0 {
		c.step = time.Minute
	}
	for to > c.step*maxPoints {
		c.thin()
	}
	for at := from; at < to; {
		i := int(at / c.step)
		end := min(to, time.Duration(i+1)*c.step)
		for len(c.spans) <= i {
			c.spans = append(c.spans, span{})
		}
		s, d := &c.spans[i], (end - at).Seconds()
		s.Used = (s.Used*s.weight + used*d) / (s.weight + d)
		s.Waiting = (s.Waiting*s.weight + waiting*d) / (s.weight + d)
		s.weight += d
		at = end
	}
}

// thin doubles the step.
func (c *curve) thin() {
	half := c.spans[:0]
	for i := 0; i < len(c.spans); i += 2 {
		a := c.spans[i]
		if i+1 < len(c.spans) {
			b := c.spans[i+1]
			if w := a.weight + b.weight; w > 0 {
				a.Used = (a.Used*a.weight + b.Used*b.weight) / w
				a.Waiting = (a.Waiting*a.weight + b.Waiting*b.weight) / w
				a.weight = w
			}
		}
		half = append(half, a)
	}
	c.spans, c.step = half, 2*c.step
}

// Report is what came out.
type Report struct {
	Trace       string
	Seed        uint64
	Nodes       int
	Devices     float64
	Jobs        int
	Ended       int
	Never       int // could not start before the trace's end
	Makespan    time.Duration
	Utilisation float64 // of the devices over the makespan
	Wait, JCT   Spread
	BigWait     Spread // of jobs of 8 and more devices
	Fairness    float64
	Stops       int           // preemptions and faults that hit a running job
	Faults      int           // of nodes
	Evictions   int           // places taken away for others
	Lost        float64       // device-hours done twice
	DeviceHours float64       // in use
	Missed      int           // deadlines
	Due         int           // jobs with one
	Cost        float64       // in the zones' currency
	Step        time.Duration // of the curves
	Used        []float64
	Waiting     []float64
	Lives       []Life
}

// Life is one job's.
type Life struct {
	ID, Name, User, Queue      string
	Devices                    float64
	Submit, Start, End, Length time.Duration // Start and End are -1 when it never did
	Wait                       time.Duration
	Stops                      int
}

// Spread describes a set of durations.
type Spread struct {
	Count               int
	Mean, P50, P99, Max time.Duration
}

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	var sum float64
	for _, d := range all {
		sum += float64(d)
	}
	at := func(q float64) time.Duration { return all[int(math.Ceil(q*float64(len(all))))-1] }
	return Spread{Count: len(all), Mean: time.Duration(sum / float64(len(all))), P50: at(0.5), P99: at(0.99), Max: all[len(all)-1]}
}

func (w *world) report() *Report {
	r := &Report{
		Trace: w.cfg.Trace.Name, Seed: w.cfg.Seed, Nodes: len(w.cfg.Nodes), Devices: w.stat.capacity, Jobs: len(w.jobs),
		Makespan: w.now, Faults: len(w.stat.broken), Evictions: w.stat.evictions, DeviceHours: w.stat.used, Step: w.stat.curve.step,
	}
	var waits, jcts, big []time.Duration
	for i := range w.cfg.Trace.Jobs {
		l := w.jobs[w.cfg.Trace.Jobs[i].Task.Meta.ID]
		j := l.job
		devices := float64(j.Devices()) / 1000
		r.Stops += l.stops
		r.Lost += l.lost.Hours() * devices
		if j.Due > 0 {
			r.Due++
			if l.ended < 0 || l.ended > j.Due {
				r.Missed++
			}
		}
		if l.ended >= 0 {
			r.Ended++
			waits, jcts = append(waits, l.waiting), append(jcts, l.ended-j.At)
			if devices >= 8 {
				big = append(big, l.waiting)
			}
		} else if l.first < 0 {
			r.Never++
		}
		r.Lives = append(r.Lives, Life{
			ID: j.Task.Meta.ID, Name: j.Task.Meta.Name, User: j.Task.Meta.Owner, Queue: j.Task.Spec.Queue, Devices: devices,
			Submit: j.At, Start: l.first, End: l.ended, Length: j.Length, Wait: l.waiting, Stops: l.stops,
		})
	}
	r.Wait, r.JCT, r.BigWait = spread(waits), spread(jcts), spread(big)
	if h := w.now.Hours() * w.stat.capacity; h > 0 {
		r.Utilisation = w.stat.used / h
	}
	queues := make([]string, 0, len(w.stat.cost))
	for q := range w.stat.cost {
		queues = append(queues, q)
	}
	slices.Sort(queues)
	for _, q := range queues {
		r.Cost += w.stat.cost[q]
	}
	for _, s := range w.stat.curve.spans {
		r.Used, r.Waiting = append(r.Used, s.Used), append(r.Waiting, s.Waiting)
	}
	r.Fairness = r.fairness()
	return r
}

// fairness is Jain's index over users of how much longer than alone their jobs took: 1 is equal.
func (r *Report) fairness() float64 {
	type sums struct{ slow, n float64 }
	by := map[string]*sums{}
	for _, l := range r.Lives {
		if l.End < 0 || l.Length <= 0 {
			continue
		}
		s := by[l.User]
		if s == nil {
			s = &sums{}
			by[l.User] = s
		}
		s.slow += float64(l.End-l.Submit) / float64(max(l.Length, 10*time.Minute)) // bounded slowdown
		s.n++
	}
	users := make([]string, 0, len(by))
	for u := range by {
		users = append(users, u)
	}
	slices.SortFunc(users, cmp.Compare[string])
	var sum, squares float64
	for _, u := range users {
		x := by[u].n / by[u].slow
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(users)) * squares)
}
