package link

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// slowWay is a proxy that holds every piece back for a while, in both directions.
func slowWay(t *testing.T, to string, delay time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { in.Close(); out.Close() })
			wg.Go(func() { late(out, in, delay) })
			wg.Go(func() { late(in, out, delay) })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); wg.Wait() })
	return l.Addr().String()
}

// late passes on what it reads, each piece after the delay.
func late(to io.WriteCloser, from io.Reader, delay time.Duration) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		timer := time.NewTimer(delay)
		<-timer.C
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestPing: a follower and a leader answer alike, with their zone, and a slow way is seen.
func TestPing(t *testing.T) {
	w := newWorld(t)
	c := w.cluster(3)
	c.lead(0, 7)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range c.list[:2] {
		zone, trip, err := c.list[2].peers.Ping(ctx, s.addr)
		if err != nil || trip <= 0 || zone != "zone of "+s.addr {
			t.Errorf("%q after %s: %v", zone, trip, err)
		}
	}
	const delay = 30 * time.Millisecond
	if _, trip, err := c.list[2].peers.Ping(ctx, slowWay(t, c.list[0].addr, delay)); err != nil || trip < 2*delay {
		t.Errorf("%s there and %s back took %s: %v", delay, delay, trip, err)
	}
	if got := c.list[2].peers.Addresses(); len(got) != 2 {
		t.Errorf("the others are %v", got)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := c.list[2].peers.Ping(gone, c.list[0].addr); err == nil {
		t.Error("an answer after the end")
	}
}
