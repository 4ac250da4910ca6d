package link

import (
	"testing"
	"time"
)

func TestBeatPace(t *testing.T) {
	for launchers, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 4000: 2 * time.Second, 16384: 8192 * time.Millisecond, 1 << 30: time.Minute} {
		if got := beatPace(launchers); got != want {
			t.Errorf("%d launchers: every %v, want %v", launchers, got, want)
		}
	}
	if got := silenceAfter(beatEvery); got != silenceLimit {
		t.Errorf("silence of a few: %v", got)
	}
	if got := silenceAfter(8 * time.Second); got != 20*time.Second {
		t.Errorf("silence of many: %v", got)
	}
}

// TestOrderOnce: an order that is repeated is told once a stream, another one again, and all of it to the next stream.
func TestOrderOnce(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	_, _, heard, stop := w.client(testName, w.endpoints(s.target), 0)
	order := func(g Generation) {
		t.Helper()
		eventually(t, "ordered", func() bool { return s.hub.Go(testName, 1, g) == nil })
	}
	for range 10 {
		order(first)
	}
	second := first
	second.Number = 2
	order(second)
	eventually(t, "the second is heard", func() bool {
		heard.mu.Lock()
		defer heard.mu.Unlock()
		return heard.last.Number == 2
	})
	if n, _ := heard.heard(); n > 2 { // the first may be overtaken
		t.Errorf("told %d times", n)
	}
	stop()
	eventually(t, "gone", func() bool { return !s.hub.Attached(testName) })
	_, _, again, _ := w.client(testName, w.endpoints(s.target), 0)
	order(second)
	eventually(t, "the next stream is told", func() bool { n, _ := again.heard(); return n == 1 })
}
