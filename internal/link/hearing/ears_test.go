package hearing

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
)

func TestBeatPace(t *testing.T) {
	for launchers, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 4000: 2 * time.Second, 16384: 8192 * time.Millisecond, 1 << 30: time.Minute} {
		if got := BeatPace(launchers); got != want {
			t.Errorf("%d launchers: every %v, want %v", launchers, got, want)
		}
	}
	if got := SilenceAfter(BeatEvery); got != SilenceLimit {
		t.Errorf("silence of a few: %v", got)
	}
	if got := SilenceAfter(8 * time.Second); got != 20*time.Second {
		t.Errorf("silence of many: %v", got)
	}
}

// TestSilence: what a launcher did not say counts from its last word; what it could not say while we slept, or before we led,
// counts from the end of the re-attach window; another server's launchers are its to listen to.
func TestSilence(t *testing.T) {
	c := clock.NewFake(time.Unix(1000, 0))
	e := New(c, func() time.Duration { return BeatEvery })
	pass := func(d time.Duration) {
		for ; d > 0; d -= earTick { // as listen does
			c.Advance(min(d, earTick))
			e.mu.Lock()
			e.stir(c.Now())
			e.mu.Unlock()
		}
	}
	says := func(what string, want time.Duration, known bool) {
		t.Helper()
		if got, heard := e.Silence("a"); got != want || heard != known {
			t.Errorf("%s: silent for %s, heard %v; want %s, %v", what, got, heard, want, known)
		}
	}
	says("never heard", 0, false)
	pass(reattach)
	says("never heard, and the window is over", 0, false)
	pass(12 * time.Second)
	says("never heard for long", 12*time.Second, false)
	v := e.Attend("a")
	says("attached", 0, true)
	pass(4 * time.Second)
	says("a word is not yet overdue", 0, true)
	pass(8 * time.Second)
	says("it says nothing", 12*time.Second, true)
	e.Hear(v)
	says("it is back", 0, true)

	c.Advance(time.Minute) // we were stopped
	says("we slept", 0, true)
	pass(reattach)
	says("the window", 0, true)
	pass(11 * time.Second)
	says("it did not come back", 11*time.Second, true)
	e.Hear(v)
	pass(6 * time.Second)
	says("it did, and went", 6*time.Second, true)

	e.Wake() // a leader of another epoch
	says("a new leader", 0, true)
	pass(reattach + 7*time.Second)
	says("not heard by the new leader", 7*time.Second, true)

	e.Trust("a", true)
	pass(time.Hour)
	says("another server listens", 0, true)
	e.Trust("a", false)
	pass(10 * time.Second)
	says("the other server says that it is gone", 10*time.Second, true)
	e.Trust("a", true)
	e.Bereave("a")
	pass(reattach + 9*time.Second)
	says("the other server is gone", 9*time.Second, false)
}
