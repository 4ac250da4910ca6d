package link

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/link/message"
)

// TestOrderOnce: an order that is repeated is told once a stream, another one again, and all of it to the next stream.
func TestOrderOnce(t *testing.T) {
	w := newWorld(t)
	s := w.serve("s", 1, nil)
	_, _, heard, stop := w.client(testName, w.endpoints(s.target), 0)
	order := func(g message.Generation) {
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
