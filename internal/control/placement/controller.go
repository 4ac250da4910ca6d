package placement

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// Config makes a Controller.
type Config struct {
	Store store.ReadWriter
	Clock clock.Clock
	IDs   *id.Source
	Log   *slog.Logger
	// Host and Processes bound what virtual nodes really start on this machine.
	Host      string
	Processes int
	// Quantum is the planner's: for how long a gang stands as it is before an equal may have its place,
	// or before it grows. 0: ten minutes.
	Quantum time.Duration
	// Past is what a new leader learns from; nil: nothing.
	Past Past
}

// Controller places gangs while its server leads, and is the Desk where others ask about it.
type Controller struct {
	Desk
	cfg   Config
	kinds []api.Kind // in the order of an intake
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller {
	kinds := append([]api.Kind{api.KindZone, api.KindNode, api.KindQueue, api.KindPlacement}, api.WorkKinds()...)
	if _, ok := api.InfoOf(booking.Kind); ok {
		kinds = append([]api.Kind{booking.Kind}, kinds...)
	}
	s := &seat{log: cfg.Log}
	return &Controller{cfg: cfg, kinds: kinds, Desk: Desk{
		seat: s, store: cfg.Store, clock: cfg.Clock, quantum: cfg.Quantum, previews: make(chan struct{}, maxPreviews),
		writes: &writer{store: cfg.Store, clock: cfg.Clock, ids: cfg.IDs, log: cfg.Log, seat: s},
	}}
}

// Run places until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.SubscribeBrief(c.kinds...)
	defer feed.Close()
	in, err := c.fill(ctx)
	if err != nil {
		return err
	}
	c.seat.take(in.m, epoch)
	var learning sync.WaitGroup
	defer func() {
		learning.Wait()
		c.seat.leave()
	}()
	learning.Go(func() { (&lessons{c.cfg.Past, c.seat, c.cfg.Clock, c.cfg.Log}).learn(ctx) })
	for ctx.Err() == nil {
		retry, wake := c.turn(ctx, epoch)
		changes, err := c.next(ctx, feed, retry, wake)
		if err != nil {
			return nil // the context ended, or the feed with the store
		}
		c.seat.with(func(*model) { in.follow(changes) })
	}
	return nil
}

// retryAfter is how long a decision that the store did not take waits when nothing else happens.
const retryAfter = time.Second

// next waits for changes; with retry, and when the planner wants to be woken, it comes back with
// none after a while.
func (c *Controller) next(ctx context.Context, feed *store.Feed, retry bool, wake time.Time) ([]store.Change, error) {
	pause := retryAfter
	if !retry {
		if wake.IsZero() {
			return feed.Next(ctx)
		}
		pause = max(wake.Sub(c.cfg.Clock.Now()), time.Millisecond)
	}
	short, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	changes, err := feed.Next(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return nil, nil
	}
	return changes, err
}

// turn plans and commits until nothing more can start. It says whether a write failed that should
// be tried again, and when to come back even if nothing changes.
func (c *Controller) turn(ctx context.Context, epoch store.Epoch) (retry bool, wake time.Time) {
	var look, giveUp time.Time
	var doubts []order
	c.judge(func(t turn) { look, doubts = t.m.dates.look(t.m, t.now), t.doubts() })
	defer func() { wake = sooner(wake, look) }()
	retry = c.writes.carryAll(ctx, epoch, doubts)
	do := func(decide func(t turn) (order, bool)) { retry = c.do(ctx, epoch, decide) || retry }

	var leavers, incomplete []*api.Placement
	c.judge(func(t turn) { leavers = t.m.leavers() })
	for _, p := range leavers {
		do(func(t turn) (order, bool) { return t.leave(p) })
	}
	retry = c.lend(ctx, epoch) || retry
	c.judge(func(t turn) { incomplete, giveUp = t.incomplete() })
	for _, p := range incomplete {
		do(func(t turn) (order, bool) { return t.replace(p) })
	}
	for ctx.Err() == nil {
		var res sched.Result
		var starts []order
		c.judge(func(t turn) { res, starts = t.plan() })
		if c.writes.carryAll(ctx, epoch, starts) {
			return true, wake
		}
		for _, e := range res.Evictions {
			do(func(t turn) (order, bool) { return t.preempt(e) })
		}
		for _, r := range res.Resizes {
			do(func(t turn) (order, bool) { return t.resize(r) })
		}
		if !res.More {
			return retry, sooner(res.Wake, giveUp)
		}
	}
	return retry, wake
}

// judge lets f decide on the model as it is now.
func (c *Controller) judge(f func(t turn)) {
	c.seat.with(func(m *model) { f(turn{m, c.cfg.Clock.Now(), c.cfg.Quantum}) })
}

// do carries out one order, where there is one. It says whether it should be tried again.
func (c *Controller) do(ctx context.Context, epoch store.Epoch, decide func(t turn) (order, bool)) (retry bool) {
	var o order
	var ok bool
	if c.judge(func(t turn) { o, ok = decide(t) }); ok {
		retry, _ = c.writes.carry(ctx, epoch, o)
	}
	return retry
}

// lend gives guests their place where all of their environments run and are free. It says whether a write
// failed that should be tried again.
func (c *Controller) lend(ctx context.Context, epoch store.Epoch) (retry bool) {
	for ctx.Err() == nil {
		var guest *api.Workload
		c.judge(func(t turn) { guest = t.m.guests.next() })
		if guest == nil {
			return false
		}
		found, err := c.hostsOf(ctx, guest)
		if err != nil {
			c.cfg.Log.Warn("environments could not be read", "task", guest.Meta.ID, "error", err)
			c.judge(func(t turn) { t.m.guests.dirty[guest.Meta.ID] = true })
			return true
		}
		if c.do(ctx, epoch, func(t turn) (order, bool) { return t.lend(guest, found) }) {
			return true
		}
	}
	return false
}
