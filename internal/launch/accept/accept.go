package accept

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// All serves everybody who connects until ctx ends, so many at a time; others are turned away. It
// returns when all are served, and expects that the end of ctx closes the listener.
func All(ctx context.Context, l net.Listener, most int, log *slog.Logger, serve func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	gate := make(chan struct{}, most)
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			log.Warn("somebody could not connect", "at", l.Addr(), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case gate <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-gate }()
			serve(conn)
		})
	}
}
