package placement

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
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

// commits in flight at once: etcd takes three times as many fenced writes so as one by one.
const parallelCommits = 16

// Controller places gangs while its server leads.
type Controller struct {
	cfg Config
	mu  sync.Mutex
	m   *model // nil while not leading
	// epoch is of the leadership that m belongs to.
	epoch store.Epoch
	// previews bounds how many are worked on at once.
	previews chan struct{}
	writes   writer
	// kinds is the order in which the model takes up what is there: nodes before placements before who owns them.
	kinds []api.Kind
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller {
	kinds := append([]api.Kind{api.KindZone, api.KindNode, api.KindQueue, api.KindPlacement}, api.WorkKinds()...)
	if _, ok := api.InfoOf(booking.Kind); ok {
		kinds = append([]api.Kind{booking.Kind}, kinds...)
	}
	return &Controller{cfg: cfg, previews: make(chan struct{}, maxPreviews), kinds: kinds, writes: writer{cfg.Store, cfg.Clock, cfg.IDs}}
}

// Run places until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.SubscribeBrief(c.kinds...)
	defer feed.Close()
	if err := c.fill(ctx, epoch); err != nil {
		return err
	}
	var learning sync.WaitGroup
	defer func() {
		learning.Wait()
		c.mu.Lock()
		c.m = nil
		c.mu.Unlock()
	}()
	learning.Go(func() { (&lessons{c}).learn(ctx) })
	for ctx.Err() == nil {
		retry, wake := c.turn(ctx, epoch)
		changes, err := c.next(ctx, feed, retry, wake)
		if err != nil {
			return nil // the context ended, or the feed with the store
		}
		c.mu.Lock()
		c.follow(changes)
		c.mu.Unlock()
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

// follow brings changes into the model: first what is there, in the order of kinds, then what is
// gone, in the opposite one. A feed's own order is that of first changes: a place that changed and
// then went with its task's end would be gone before the end is seen, and nothing learned from it.
// The lock is held.
func (c *Controller) follow(changes []store.Change) {
	for _, kind := range c.kinds {
		for _, ch := range changes {
			if ch.Key.Kind != kind {
				continue
			}
			if old := c.replaced(ch); old.Key.Kind != "" {
				c.change(old)
			}
			if ch.New != nil {
				c.change(ch)
			}
		}
	}
	for _, kind := range slices.Backward(c.kinds) {
		for _, ch := range changes {
			if ch.Key.Kind == kind && ch.New == nil {
				c.change(ch)
			}
		}
	}
	c.m.heed()
}

// replaced is what has to be taken up before a change: that a key's former object is gone, when
// another one has its name now; and the place of a gang that came and went unseen.
func (c *Controller) replaced(ch store.Change) store.Change {
	switch old := ch.Old.(type) {
	case api.Work:
		if ch.New != nil && ch.New.GetMeta().ID != old.GetMeta().ID {
			return store.Change{Key: ch.Key, Old: old, Revision: ch.Revision}
		}
	case *api.Placement:
		if ch.New == nil && !c.m.knows(old) {
			return store.Change{Key: ch.Key, New: old, Revision: ch.Revision}
		}
	}
	return store.Change{}
}

// fill builds the model from the store.
func (c *Controller) fill(ctx context.Context, epoch store.Epoch) error {
	m := newModel(c.cfg.Log, c.cfg.Host, c.cfg.Processes)
	m.now = c.cfg.Clock.Now
	lists := map[api.Kind]store.Snapshot{}
	for _, k := range c.kinds {
		snap, err := c.cfg.Store.List(ctx, k, "", 0)
		if err != nil {
			return fmt.Errorf("list %s: %w", k, err)
		}
		lists[k] = snap
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m, c.epoch = m, epoch
	for _, k := range c.kinds {
		lists[k].Ascend("", func(o api.Object) bool {
			c.change(store.Change{Key: api.KeyOf(o), New: o})
			return true
		})
		c.m.heed()
	}
	return nil
}

// change brings one change of the store into the model. The lock is held.
func (c *Controller) change(ch store.Change) {
	m := c.m
	if ch.Key.Kind != api.KindQueue {
		m.heed()
	}
	switch o := ch.New.(type) {
	case *api.Zone:
		m.setZone(o)
	case *booking.Booking:
		m.dates.set(o)
	case *api.Node:
		m.setNode(o)
	case *api.Queue:
		m.setQueue(o)
	case *api.Placement:
		if len(o.Spec.Inside) > 0 {
			m.guests.stand(o)
			return
		}
		m.guests.touch(under(o.Meta.Project, o.OwnerName()))
		if w, ok := c.workloadOf(o); ok {
			m.setPlacement(o, w)
		}
	case api.Work:
		m.setTask(o)
	case nil:
		switch ch.Key.Kind {
		case api.KindZone:
			m.dropZone(ch.Key.Name)
		case booking.Kind:
			m.dates.drop(ch.Key.Name)
		case api.KindNode:
			m.dropNode(ch.Key.Name)
		case api.KindQueue:
			m.dropQueue(ch.Key.Name)
		case api.KindPlacement:
			m.dropPlacement(ch.Old.(*api.Placement))
		default:
			m.dropTask(ch.Old.GetMeta().ID)
			m.guests.touch(under(ch.Key.Project, ch.Key.Name))
		}
	}
}

// workloadOf finds what a placed gang takes: its owner's needs; nil where it is held already. The owner
// outlives its placement.
func (c *Controller) workloadOf(p *api.Placement) (*sched.Workload, bool) {
	if _, held := c.m.cluster.Held(p.Spec.TaskID); held {
		return nil, true
	}
	owner, err := store.WorkByID(context.Background(), c.cfg.Store, p.Spec.TaskID, 0)
	if err != nil { // the sweep of orphans sees to it
		c.cfg.Log.Warn("a placement without its owner", "placement", p.Meta.Name, "error", err)
		return nil, false
	}
	return workload(owner, c.m.shares), true
}

// turn plans and commits until nothing more can start. It says whether a write failed that should
// be tried again, and when to come back even if nothing changes.
func (c *Controller) turn(ctx context.Context, epoch store.Epoch) (retry bool, wake time.Time) {
	c.mu.Lock()
	look := c.m.dates.look(c.m, c.cfg.Clock.Now())
	c.mu.Unlock()
	defer func() { wake = sooner(wake, look) }()
	retry = c.clear(ctx, epoch)
	retry = c.drain(ctx, epoch) || retry
	retry = c.lend(ctx, epoch) || retry
	again, giveUp := c.replace(ctx, epoch)
	retry = retry || again
	for ctx.Err() == nil {
		c.mu.Lock()
		res := sched.Plan(c.cfg.Clock.Now(), c.m.cluster, c.m.queues, sched.Policy{Quantum: c.cfg.Quantum, Moves: c.m.shares.moves})
		bases := make([]*api.Workload, len(res.Decisions))
		for i, d := range res.Decisions {
			bases[i] = c.m.tasks[d.Workload.ID]
		}
		c.mu.Unlock()
		if c.commitAll(ctx, epoch, res.Decisions, bases) {
			return true, wake
		}
		if c.preempt(ctx, epoch, res.Evictions) {
			retry = true
		}
		retry = c.resize(ctx, epoch, res.Resizes) || retry
		if !res.More {
			return retry, sooner(res.Wake, giveUp)
		}
	}
	return retry, wake
}

// sooner is the first of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reasonPreempted is why a gang had to go that gave way to another.
const reasonPreempted = "Preempted"

// preempt asks gangs to leave for others; those start once these have gone.
func (c *Controller) preempt(ctx context.Context, epoch store.Epoch, evictions []sched.Eviction) (retry bool) {
	for _, e := range evictions {
		c.mu.Lock()
		p := c.m.stands[e.ID]
		wish := evictionOf(e, p, c.m.in)
		c.mu.Unlock()
		if p != nil && p.Spec.Evict != nil {
			continue // it goes already
		}
		err := error(fault.New(fault.Conflict, "Stale", fault.T("The placement is not seen yet.", "尚未看到该放置。")))
		if p != nil {
			err = c.evict(ctx, epoch, p, wish)
		}
		if err != nil {
			c.cfg.Log.Warn("a gang could not be asked to leave", "task", e.ID, "error", err)
			c.mu.Lock()
			if p == nil {
				c.m.cluster.Unreserve(e.ID)
			}
			sched.UndoEviction(c.m.queues, e)
			c.mu.Unlock()
			retry = true
		}
	}
	return retry
}

// reasonDrained is why a gang had to go whose node is being emptied, and why it waits afterwards.
const reasonDrained = "Drained"

// reasonNodeLost is why one waits that lost its place with a node.
const reasonNodeLost = "NodeLost"

// drain asks everything that stands on what is to be emptied to leave: for another place where there
// is one, which is reserved first. It says whether a write failed that should be tried again.
func (c *Controller) drain(ctx context.Context, epoch store.Epoch) (retry bool) {
	c.mu.Lock()
	leavers := c.m.leavers()
	c.mu.Unlock()
	for _, p := range leavers {
		e := api.Eviction{
			Reason: reasonDrained, Grace: api.Duration(saveGrace),
			Message: fault.T("Its node is being emptied; it waits for another place.", "所在节点正在排空，等待重新调度。"),
		}
		c.mu.Lock()
		if e.To = c.m.reserve(p.Spec.TaskID); e.To != nil {
			e.Message = fault.T("Its node is being emptied; it goes on elsewhere.", "所在节点正在排空，将在别处继续。")
		}
		e.Message = illText(p, c.m.in, c.m.dates.text(p, e))
		c.mu.Unlock()
		if err := c.evict(ctx, epoch, p, e); err != nil && !fault.Is(err, fault.Conflict) {
			c.cfg.Log.Warn("a gang could not be asked to leave", "task", p.Spec.TaskID, "error", err)
			retry = true
		}
	}
	return retry
}

// evict writes the wish that a gang leave; train carries it out and deletes the placement or, where
// a place was reserved, makes that the gang's. A reservation goes with a write that failed.
func (c *Controller) evict(ctx context.Context, epoch store.Epoch, p *api.Placement, e api.Eviction) error {
	next := store.Clone(p)
	e.At = c.cfg.Clock.Now().UTC()
	next.Spec.Evict = &e
	err := c.writes.update(ctx, epoch, next)
	if err != nil && len(e.To) > 0 {
		c.doubt(ctx, epoch, p, err)
	}
	return err
}

func (c *Controller) commitAll(ctx context.Context, epoch store.Epoch, ds []sched.Decision, bases []*api.Workload) (retry bool) {
	var wg sync.WaitGroup
	var failed atomic.Bool
	gate := make(chan struct{}, parallelCommits)
	for i, d := range ds {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := c.commit(ctx, epoch, d, bases[i]); err != nil {
				c.undo(d, err)
				if !fault.Is(err, fault.Conflict) {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return failed.Load()
}

// commit makes a decision true, if the task is still as it was when we decided.
func (c *Controller) commit(ctx context.Context, epoch store.Epoch, d sched.Decision, t *api.Workload) error {
	if t == nil {
		return fault.New(fault.Conflict, "Stale", fault.T("The task went away.", "任务已不存在。"))
	}
	roles := assigned(d.Workload.Roles, d.At)
	c.mu.Lock()
	closed := c.m != nil && shut(roles, c.m.in)
	c.mu.Unlock()
	if closed {
		return fault.New(fault.Unavailable, "DeviceClosed", fault.T("A device of the place was closed meanwhile.", "所选位置的加速卡刚刚被停用。"))
	}
	return c.writes.write(ctx, epoch, t, c.writes.placementOf(t, roles))
}

// assigned is a planner's assignment as it is written.
func assigned(roles []sched.Role, at sched.Assignment) []api.RoleAssignment {
	out := make([]api.RoleAssignment, len(at))
	for i, slots := range at {
		out[i] = api.RoleAssignment{Role: roles[i].Name, Slots: slots}
	}
	return out
}

// assignment is a written one as the planner knows it.
func assignment(roles []api.RoleAssignment) sched.Assignment {
	out := make(sched.Assignment, len(roles))
	for i, r := range roles {
		out[i] = r.Slots
	}
	return out
}

// undo takes a decision back after a failed write. The write may yet have happened (a time-out):
// then its change arrives, and setPlacement holds the gang again.
func (c *Controller) undo(d sched.Decision, err error) {
	c.cfg.Log.Debug("a placement was not written", "task", d.Workload.ID, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return
	}
	sched.Undo(c.m.cluster, c.m.queues, d)
	if t, ok := c.m.tasks[d.Workload.ID]; ok && !fault.Is(err, fault.Conflict) {
		c.m.queues.Add(c.m.dates.demand(t, c.cfg.Clock.Now()))
	} else {
		c.m.queues.Remove(d.Workload.ID)
	}
}

// Why explains a waiting task; ok is false when this server does not lead or it does not wait.
func (c *Controller) Why(taskID string) (sched.Explanation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return sched.Explanation{}, false
	}
	if why, ok := c.m.guests.why(taskID); ok {
		return why, true
	}
	top := api.HighestPriority
	if t, ok := c.m.tasks[taskID]; ok {
		top = topPriority(c.cfg.Store, t.Meta.Project)
	}
	why, ok := sched.Explain(c.cfg.Clock.Now(), c.m.cluster, c.m.queues, taskID, top)
	return c.m.dates.why(c.m, c.m.tasks[taskID], why, c.cfg.Clock.Now()), ok
}

// topPriority is the highest that work of a project may be advised to have: more would be refused.
func topPriority(s store.Reader, project string) int {
	o, err := s.Get(context.Background(), api.Key{Kind: api.KindProject, Name: project}, 0) // from memory
	if err != nil {
		return api.HighestPriority
	}
	return o.(*api.Project).TopPriority(api.KindTrainingTask)
}

// Capacities says what there is of each device type; ok is false when this server does not lead.
func (c *Controller) Capacities() (out []sched.Capacity, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil, false
	}
	return sched.Capacities(c.m.cluster), true
}
