package stream

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Hold keeps looking at the caller of a connection that is no answer any more, such as a WebSocket. The context that it gives ends, and its
// cause says why, when the caller is no longer let in, when still refuses, or with the server. The caller must call end. still is asked
// every now and then, with the caller as it is known then.
func (s *Streams) Hold(ctx context.Context, c *rest.Call, still func(ctx context.Context, who *access.Caller) error) (held context.Context, end func(), err error) {
	key := c.Who.Payer()
	if !s.counts.Open(key) {
		return nil, nil, refuse.TooMany("TooManyStreams", 5*time.Second, fault.T(
			"You hold %d streams open already, with all your tokens and sessions together.", "您已打开 %d 个流（所有令牌与会话合计）。", s.limits.Streams))
	}
	s.gauge.Inc()
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-held.Done():
				return
			case <-s.closing:
				cancel(errClosing)
				return
			case <-s.clock.After(s.limits.Recheck):
			}
			err := s.stillMay(held, c, nil)
			if err == nil {
				var who *access.Caller
				if who, err = s.door.Recheck(held, c.Who); err == nil {
					err = still(held, who)
				}
			}
			if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) {
				cancel(err)
				return
			}
		}
	}()
	return held, func() {
		cancel(nil)
		<-done
		s.gauge.Dec()
		s.counts.Close(key)
	}, nil
}
