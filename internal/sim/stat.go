package sim

import (
	"math"
	"math/bits"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// stat adds up while the world runs.
type stat struct {
	begin    time.Time
	capacity float64 // devices
	running  float64 // devices in use
	waiting  int
	used     float64
	cost     map[string]float64 // by queue
	broken   []breakdown
	Asked
	curve curve
	zones map[string]*cost.Zone
	fair  *fairness
}

func newStat(cfg Config) *stat {
	s := &stat{begin: cfg.Begin, cost: map[string]float64{}, zones: map[string]*cost.Zone{}, fair: newFairness(cfg)}
	for _, n := range cfg.Nodes {
		s.capacity += float64(len(n.Spec.Devices))
	}
	for _, z := range cfg.Zones {
		s.zones[z.Meta.Name] = cost.ZoneOf(z)
	}
	return s
}

// waits says that a job begins to wait, or with -1 no longer does.
func (s *stat) waits(j *Job, sign int) {
	s.waiting += sign
	s.fair.wants(j, sign)
}

// runs says that a job has the devices it stands on, or with -1 no longer has.
func (s *stat) runs(l *life, sign int) {
	n := float64(sign) * float64(l.devices()) / 1000
	s.running += n
	s.fair.has(l.job, n)
}

// advance lets time pass with nothing changing.
func (s *stat) advance(from, to time.Duration) {
	if to > from {
		s.used += s.running * (to - from).Hours()
		now := span{Used: s.running, Waiting: float64(s.waiting), weight: (to - from).Seconds(), Fair: 1}
		if index, several := s.fair.index(s.capacity); several {
			now.Fair, now.several = index, now.weight
		}
		s.curve.add(from, to, now)
	}
}

// pay charges a stay by the zones' price books, as the preview does.
func (s *stat) pay(l *life, from, to time.Duration, nodes map[uint32]*api.Node) {
	spec := &l.job.Task.Spec
	for i, slots := range l.at {
		r := spec.Roles[i].Resources
		var parts []cost.Part // a replica each of what they have in common
		for _, slot := range slots {
			n := nodes[slot.Node]
			p := cost.Part{Zone: n.Spec.Zone}
			if slot.Devices != 0 {
				p.DeviceType = n.Spec.Devices[bits.TrailingZeros64(slot.Devices)].Type
			}
			k := slices.IndexFunc(parts, func(o cost.Part) bool { return o.Zone == p.Zone && o.DeviceType == p.DeviceType })
			if k < 0 {
				k, parts = len(parts), append(parts, p)
			}
			parts[k].Replicas++
		}
		for _, p := range parts {
			z := s.zones[p.Zone]
			if z == nil {
				continue
			}
			p.CPU, p.Memory = r.CPU*api.MilliCPU(p.Replicas), r.Memory*api.Bytes(p.Replicas)
			p.Thousandths = int64(p.Replicas*r.Accelerators.Count) * r.Accelerators.Share.Of()
			s.cost[spec.Queue] += z.Daily(p, spec.Preemptible).Over(s.begin.Add(from), s.begin.Add(to)).Nano().Float()
		}
	}
}

// curve is a step function thinned as it grows: never more than maxPoints spans.
type curve struct {
	step  time.Duration
	spans []span
}

// span is the means over a stretch of time.
type span struct {
	Used, Waiting float64
	Fair          float64 // over the part of it in which several queues wanted something
	weight        float64 // seconds
	several       float64 // of them with several queues
}

// with adds another stretch.
func (a span) with(b span) span {
	mean := func(x, of, y, by float64) float64 { return (x*of + y*by) / max(of+by, 1e-9) }
	if a.several+b.several > 0 {
		a.Fair = mean(a.Fair, a.several, b.Fair, b.several)
	} else {
		a.Fair = 1
	}
	a.Used, a.Waiting = mean(a.Used, a.weight, b.Used, b.weight), mean(a.Waiting, a.weight, b.Waiting, b.weight)
	a.weight, a.several = a.weight+b.weight, a.several+b.several
	return a
}

const maxPoints = 512

func (c *curve) add(from, to time.Duration, s span) {
	if c.step == 0 {
		c.step = time.Minute
	}
	for to > c.step*maxPoints {
		c.thin()
	}
	whole := s.weight
	for at := from; at < to; {
		i := int(at / c.step)
		end := min(to, time.Duration(i+1)*c.step)
		for len(c.spans) <= i {
			c.spans = append(c.spans, span{Fair: 1})
		}
		part := s
		part.weight = (end - at).Seconds()
		part.several *= part.weight / whole
		c.spans[i] = c.spans[i].with(part)
		at = end
	}
}

// thin doubles the step.
func (c *curve) thin() {
	half := c.spans[:0]
	for i := 0; i < len(c.spans); i += 2 {
		a := c.spans[i]
		if i+1 < len(c.spans) {
			a = a.with(c.spans[i+1])
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
	BigWait     Spread  // of jobs of 8 and more devices
	Fairness    float64 // of queues, mean over the time in which several wanted something; 1 is equal
	Slowdowns   float64 // of users: Jain's index of how much longer than alone their jobs took
	Stops       int     // preemptions and faults that hit a running job
	Faults      int     // of nodes
	Asked
	Lost        float64       // device-hours done twice
	DeviceHours float64       // in use
	Missed      int           // deadlines
	Due         int           // jobs with one
	Cost        float64       // in the zones' currency
	Step        time.Duration // of the curves
	Used        []float64
	Waiting     []float64
	Fair        []float64
	Lives       []Life
}

// Asked counts what the planner asked of jobs that ran.
type Asked struct {
	Evictions int // places taken away for others
	Resizes   int // of elastic gangs
	Moves     int // to another place at once, so that others found room
}

// Life is one job's.
type Life struct {
	ID, Name, User, Queue      string
	Devices                    float64
	Submit, Start, End, Length time.Duration // Start and End are never when it did not
	Wait                       time.Duration
	Stops                      int
}

// Spread describes a set of durations.
type Spread struct {
	Count                    int
	Mean, P50, P90, P99, Max time.Duration
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
	return Spread{Count: len(all), Mean: time.Duration(sum / float64(len(all))), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: all[len(all)-1]}
}

func (w *world) report() *Report {
	r := &Report{
		Trace: w.cfg.Trace.Name, Seed: w.cfg.Seed, Nodes: len(w.cfg.Nodes), Devices: w.stat.capacity, Jobs: len(w.jobs),
		Makespan: w.now, Faults: len(w.stat.broken), Asked: w.stat.Asked, DeviceHours: w.stat.used, Step: w.stat.curve.step,
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
			if l.ended == never || l.ended > j.Due {
				r.Missed++
			}
		}
		if l.ended != never {
			r.Ended++
			waits, jcts = append(waits, l.waiting), append(jcts, l.ended-j.At)
			if devices >= 8 {
				big = append(big, l.waiting)
			}
		} else if l.first == never {
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
	var all span
	for _, s := range w.stat.curve.spans {
		r.Used, r.Waiting, r.Fair = append(r.Used, s.Used), append(r.Waiting, s.Waiting), append(r.Fair, s.Fair)
		all = all.with(s)
	}
	r.Fairness, r.Slowdowns = all.Fair, r.slowdowns()
	return r
}
