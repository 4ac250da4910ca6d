// Package clock is where time comes from.
//
// Place: foundation. Promise: loops take a Clock, judgement takes a now; so the same code runs
// on the wall clock, in a test and in the simulator. Enemies: time.Now in a package that decides.
package clock

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Clock gives the time and wakes people up. Safe for concurrent use.
type Clock interface {
	Now() time.Time
	// After fires once, d from now; at once when d <= 0. The channel has room for the one value.
	After(d time.Duration) <-chan time.Time
}

// Real is the wall clock.
var Real Clock = real{}

type real struct{}

func (real) Now() time.Time                         { return time.Now() }
func (real) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Upped is a clock that also knows how long its machine has been up, which nobody sets: a wall clock that was set is known by it.
type Upped interface {
	// Up is that, and in which boot; "": not known.
	Up() (boot string, up time.Duration)
}

// Up asks a clock that knows; "": it does not.
func Up(c Clock) (boot string, up time.Duration) {
	if c, ok := c.(Upped); ok {
		return c.Up()
	}
	return "", 0
}

// booted is what the kernel said when it was first asked; from then on the process's own monotonic clock counts.
type booted struct {
	id    string
	up    time.Duration
	asked time.Time
}

var boot = sync.OnceValue(func() booted {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return booted{}
	}
	raw, err := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(raw), " ")
	up, bad := strconv.ParseFloat(seconds, 64)
	if err != nil || bad != nil {
		return booted{}
	}
	return booted{strings.TrimSpace(string(id)), time.Duration(up * float64(time.Second)), time.Now()}
})

func (real) Up() (string, time.Duration) {
	b := boot()
	if b.id == "" {
		return "", 0
	}
	return b.id, b.up + time.Since(b.asked)
}

// Fake is a clock that stands still until told to move.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	waiting []waiter
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

// NewFake starts a fake clock at the given time.
func NewFake(start time.Time) *Fake { return &Fake{now: start} }

// Now is the fake time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// After fires when Advance has moved the clock past d.
func (f *Fake) After(d time.Duration) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- f.now
		return ch
	}
	f.waiting = append(f.waiting, waiter{f.now.Add(d), ch})
	sort.SliceStable(f.waiting, func(i, j int) bool { return f.waiting[i].at.Before(f.waiting[j].at) })
	return ch
}

// Advance moves the clock and fires what has come due, in order.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	n := 0
	for n < len(f.waiting) && !f.waiting[n].at.After(f.now) {
		f.waiting[n].ch <- f.waiting[n].at
		n++
	}
	f.waiting = f.waiting[n:]
}
