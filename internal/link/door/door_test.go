package door

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// TestDoorWidth: who says nothing is not in the way of others for ever, and who spoke makes room at once.
func TestDoorWidth(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := New(inner, 30*time.Second, 2*time.Second)
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
	d := New(inner, 30*time.Second, 2*time.Second)
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
