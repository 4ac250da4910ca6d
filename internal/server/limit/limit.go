package limit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// Limits bound what one caller may cost. Zero values take the defaults.
type Limits struct {
	Body    int64 // bytes of a manifest; 4 MiB
	Archive int64 // bytes of a code archive; 2 GiB
	State   int64 // bytes of an uploaded rank's state; 1 TiB
	Rates
	Lives
	// Streams is how many streams a user may hold open, 128, and Pages how many requests to programs in environments; 512.
	Streams, Pages int
	// KeepAlive is between comments on an idle stream (15 s), Recheck between two looks at a
	// stream's token (2 s), Stall how long a peer may take no byte or send none (30 s).
	KeepAlive, Recheck, Stall time.Duration
	// Request is how long a usual request may take; 30 s. Uploads and streams have no such end.
	Request time.Duration
	// ShutdownGrace is how long requests may go on after the end was asked for; 10 s.
	ShutdownGrace time.Duration
	// HandOver is how long a followed log waits, after the task ended, for replicas that still
	// hand over their logs; 60 s.
	HandOver time.Duration
	// Remembered is how many callers the limiters remember; 10,000.
	Remembered int
}

// Rates bound how often somebody may come.
type Rates struct {
	// Rate and Burst are requests of a user, with all tokens; 200/s and 400.
	Rate  float64
	Burst int
	// AuthRate and AuthBurst are refused tokens per remote address; 1/s and 30.
	AuthRate  float64
	AuthBurst int
}

// Lives bound how long somebody is let in.
type Lives struct {
	// Session is how long a session lasts (7 days), Idle how long it lasts unused (12 h), Code how
	// long a sign-in code waits (5 min).
	Session, Idle, Code time.Duration
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	set(&l.Body, 4<<20)
	set(&l.Archive, 2<<30)
	set(&l.State, 1<<40)
	set(&l.Rate, 200)
	set(&l.Burst, 400)
	set(&l.AuthRate, 1)
	set(&l.AuthBurst, 30)
	set(&l.Streams, 128)
	set(&l.Pages, 512)
	set(&l.KeepAlive, 15*time.Second)
	set(&l.Recheck, 2*time.Second)
	set(&l.Stall, 30*time.Second)
	set(&l.Request, 30*time.Second)
	set(&l.ShutdownGrace, 10*time.Second)
	set(&l.HandOver, 60*time.Second)
	set(&l.Session, 7*24*time.Hour)
	set(&l.Idle, 12*time.Hour)
	set(&l.Code, 5*time.Minute)
	set(&l.Remembered, 10000)
	return l
}

func set[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// mostGreetings is a part of all that the door for SSH takes at a time, so that one address does not take them all.
const mostGreetings = 32

type Counters struct {
	Calls, Refused *Buckets
	Streams, Pages *StreamCount
	// Greetings are connections from a neighbourhood that are signing in.
	Greetings *StreamCount
	// guesses are failed sign-ins by user: at most a minute, because a stranger can cause it.
	// addresses are those by remote address.
	Guesses, Addresses *Throttle
}

func New(l Limits, c clock.Clock) *Counters {
	return &Counters{
		Calls:     &Buckets{rate: rate.Limit(l.Rate), burst: l.Burst, max: l.Remembered, clock: c},
		Refused:   &Buckets{rate: rate.Limit(l.AuthRate), burst: l.AuthBurst, max: l.Remembered, clock: c},
		Streams:   &StreamCount{max: l.Streams, held: map[string]int{}},
		Pages:     &StreamCount{max: l.Pages, held: map[string]int{}},
		Greetings: &StreamCount{max: mostGreetings, held: map[string]int{}},
		Guesses:   &Throttle{Free: 5, cap: time.Minute, max: l.Remembered, clock: c},
		Addresses: &Throttle{Free: 20, cap: 15 * time.Minute, max: l.Remembered, clock: c},
	}
}

// Buckets is a bounded map of token buckets. When it is full, buckets that are full again are
// dropped (forgetting those loses nothing), and if none is, an arbitrary one goes.
type Buckets struct {
	rate  rate.Limit
	burst int
	max   int
	clock clock.Clock
	mu    sync.Mutex
	by    map[string]*rate.Limiter
}

// Take says whether key may go on, and if not, after how long it may.
func (b *Buckets) Take(key string) (bool, time.Duration) {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.by[key]
	if !ok {
		if b.by == nil {
			b.by = map[string]*rate.Limiter{}
		}
		if len(b.by) >= b.max {
			b.sweep(now)
		}
		l = rate.NewLimiter(b.rate, b.burst)
		b.by[key] = l
	}
	if l.AllowN(now, 1) {
		return true, 0
	}
	return false, time.Duration(float64(time.Second) / float64(b.rate))
}

// Has says whether key may go on, and takes nothing.
func (b *Buckets) Has(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.by[key]
	return !ok || l.TokensAt(b.clock.Now()) >= 1
}

func (b *Buckets) sweep(now time.Time) {
	for key, l := range b.by {
		if l.TokensAt(now) >= float64(b.burst) {
			delete(b.by, key)
		}
	}
	for key := range b.by {
		if len(b.by) < b.max {
			return
		}
		delete(b.by, key)
	}
}

// StreamCount counts what each key holds open, such as the streams of a user, and lets Run wait for all.
type StreamCount struct {
	max  int
	mu   sync.Mutex
	held map[string]int
	all  sync.WaitGroup
}

func (c *StreamCount) Open(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[key] >= c.max {
		return false
	}
	c.held[key]++
	c.all.Add(1)
	return true
}

func (c *StreamCount) Close(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[key]--; c.held[key] <= 0 {
		delete(c.held, key)
	}
	c.all.Done()
}

func (c *StreamCount) Wait() { c.all.Wait() }
