package gateway

import (
	"context"
	"time"
)

// attempt is what one replica made of a question.
type attempt struct {
	r   *replica
	a   *answer
	err error
}

// race asks a replica and, where the service wants that and the question may be asked twice, a second one when the first has
// not answered for a while. The first answer counts; the other replica is given back. On an error r is its caller's to give back.
func (t *trip) race(ctx context.Context, r *replica, body *kept, met []*replica) (*answer, error) {
	g := t.s.settings().Gateway
	if g == nil || g.Hedge == 0 || !t.question.safe || !t.question.kept || t.framed || upgrade(t.in) != "" {
		return t.one(ctx, r, body)
	}
	results := make(chan attempt, 2)
	begin := func(r *replica) context.CancelFunc {
		own, cancel := context.WithCancel(ctx)
		go func() {
			a, err := t.one(own, r, body)
			results <- attempt{r, a, err}
		}()
		return cancel
	}
	cancels := map[*replica]context.CancelFunc{r: begin(r)}
	limit := time.NewTimer(g.Hedge.Std())
	defer limit.Stop()
	var failed error
	for under := 1; ; {
		select {
		case <-limit.C:
			if other := t.s.other(t.want.on, append(met, r)); other != nil {
				t.m.retries.Inc()
				cancels[other] = begin(other)
				under++
			}
		case got := <-results:
			under--
			if got.err != nil {
				if got.r != r {
					t.s.failed(got.r)
					t.s.release(got.r)
				} else {
					failed = got.err
				}
				if under > 0 {
					continue
				}
				if failed == nil {
					failed = got.err
				}
				for _, cancel := range cancels {
					cancel()
				}
				return nil, failed
			}
			for who, cancel := range cancels {
				if who != got.r {
					cancel()
				}
			}
			got.a.end = chain(got.a.end, cancels[got.r])
			t.settle(results, under, got.r, r)
			return got.a, nil
		}
	}
}

// settle gives back whoever lost the race, once they have ended.
func (t *trip) settle(results chan attempt, under int, won, first *replica) {
	if under == 0 {
		if won != first {
			t.s.failed(first) // before the other one answered
			t.s.release(first)
		}
		return
	}
	go func() {
		lost := <-results
		if lost.a != nil {
			lost.a.drop()
		}
		t.s.release(lost.r)
	}()
}

// chain does both.
func chain(end func(), then context.CancelFunc) func() {
	return func() {
		if end != nil {
			end()
		}
		then()
	}
}

// other is a replica of a track with room that was not met, without waiting; nil: there is none.
func (s *service) other(on track, met []*replica) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	r := s.best(&want{}, func(r *replica) bool { return on.fits(r) && s.free(r) > 0 && !now.Before(r.away) && !contains(met, r) })
	if r != nil {
		r.busy++
	}
	return r
}
