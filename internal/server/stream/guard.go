package stream

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Guard keeps looking at the caller while a long download or upload runs, as streams do: who is no
// longer let in loses it, also one whose peer takes no byte. The caller must call the answer once the
// bytes have ended; about is the object they belong to, or nil.
func (s *Streams) Guard(ctx context.Context, c *rest.Call, about api.Object) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.clock.After(s.limits.Recheck):
			}
			if err := s.stillMay(ctx, c, about); fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) {
				c.CutOff(fault.From(err))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (s *Streams) stillMay(ctx context.Context, c *rest.Call, about api.Object) error {
	who, err := s.door.Recheck(ctx, c.Who)
	if err != nil {
		return err
	}
	if err := who.MayCall(c.Route.ID); err != nil || about == nil {
		return err
	}
	ok, err := s.judge.MayRead(ctx, who, about)
	if err == nil && !ok {
		err = errAccessLost
	}
	return err
}
