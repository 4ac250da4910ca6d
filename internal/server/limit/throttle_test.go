package limit

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// shiftedClock goes on when it is told to.
type shiftedClock struct{ now time.Time }

func (c *shiftedClock) Now() time.Time                       { return c.now }
func (c *shiftedClock) After(time.Duration) <-chan time.Time { return nil }
func (c *shiftedClock) forward(d time.Duration)              { c.now = c.now.Add(d) }

// TestThrottle: each further guess waits longer, up to the cap; what is remembered is bounded.
func TestThrottle(t *testing.T) {
	clock := &shiftedClock{now: time.Unix(1000, 0)}
	th := &Throttle{Free: 3, cap: time.Minute, max: 100, clock: clock}
	var waits []time.Duration
	for range 12 {
		clock.forward(th.Try("x"))
		wait := th.Try("x")
		for wait == 0 {
			wait = th.Try("x")
		}
		waits = append(waits, wait.Round(time.Second))
	}
	if !slices.IsSorted(waits) || waits[0] != time.Second || waits[len(waits)-1] != time.Minute {
		t.Errorf("%v", waits)
	}
	for i := range 1000 {
		th.Try(fmt.Sprint(i))
	}
	if len(th.by) > 100 {
		t.Errorf("%d are remembered", len(th.by))
	}
	for ip, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::2%eth0": "2001:db8::/64", "?": "?"} {
		if got := Neighbourhood(ip); got != want {
			t.Errorf("%s: %s", ip, got)
		}
	}
}
