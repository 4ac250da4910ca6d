// Package accept takes connections of a listener, at most so many at once.
//
// Place: foundation. Promise: when Serve has returned the listener is closed and every handler has ended; a connection too many is closed at once, and an
// accept that fails for want of files is tried again. Enemies: a peer that opens connections without end, a handler that outlives its listener.
package accept

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// pause is after an accept that failed: too many files, most of the time.
const pause = 100 * time.Millisecond

// Serve hands connections to handle, each on a goroutine of its own, until ctx ends: then it is nil. It is net.ErrClosed where somebody else closed l.
// failed is told of every accept that failed, and may be nil.
func Serve(ctx context.Context, l net.Listener, most int, failed func(error), handle func(context.Context, net.Conn)) error {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	room := make(chan struct{}, most)
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			if failed != nil {
				failed(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-room }()
			handle(ctx, conn)
		})
	}
}
