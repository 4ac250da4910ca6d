package tracker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Tracker follows all work through one feed: how many wait and run in each queue (a service and an array only as what they make), and who
// wants to hear that something moved. It costs a map entry for each unfinished task, and spares
// every submit a count over all of them and every log follower a feed of its own.
type Tracker struct {
	mu       sync.Mutex
	counted  bool
	tasks    map[string]standing // by id; unfinished ones
	queues   map[string]*api.QueueStatus
	reserved map[string]reservation // by id of tasks on their way to the store
	waiters  map[string]map[chan struct{}]struct{}
}

type standing struct {
	queue         string
	pending, task bool
}

// reservation is a place in a queue. It ends by itself, in case its task came and went unseen.
type reservation struct {
	queue string
	at    time.Time
}

const reservationLasts = 30 * time.Second

func New() *Tracker {
	return &Tracker{
		tasks: map[string]standing{}, queues: map[string]*api.QueueStatus{}, reserved: map[string]reservation{},
		waiters: map[string]map[chan struct{}]struct{}{},
	}
}

// Run counts until ctx ends.
func (t *Tracker) Run(ctx context.Context, st truth.Store, log *slog.Logger, c clock.Clock) {
	for ctx.Err() == nil {
		if err := t.follow(ctx, st); err != nil && ctx.Err() == nil {
			log.Warn("counting tasks was interrupted", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-c.After(200 * time.Millisecond):
		}
	}
}

func (t *Tracker) follow(ctx context.Context, st truth.Store) error {
	kinds := api.WorkKinds()
	feed := st.Subscribe(kinds...) // before the snapshots: nothing falls in between
	defer feed.Close()
	snaps := make([]store.Snapshot, len(kinds))
	for i, kind := range kinds {
		var err error
		if snaps[i], err = st.List(ctx, kind, "", 0); err != nil {
			return err
		}
	}
	t.reset(snaps)
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		t.apply(changes)
	}
}

func (t *Tracker) reset(snaps []store.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.tasks)
	clear(t.queues)
	for _, snap := range snaps {
		snap.Ascend("", func(o api.Object) bool {
			t.put(o.(api.Work))
			return true
		})
	}
	t.counted = true
	for _, all := range t.waiters {
		for ch := range all {
			poke(ch)
		}
	}
}

func (t *Tracker) apply(changes []store.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ch := range changes {
		var id string
		if was, ok := ch.Old.(api.Work); ok {
			id = was.GetMeta().ID
			t.drop(id)
			t.wake(id)
		}
		if work, ok := ch.New.(api.Work); ok {
			t.put(work)
			if now := work.GetMeta().ID; now != id {
				t.wake(now)
			}
		}
	}
}

func (t *Tracker) wake(id string) {
	for ch := range t.waiters[id] {
		poke(ch)
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// count adds n to the counts of a queue that s is in.
func (t *Tracker) count(s standing, n int) {
	q := t.queues[s.queue]
	if q == nil {
		q = &api.QueueStatus{}
		t.queues[s.queue] = q
	}
	all, tasks := &q.Running, &q.RunningTasks
	if s.pending {
		all, tasks = &q.Pending, &q.PendingTasks
	}
	*all += n
	if s.task {
		*tasks += n
	}
	if *q == (api.QueueStatus{}) {
		delete(t.queues, s.queue)
	}
}

func (t *Tracker) put(work api.Work) {
	w := work.Workload()
	id := w.Meta.ID
	t.drop(id)
	delete(t.reserved, id)
	if w.Phase.Finished() || w.Parent {
		return
	}
	now := standing{queue: w.Queue, pending: w.Phase == api.PhasePending, task: w.Kind == api.KindTrainingTask}
	t.tasks[id] = now
	t.count(now, 1)
}

func (t *Tracker) drop(id string) {
	if was, ok := t.tasks[id]; ok {
		delete(t.tasks, id)
		t.count(was, -1)
	}
}

func (t *Tracker) Ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted
}

// Counts are how many wait and run in a queue.
func (t *Tracker) Counts(queue string) api.QueueStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[queue]; q != nil {
		return *q
	}
	return api.QueueStatus{}
}

// Reserve takes a place in a queue before the commit, so that a burst cannot run past the limit
// while the feed is behind. The place is the task's once the feed has shown it, or is released.
func (t *Tracker) Reserve(id, queue string, limit int, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	if q := t.queues[queue]; q != nil {
		n = q.Pending
	}
	for other, r := range t.reserved { // as many as there are submits in flight
		if now.Sub(r.at) > reservationLasts {
			delete(t.reserved, other)
		} else if r.queue == queue {
			n++
		}
	}
	if n >= limit {
		return false
	}
	t.reserved[id] = reservation{queue, now}
	return true
}

func (t *Tracker) Release(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.reserved, id)
}

// Watch is poked whenever the task moves; call stop at the end.
func (t *Tracker) Watch(id string) (moved <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiters[id] == nil {
		t.waiters[id] = map[chan struct{}]struct{}{}
	}
	t.waiters[id][ch] = struct{}{}
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.waiters[id], ch)
		if len(t.waiters[id]) == 0 {
			delete(t.waiters, id)
		}
	}
}
