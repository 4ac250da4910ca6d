package server

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// guard keeps looking at the caller while a long download or upload runs, as streams do: who is no
// longer let in loses it, also one whose peer takes no byte. The caller must call the answer once the
// bytes have ended; about is the object they belong to, or nil.
//
// cut is set before the deadlines are moved into the past, and whoever moves them forward looks at cut
// afterwards: no read or write that begins or waits outlives it.
func (c *call) guard(ctx context.Context, about api.Object) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.s.Clock.After(c.s.Limits.Recheck):
			}
			if err := c.stillMay(ctx, about); fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) {
				c.cut.Store(fault.From(err))
				_ = c.rc.SetReadDeadline(time.Unix(1, 0))
				_ = c.rc.SetWriteDeadline(time.Unix(1, 0))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (c *call) stillMay(ctx context.Context, about api.Object) error {
	who, err := c.s.recheck(ctx, c.who)
	if err != nil {
		return err
	}
	if err := who.mayCall(c.route.id); err != nil || about == nil {
		return err
	}
	ok, err := c.s.mayRead(ctx, who, about)
	if err == nil && !ok {
		err = errAccessLost
	}
	return err
}

// wasCut says why the bytes were cut off; nil when they were not.
func (c *call) wasCut() error {
	if e := c.cut.Load(); e != nil {
		return e
	}
	return nil
}
