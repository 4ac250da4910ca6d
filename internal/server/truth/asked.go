package truth

import (
	"context"
	"sync"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// asked has all who need the store's newest revision at the same time share one question. Who asks joins the next
// question, never the one under way, which may have been answered before what they look for was written. However many
// look for what does not exist, the store hears one question after the other.
type asked struct {
	now  func(context.Context) (int64, error)
	turn chan struct{} // holds who asks
	mu   sync.Mutex
	next *question
}

// question is one to the store; rev and err are there when done is closed.
type question struct {
	done chan struct{}
	rev  int64
	err  error
}

func newAsked(now func(context.Context) (int64, error)) *asked {
	return &asked{now: now, turn: make(chan struct{}, 1)}
}

// Newest is a revision at or above everything acknowledged before the call.
func (a *asked) Newest(ctx context.Context) (int64, error) {
	a.mu.Lock()
	if a.next == nil {
		a.next = &question{done: make(chan struct{})}
	}
	mine := a.next
	a.mu.Unlock()
	select {
	case <-ctx.Done():
		return 0, fault.From(ctx.Err())
	case <-mine.done:
	case a.turn <- struct{}{}:
		a.ask(context.WithoutCancel(ctx)) // others wait for the answer too
		<-a.turn
		<-mine.done
	}
	return mine.rev, mine.err
}

// ask puts the next question, if nobody did; by who has the turn.
func (a *asked) ask(ctx context.Context) {
	a.mu.Lock()
	q := a.next
	a.next = nil
	a.mu.Unlock()
	if q == nil {
		return // it was asked while we waited for the turn
	}
	q.rev, q.err = a.now(ctx)
	close(q.done)
}
