package link

import (
	"errors"
	"net"
	"sync"
	"testing"
)

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

// TestDoorWidth: who says nothing is not in the way of others for ever, and who spoke makes room at once.
func TestDoorWidth(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(inner)
	defer d.Close()
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range 2*doorWidth + 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := d.Accept() // never waits
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if i%2 == 0 { // has a turn, and says nothing
			readers.Go(func() { _, _ = s.Read(make([]byte, 1)) })
			continue
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(d.turns); got > doorWidth {
		t.Errorf("%d have their turn", got)
	}
}

// TestDoorLeft: who is hung up on while it waits for its turn is told so.
func TestDoorLeft(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(inner)
	defer d.Close()
	for range doorWidth {
		d.turns <- struct{}{}
	}
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	s.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
