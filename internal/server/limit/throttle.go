package limit

import (
	"net/netip"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// Throttle slows down who guesses: after some free attempts each further one makes the next wait
// twice as long, up to a cap. An attempt counts when it begins, so that many at once are many;
// a good one is forgiven. It remembers a bounded number of keys, for an hour each.
type Throttle struct {
	Free  int
	cap   time.Duration
	max   int
	clock clock.Clock
	mu    sync.Mutex
	by    map[string]*strikes
}

type strikes struct {
	n           int
	last, until time.Time
}

const strikesKept = time.Hour

// Try counts an attempt, or says how long to wait before the next one counts.
func (t *Throttle) Try(key string) time.Duration {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.by[key]
	if s == nil {
		if t.by == nil {
			t.by = map[string]*strikes{}
		}
		t.room(now)
		s = &strikes{}
		t.by[key] = s
	}
	if wait := s.until.Sub(now); wait > 0 {
		return wait
	}
	if now.Sub(s.last) > strikesKept {
		s.n = 0
	}
	s.n++
	s.last = now
	if over := s.n - t.Free; over >= 0 {
		s.until = now.Add(min(time.Second<<min(over, 20), t.cap))
	}
	return 0
}

// Forgive takes an attempt back; all of them when whole.
func (t *Throttle) Forgive(key string, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.by[key]
	switch {
	case s == nil:
	case whole || s.n <= 1:
		delete(t.by, key)
	default:
		s.n--
		s.until = time.Time{}
	}
}

// room keeps the map bounded: first the forgotten go, then any.
func (t *Throttle) room(now time.Time) {
	if len(t.by) < t.max {
		return
	}
	for key, s := range t.by {
		if now.Sub(s.last) > strikesKept {
			delete(t.by, key)
		}
	}
	for key := range t.by {
		if len(t.by) < t.max {
			return
		}
		delete(t.by, key)
	}
}

// Neighbourhood is what one guesser can easily have many of: an IPv4 address, or an IPv6 /64.
func Neighbourhood(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Unmap().Is4() {
		return ip
	}
	p, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return ip
	}
	return p.String()
}
