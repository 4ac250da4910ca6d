package demand

import (
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

const (
	// remember is how long samples are kept: the longest window.
	remember = 10 * time.Minute
	// sampleEvery is how far samples are apart at least.
	sampleEvery = time.Second
	// freshFor is how long a gateway's gauges count after its last report.
	freshFor = 5 * time.Second
	// forgetAfter is when a gateway that says nothing is forgotten; what it counted stays.
	forgetAfter = time.Hour
)

// Desk takes what gateways report. Safe for concurrent use.
type Desk struct {
	mu       sync.Mutex
	services map[string]*record // by id
	heard    time.Time          // the last report of all
}

// record is what is known of one service.
type record struct {
	gateways  map[string]*gateway
	revisions map[int]*total
	samples   []sample // oldest first
	uses      uses     // of members of replicas; nil: nobody looks at them
	touched   time.Time
}

// gateway is what one gateway said last of a service.
type gateway struct {
	at        time.Time
	load      serving.ServiceLoad
	revisions map[int]serving.RevisionLoad
}

type total struct {
	requests, errors, tokens int64
	begun                    [serving.LoadBuckets]int64
}

// sample is one second.
type sample struct {
	at                       time.Time
	busy, waiting            int
	requests, errors, tokens int64
	begun                    [serving.LoadBuckets]int64
}

// NewDesk makes a desk that knows nothing.
func NewDesk() *Desk { return &Desk{services: map[string]*record{}} }

// Take counts a report. It gives the services of which a request waits that nobody works on.
func (d *Desk) Take(r *serving.LoadReport, now time.Time) (held []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = now
	for i := range r.Services {
		l := &r.Services[i]
		s := d.of(l.ServiceID)
		s.take(r.Gateway, l, now)
		if l.Waiting > 0 && l.Busy == 0 {
			held = append(held, l.ServiceID)
		}
	}
	for id, s := range d.services {
		if now.Sub(s.touched) > forgetAfter {
			delete(d.services, id)
		}
	}
	return held
}

// of is what is known of a service, from now on. mu held.
func (d *Desk) of(id string) *record {
	s := d.services[id]
	if s == nil {
		s = &record{gateways: map[string]*gateway{}, revisions: map[int]*total{}}
		d.services[id] = s
	}
	return s
}

func (s *record) take(name string, l *serving.ServiceLoad, now time.Time) {
	g := s.gateways[name]
	if g == nil {
		g = &gateway{revisions: map[int]serving.RevisionLoad{}}
		s.gateways[name] = g
	}
	for _, next := range l.Revisions {
		was := g.revisions[next.Revision]
		if next.Requests < was.Requests { // it counts from zero again
			was = serving.RevisionLoad{}
		}
		t := s.revisions[next.Revision]
		if t == nil {
			t = &total{}
			s.revisions[next.Revision] = t
		}
		t.requests += next.Requests - was.Requests
		t.errors += max(next.Errors-was.Errors, 0)
		t.tokens += max(next.Tokens-was.Tokens, 0)
		for i := range min(len(next.Begun), serving.LoadBuckets) {
			n := next.Begun[i]
			if i < len(was.Begun) {
				n -= was.Begun[i]
			}
			t.begun[i] += max(n, 0)
		}
		g.revisions[next.Revision] = next
	}
	g.at, g.load, s.touched = now, *l, now
	for name, g := range s.gateways {
		if now.Sub(g.at) > forgetAfter {
			delete(s.gateways, name)
		}
	}
	s.sample(now)
}

// sample keeps how things stand, once a second.
func (s *record) sample(now time.Time) {
	next := sample{at: now}
	for _, g := range s.gateways {
		if now.Sub(g.at) < freshFor {
			next.busy += g.load.Busy
			next.waiting += g.load.Waiting
		}
	}
	for _, t := range s.revisions {
		next.requests += t.requests
		next.errors += t.errors
		next.tokens += t.tokens
		for i, n := range t.begun {
			next.begun[i] += n
		}
	}
	if n := len(s.samples); n > 0 && now.Sub(s.samples[n-1].at) < sampleEvery*9/10 {
		next.at = s.samples[n-1].at
		next.busy, next.waiting = max(next.busy, s.samples[n-1].busy), max(next.waiting, s.samples[n-1].waiting)
		s.samples[n-1] = next
		return
	}
	old := 0
	for old < len(s.samples) && now.Sub(s.samples[old].at) > remember {
		old++
	}
	s.samples = append(s.samples[old:], next)
}

// Load is what was asked within a time.
type Load struct {
	Known       bool    // somebody reports
	Now         int     // requests that are worked on or wait
	Waiting     int     // of them
	Grew        int     // how many more wait than when the window began
	Concurrency float64 // mean
	Queue       float64 // mean of those that wait
	QPS, Tokens float64 // a second
	Latency     float64 // seconds until 95 of 100 answers had begun; 0: there were none
	Requests    int64
	Errors      int64
	// Cores and Devices are how much of what they have replicas use, a mean from 0 to 1 and more, where that is known.
	Cores, Devices       float64
	HasCores, HasDevices bool
}

// Of is the load of a service in the window before now.
func (d *Desk) Of(id string, window time.Duration, now time.Time) Load {
	d.mu.Lock()
	defer d.mu.Unlock()
	var l Load
	s := d.services[id]
	l.Known = now.Sub(d.heard) < freshFor
	if s == nil {
		return l
	}
	l.Cores, l.Devices, l.HasCores, l.HasDevices = s.uses.share(window, now)
	if len(s.samples) == 0 {
		return l
	}
	last := &s.samples[len(s.samples)-1]
	if now.Sub(last.at) < freshFor {
		l.Now, l.Waiting = last.busy+last.waiting, last.waiting
	}
	first, n := last, 0
	for i := len(s.samples) - 1; i >= 0 && now.Sub(s.samples[i].at) <= window; i-- {
		first = &s.samples[i]
		l.Concurrency += float64(first.busy + first.waiting)
		l.Queue += float64(first.waiting)
		n++
	}
	if n == 0 {
		return l
	}
	l.Concurrency /= float64(n)
	l.Grew = last.waiting - first.waiting
	l.Queue /= float64(n)
	base := sample{}
	if i := len(s.samples) - n - 1; i >= 0 { // what was counted before the window
		base = s.samples[i]
	} else {
		base = *first
	}
	seconds := max(now.Sub(base.at).Seconds(), 1)
	l.Requests, l.Errors = last.requests-base.requests, last.errors-base.errors
	l.QPS, l.Tokens = float64(l.Requests)/seconds, float64(last.tokens-base.tokens)/seconds
	var begun [serving.LoadBuckets]int64
	for i := range begun {
		begun[i] = last.begun[i] - base.begun[i]
	}
	l.Latency = serving.Quantile(begun[:], 0.95).Seconds()
	return l
}

// Count is what a revision has answered so far; slow are answers that began later than the bound (0: none are).
func (d *Desk) Count(id string, revision int, bound time.Duration) serving.CanaryCount {
	d.mu.Lock()
	defer d.mu.Unlock()
	var c serving.CanaryCount
	s := d.services[id]
	if s == nil || s.revisions[revision] == nil {
		return c
	}
	t := s.revisions[revision]
	c.Requests, c.Errors = t.requests, t.errors
	for i, n := range t.begun {
		if bound > 0 && serving.LoadBound(i) > bound {
			c.Slow += n
		}
	}
	return c
}
