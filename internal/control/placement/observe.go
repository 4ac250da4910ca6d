package placement

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched/cost"
)

func each[T api.Object](snap store.Snapshot, f func(T)) {
	snap.Ascend("", func(o api.Object) bool {
		f(o.(T))
		return true
	})
}

// fill builds a model from the store.
func (c *Controller) fill(ctx context.Context) (*intake, error) {
	m := newModel(c.cfg.Host, c.cfg.Processes)
	m.now = c.cfg.Clock.Now
	in := &intake{m: m, kinds: c.kinds, owner: func(id string) (api.Work, error) {
		return store.WorkByID(context.Background(), c.cfg.Store, id, 0)
	}}
	lists := map[api.Kind]store.Snapshot{}
	for _, k := range c.kinds {
		snap, err := c.cfg.Store.List(ctx, k, "", 0)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k, err)
		}
		lists[k] = snap
	}
	for _, k := range c.kinds {
		each(lists[k], func(o api.Object) { in.change(store.Change{Key: api.KeyOf(o), New: o}) })
		m.tree.heed()
	}
	return in, nil
}

// topPriority is the highest that work of a project may be advised to have: more would be refused.
func (d *Desk) topPriority(project string) int {
	o, err := d.store.Get(context.Background(), api.Key{Kind: api.KindProject, Name: project}, 0) // from memory
	if err != nil {
		return api.HighestPriority
	}
	return o.(*api.Project).TopPriority(api.KindTrainingTask)
}

// Preview says what would become of a task, prepared as for a submit, if it were submitted now. It
// changes nothing. Fault Unavailable when this server does not lead. Safe for concurrent use.
func (d *Desk) Preview(ctx context.Context, t api.Work) (api.Preview, error) {
	done, err := d.enter(ctx)
	if err != nil {
		return api.Preview{}, err
	}
	defer done()
	p, err := d.gather(ctx, t)
	if err != nil {
		return api.Preview{}, err
	}
	return p.answer()
}

// enter waits for a turn: only so many are worked on at once. done ends it.
func (d *Desk) enter(ctx context.Context) (done func(), err error) {
	select {
	case d.previews <- struct{}{}:
		return func() { <-d.previews }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// gather reads zones and nodes from the cache; the planner is not asked for what the store knows.
func (d *Desk) gather(ctx context.Context, o api.Work) (*preview, error) {
	t, run := o.Workload(), history.RunOf(o, 0, 0)
	now := d.clock.Now().UTC()
	p := &preview{seat: d.seat, top: d.topPriority(t.Meta.Project), queues: shares{}, ended: ctx.Err, prices: prices{
		task: &t, now: now, wish: cost.Wish{Spot: t.Wish.Preemptible, Expected: t.Wish.ExpectedTime.Std()},
		reread: func() places {
			nodes, _ := d.nodes(context.Background()) // from memory; a store that closes leaves an unnamed node
			return nodes
		},
	}}
	d.seat.with(func(m *model) { p.wish.Samples = m.trials.Samples(recipeOf(&run)) })
	list, err := d.store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return nil, err
	}
	var zones []*api.Zone
	each(list, func(z *api.Zone) { zones = append(zones, z) })
	p.zones = cost.ZonesOf(zones, now)
	if list, err = d.store.List(ctx, api.KindQueue, "", 0); err != nil {
		return nil, err
	}
	each(list, func(q *api.Queue) { p.queues[q.Meta.Name] = q })
	p.nodes, err = d.nodes(ctx)
	return p, err
}

func (d *Desk) nodes(ctx context.Context) (places, error) {
	list, err := d.store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	out := places{}
	each(list, func(n *api.Node) { out[n.Spec.Number] = n })
	return out, nil
}

// hostsOf are a guest's environments as they stand.
func (d *Desk) hostsOf(ctx context.Context, guest *api.Workload) (out hosts, err error) {
	for _, name := range guest.Wish.Inside {
		lent, slot, ok, err := d.host(ctx, guest.Meta.Project, name)
		if err != nil {
			return hosts{}, err
		}
		if !ok {
			return hosts{away: name}, nil
		}
		out.lenders, out.slots = append(out.lenders, lent), append(out.slots, slot)
	}
	return out, nil
}

// host is one environment; ok is false where it does not run.
func (d *Desk) host(ctx context.Context, project, name string) (l api.Lender, slot api.Slot, ok bool, err error) {
	host, err := store.HostOf(ctx, d.store, project, name)
	if err != nil {
		return l, slot, false, unlessMissing(err)
	}
	t := host.Workload()
	if !runs(&t) {
		return l, slot, false, nil
	}
	p, err := d.store.Get(ctx, t.PlaceKey(), 0)
	if err != nil {
		return l, slot, false, unlessMissing(err)
	}
	l, slot, ok = lentBy(name, &t, &p.(*api.Placement).Spec)
	return l, slot, ok, nil
}

func unlessMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Past is what a new leader learns from.
type Past interface {
	NewestRuns(ctx context.Context, limit int) ([]history.Run, error)
	UsageOf(ctx context.Context, taskID string) ([]history.UsageRow, error)
	ListEvents(ctx context.Context, q history.EventQuery) ([]history.Event, error)
}

// Bounds of learning: how many tasks that ran before are looked up one by one, and how much is done
// before the planner gets its lock back.
const (
	maxRemembered = 2000
	learnChunk    = 500
	learnAgain    = 30 * time.Second
)

// lessons are what a new leader learns from the past.
type lessons struct {
	past  Past
	seat  *seat
	clock clock.Clock
	log   *slog.Logger
}

// learn reads history beside the planner's work, until it could: decisions don't wait for it.
func (l *lessons) learn(ctx context.Context) {
	if l.past == nil {
		return
	}
	for ctx.Err() == nil {
		err := l.learnOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.log.Warn("what finished tasks showed can't be read; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-l.clock.After(learnAgain):
		}
	}
}

func (l *lessons) learnOnce(ctx context.Context) error {
	runs, err := l.past.NewestRuns(ctx, history.MaxRuns)
	if err != nil {
		return err
	}
	var before, waiting []string
	l.seat.with(func(m *model) { before = m.startedBefore(maxRemembered) })
	past := make([]remembered, len(before))
	for i, id := range before {
		if past[i], err = l.remember(ctx, id); err != nil {
			return err
		}
	}
	l.inChunks(len(runs), func(m *model, i int) { m.learnRun(&runs[len(runs)-1-i]) }) // oldest first
	l.inChunks(len(past), func(m *model, i int) { m.queues.Remember(before[i], past[i].ran, past[i].evicted) })
	l.seat.with(func(m *model) { waiting = slices.Collect(maps.Keys(m.tasks)) })
	l.inChunks(len(waiting), func(m *model, i int) { m.queues.Refile(waiting[i]) })
	l.log.Info("learned from finished tasks", "runs", len(runs), "remembered", len(past))
	return nil
}

// inChunks works on the model a little at a time.
func (l *lessons) inChunks(n int, work func(m *model, i int)) {
	for i := 0; i < n; i += learnChunk {
		l.seat.with(func(m *model) {
			for k := i; k < min(i+learnChunk, n); k++ {
				work(m, k)
			}
		})
	}
}

// remember adds up a task's stays that are over, and how often it had to give way.
func (l *lessons) remember(ctx context.Context, id string) (remembered, error) {
	rows, err := l.past.UsageOf(ctx, id)
	if err != nil {
		return remembered{}, err
	}
	events, err := l.past.ListEvents(ctx, history.EventQuery{ObjectID: id, Newest: true, Limit: 1000})
	return rememberedOf(rows, events), err
}

// Possible knows what could ever start: the cluster as if every node were open and nothing stood on
// it. Every server has one, fed from its own cache, so that a submit asks nobody. It reads what has
// changed when it is asked; a feed keeps one change a key until then. Safe for concurrent use.
type Possible struct {
	store store.Reader
	clock clock.Clock
	log   *slog.Logger

	mu     sync.Mutex
	m      *model // nil before it was first asked
	feed   *store.Feed
	told   map[string]api.NodeSpec // as last told to the model
	unused map[string]api.Node     // ready ones that have devices which nobody here can use
	newest time.Time               // when the youngest node or zone was made
}

// NewPossible makes one; it starts nothing.
func NewPossible(s store.Reader, c clock.Clock, log *slog.Logger) *Possible {
	return &Possible{store: s, clock: c, log: log}
}

// speak says what the model noticed.
func (p *Possible) speak() {
	if p.m != nil {
		say(p.log, p.m.heard.take())
	}
}

// Close ends the subscription.
func (p *Possible) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.feed != nil {
		p.feed.Close()
	}
}

// Refuse is nil, or the fault Invalid of a task that can never start, judged by what the cache has
// seen at minRevision at least. The task has its queue and its defaults.
func (p *Possible) Refuse(ctx context.Context, t api.Work, minRevision int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.speak()
	if err := p.catchUp(ctx, minRevision); err != nil {
		return err
	}
	return p.judge(t)
}

// catchUp brings everything the cache has seen into the model.
func (p *Possible) catchUp(ctx context.Context, minRevision int64) error {
	lists := make([]store.Snapshot, len(possibleKinds))
	first := p.m == nil
	if first {
		p.feed = p.store.Subscribe(possibleKinds...)
	}
	if first || minRevision > 0 {
		for i, k := range possibleKinds {
			var err error
			if lists[i], err = p.store.List(ctx, k, "", minRevision); err != nil {
				if first {
					p.feed.Close()
				}
				return err
			}
		}
	}
	if first {
		p.m, p.told, p.unused = newModel("", 0), map[string]api.NodeSpec{}, map[string]api.Node{}
		p.m.now = p.clock.Now
		for _, list := range lists {
			list.Ascend("", func(o api.Object) bool {
				p.change(store.Change{Key: api.KeyOf(o), New: o})
				return true
			})
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	changes, err := p.feed.Next(ended) // what there is, without waiting
	if err != nil && ended.Err() != err {
		return err
	}
	for _, ch := range changes {
		p.change(ch)
	}
	p.m.tree.heed()
	return nil
}
