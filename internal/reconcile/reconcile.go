// Package reconcile is the one loop all controllers run in.
//
// Place: layer 4. Promise: a key is never worked on by two workers at once; a change that comes
// while it is worked on makes it run again; failures back off per key; nothing is polled.
// Enemies: edge-triggered logic, unbounded queues (a key waits once, however often it is added),
// one bad key that starves the others.
package reconcile

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Result says when to look again; 0 is only on change.
type Result struct {
	Wake time.Duration
}

// Reconciler brings one object nearer to its wish. It is called again for any change; calling it
// twice changes nothing. A fault of code Conflict means that another writer was faster: it is retried with the same
// growing pause as any other fault, unless a change came meanwhile: then at once. It is not logged as a warning.
type Reconciler interface {
	Reconcile(ctx context.Context, key api.Key) (Result, error)
}

// Back-off of a failing key.
const (
	firstDelay = 20 * time.Millisecond
	lastDelay  = 30 * time.Second
)

// Config makes a Loop.
type Config struct {
	Name       string
	Reconciler Reconciler
	Workers    int // 4 when 0
	Clock      clock.Clock
	Log        *slog.Logger
}

// Loop is a queue of keys and the workers that empty it. Add may be called before Run.
type Loop struct {
	cfg  Config
	mu   sync.Mutex
	cond *sync.Cond
	// queued keys wait in order; busy keys are worked on; again marks busy keys that were added.
	order  []api.Key
	queued map[api.Key]bool
	busy   map[api.Key]bool
	again  map[api.Key]bool
	fails  map[api.Key]int
	wakes  wakeHeap
	wakeAt map[api.Key]time.Time
	kick   chan struct{} // a nearer wake was added
	closed bool
}

// New makes a loop; it starts nothing.
func New(cfg Config) *Loop {
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	l := &Loop{
		cfg: cfg, queued: map[api.Key]bool{}, busy: map[api.Key]bool{}, again: map[api.Key]bool{},
		fails: map[api.Key]int{}, wakeAt: map[api.Key]time.Time{}, kick: make(chan struct{}, 1),
	}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// Add asks for a turn for this key, soon.
func (l *Loop) Add(key api.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(key)
}

// AddAfter asks for a turn within d; more that come until then are the same turn.
func (l *Loop) AddAfter(key api.Key, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d <= 0 {
		l.add(key)
		return
	}
	l.wake(key, d)
}

func (l *Loop) add(key api.Key) {
	switch {
	case l.busy[key]:
		l.again[key] = true
	case !l.queued[key]:
		l.queued[key] = true
		l.order = append(l.order, key)
		l.cond.Signal()
	}
}

// Len counts keys that wait for a worker.
func (l *Loop) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// Run works until ctx ends; it returns when the last turn has ended.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		l.closed = true
		l.cond.Broadcast()
		l.mu.Unlock()
	})
	defer stop()
	var wg sync.WaitGroup
	for range l.cfg.Workers {
		wg.Go(func() { l.work(ctx) })
	}
	wg.Go(func() { l.alarm(ctx) })
	wg.Wait()
	return nil
}

// RunBeside is Run, with something beside it that ends when ctx does.
func (l *Loop) RunBeside(ctx context.Context, beside func()) error {
	var wg sync.WaitGroup
	wg.Go(beside)
	err := l.Run(ctx)
	wg.Wait()
	return err
}

func (l *Loop) work(ctx context.Context) {
	for {
		key, ok := l.take()
		if !ok {
			return
		}
		res, err := l.turn(ctx, key)
		l.finish(key, res, err)
	}
}

func (l *Loop) take() (api.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.order) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return api.Key{}, false
	}
	key := l.order[0]
	l.order = l.order[1:]
	delete(l.queued, key)
	l.busy[key] = true
	return key, true
}

// turn runs the reconciler; a panic is one key's failure, not the process's.
func (l *Loop) turn(ctx context.Context, key api.Key) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.cfg.Reconciler.Reconcile(ctx, key)
}

func (l *Loop) finish(key api.Key, res Result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
	again := l.again[key]
	delete(l.again, key)
	if err == nil {
		delete(l.fails, key)
		if again {
			l.add(key)
		}
		if res.Wake > 0 {
			l.wake(key, res.Wake)
		}
		return
	}
	if errors.Is(err, context.Canceled) && l.closed {
		return
	}
	n := l.fails[key]
	l.fails[key] = n + 1
	delay := min(firstDelay<<min(n, 12), lastDelay)
	if fault.Is(err, fault.Conflict) {
		l.cfg.Log.Debug("somebody was faster; trying again", "loop", l.cfg.Name, "key", key.String(), "error", err)
		if again { // what they wrote may be what came meanwhile: no change comes that would ask for a turn
			l.add(key)
			return
		}
	} else {
		l.cfg.Log.Warn("turn failed; trying again", "loop", l.cfg.Name, "key", key.String(), "in", delay, "error", err)
	}
	l.wake(key, delay)
}

// wake keeps the nearest time for a key.
func (l *Loop) wake(key api.Key, d time.Duration) {
	at := l.cfg.Clock.Now().Add(d)
	if old, ok := l.wakeAt[key]; ok && !at.Before(old) {
		return
	}
	l.wakeAt[key] = at
	heap.Push(&l.wakes, wakeup{at, key})
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *Loop) alarm(ctx context.Context) {
	for {
		var timer <-chan time.Time
		if d, ok := l.due(); ok {
			timer = l.cfg.Clock.After(d)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		case <-timer:
		}
	}
}

// due queues what has come due and says how long until the next.
func (l *Loop) due() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock.Now()
	for len(l.wakes) > 0 {
		next := l.wakes[0]
		if at, ok := l.wakeAt[next.key]; !ok || !at.Equal(next.at) {
			heap.Pop(&l.wakes) // a nearer one replaced it
			continue
		}
		if next.at.After(now) {
			return next.at.Sub(now), true
		}
		heap.Pop(&l.wakes)
		delete(l.wakeAt, next.key)
		l.add(next.key)
	}
	return 0, false
}

type wakeup struct {
	at  time.Time
	key api.Key
}

type wakeHeap []wakeup

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)        { *h = append(*h, x.(wakeup)) }
func (h *wakeHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	*h = old[:len(old)-1]
	return w
}
