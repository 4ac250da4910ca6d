package hearing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// Ears knows how long launchers have said nothing. Only time in which this server listened counts: a server that was paused, or
// that has just begun to lead, gives every launcher the re-attach window before it counts anything against one.
// Safe for concurrent use.
type Ears struct {
	clock clock.Clock
	every func() time.Duration // between two beats; it may take the hub's lock

	base   time.Time // voices are counted from here, so that a clock that is set changes nothing
	mu     sync.Mutex
	voices map[engine.Name]*Voice
	woke   time.Time // since then we have listened without a gap
	ticked time.Time // when we last knew that we run
}

// Voice is one launcher's.
type Voice struct {
	heard     atomic.Int64 // when it last said anything, in nanoseconds after the base; 0: never
	asked     time.Time    // when somebody first asked for one that was never heard
	elsewhere bool         // it is attached to another server, which listens and tells us when it goes
}

const (
	// reattach is how long launchers have to come back to a server that slept or has begun to lead; with many launchers
	// another second for each thousand.
	reattach = 20 * time.Second
	// earTick is how often we note that we run, and slept is how long we may miss to do so before we count as asleep.
	earTick = 500 * time.Millisecond
	slept   = 3 * time.Second
)

// New makes ears that have begun to listen just now; every is the time between two beats.
func New(c clock.Clock, every func() time.Duration) *Ears {
	now := c.Now()
	return &Ears{clock: c, every: every, base: now.Add(-1), voices: map[engine.Name]*Voice{}, woke: now, ticked: now}
}

// Silence is how long the replica's launcher has said nothing that it should have said; 0 while a word is not yet overdue. known is
// false where it never said anything to this leader.
func (e *Ears) Silence(name engine.Name) (silent time.Duration, known bool) {
	overdue := SilenceAfter(e.every()) // asks the hub: not under our lock
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	e.stir(now)
	v := e.voiceOf(name)
	if v.elsewhere {
		return 0, true
	}
	last := v.asked
	if at := v.heard.Load(); at != 0 {
		last, known = e.base.Add(time.Duration(at)), true
	} else if last.IsZero() {
		v.asked, last = now, now
	}
	if last.Before(e.woke) || !known {
		last = later(last, e.woke).Add(e.window())
	}
	if silent = now.Sub(last); silent <= overdue {
		return 0, known
	}
	return silent, known
}

// window is how long launchers have to come back. mu held.
func (e *Ears) window() time.Duration {
	return reattach + time.Duration(len(e.voices)/1000)*time.Second
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// voiceOf finds or makes one, mu held.
func (e *Ears) voiceOf(name engine.Name) *Voice {
	v := e.voices[name]
	if v == nil {
		v = &Voice{}
		e.voices[name] = v
	}
	return v
}

// Attend gives a launcher that attaches here the voice to note its words in.
func (e *Ears) Attend(name engine.Name) *Voice {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.voiceOf(name)
	v.elsewhere = false
	e.Hear(v)
	return v
}

// Trust says that another server listens to a launcher, or that it does not any more: it counts as heard now.
func (e *Ears) Trust(name engine.Name, elsewhere bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.voiceOf(name)
	v.elsewhere = elsewhere
	e.Hear(v)
}

// Bereave says that the server has gone that listened to a launcher: it has the re-attach window to find another.
func (e *Ears) Bereave(name engine.Name) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.voiceOf(name)
	v.elsewhere, v.asked = false, e.clock.Now()
	v.heard.Store(0)
}

// Forget drops a voice that nobody asks for any more.
func (e *Ears) Forget(name engine.Name) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.voices, name)
}

// Hear notes that a launcher said something. It takes no lock: every message does it.
func (e *Ears) Hear(v *Voice) { v.heard.Store(int64(e.clock.Now().Sub(e.base))) }

// SinceWord is how long ago a launcher that attached here said something, whatever the reason.
func (e *Ears) SinceWord(v *Voice) time.Duration {
	return e.clock.Now().Sub(e.base) - time.Duration(v.heard.Load())
}

// Wake begins to listen anew: what was heard before counts for nothing until the re-attach window is over.
func (e *Ears) Wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.woke = e.clock.Now()
	e.ticked = e.woke
}

// stir notes that we run, and whether we did not for a while. mu held.
func (e *Ears) stir(now time.Time) {
	if now.Sub(e.ticked) > slept {
		e.woke = now
	}
	e.ticked = now
}

// Listen notes now and then that we run, until ctx ends.
func (e *Ears) Listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.clock.After(earTick):
		}
		e.mu.Lock()
		e.stir(e.clock.Now())
		e.mu.Unlock()
	}
}
