package accept

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// TestServe: one too many is closed at once, and when Serve has returned every handler has ended.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	taken, ended := make(chan struct{}), make(chan struct{})
	over := make(chan error, 1)
	go func() {
		over <- Serve(ctx, l, 1, nil, func(ctx context.Context, conn net.Conn) {
			defer close(ended)
			defer conn.Close()
			close(taken)
			<-ctx.Done()
		})
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	<-taken
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) {
		t.Errorf("one too many reads %v", err)
	}
	end()
	if err := <-over; err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Serve returned before its handler")
	}
}

// TestServeSaysWhoClosedIt: a listener that somebody else closes is an error.
func TestServeSaysWhoClosedIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, 1, nil, func(context.Context, net.Conn) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
