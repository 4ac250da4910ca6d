package save

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Hub is what save needs of the link.
type Hub interface {
	// Ranks is what the launcher told last about its ranks.
	Ranks(name engine.Name) (link.Ranks, bool)
	// Watermark tells it the newest step that every rank holds, and what of it to persist. Unavailable: it is away, and asks
	// again when it is back.
	Watermark(name engine.Name, w link.Watermark) error
}

// Events is where save tells people what became of a last step.
type Events interface {
	AddEvents(ctx context.Context, events ...history.Event) error
}

// Config makes a Controller.
type Config struct {
	Store  store.ReadWriter
	Hub    Hub
	Events Events
	// Gangs looks at the replicas of tasks.
	Gangs *gang.Observer
	// Repo is the checkpoints of a task in a tier; of link.TierLocal their records. Nil, also for a tier: there
	// are none.
	Repo func(tier, taskID string) (*ckpt.Repo, error)
	// Room says whether another checkpoint of a task may go to the shared store; nil: always. It must not block.
	Room  func(ctx context.Context, task *api.TrainingTask) bool
	Clock clock.Clock
	Log   *slog.Logger
}

// Controller sees to the checkpoints of training tasks while its server leads. One Run at a time.
type Controller struct {
	cfg     Config
	epoch   store.Epoch
	commits sync.WaitGroup

	mu    sync.Mutex
	loop  *reconcile.Loop                 // nil while not leading
	full  bool                            // all tasks are in keys
	keys  map[string]api.Key              // task id → key
	heard map[string]heard                // task id → what came since its last turn
	kept  map[string]memory               // task id → what is remembered of it
	held  map[string]api.CheckpointOrigin // task id → the checkpoint of another that it begins from
	known map[string]*checkpoints         // task id → its checkpoints
	away  map[string]time.Time            // task id → until when it is not asked for them again
	took  map[string]map[string]time.Duration
	saved map[string]*api.SavedStep // task id → the newest that this leader committed
}

// heard is what came since a task's last turn.
type heard struct {
	anew  bool      // one of its launchers may have missed what was told
	ended []outcome // commits that have
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg}
	c.reset()
	return c
}

// reset forgets what another leadership knew. mu held, or nobody else there.
func (c *Controller) reset() {
	c.keys, c.heard, c.kept = map[string]api.Key{}, map[string]heard{}, map[string]memory{}
	c.held, c.known, c.away = map[string]api.CheckpointOrigin{}, map[string]*checkpoints{}, map[string]time.Time{}
	c.took, c.saved = map[string]map[string]time.Duration{}, map[string]*api.SavedStep{}
}

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.Subscribe(api.KindTrainingTask)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "save", Reconciler: c, Clock: c.cfg.Clock, Log: c.cfg.Log})
	c.mu.Lock()
	c.reset()
	c.epoch, c.loop = epoch, loop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop, c.full = nil, false
		c.mu.Unlock()
	}()
	if err := c.cfg.Gangs.Fill(ctx); err != nil {
		return err
	}
	if err := store.Fill(ctx, c.cfg.Store, c.change, api.KindTrainingTask); err != nil {
		return err
	}
	c.catchUp()
	err := loop.RunBeside(ctx, func() { feed.Each(ctx, c.change) })
	c.commits.Wait()
	return err
}

// change files one change of the store. It asks for no turn: what saves depend on, launchers tell.
func (c *Controller) change(ch store.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.New == nil {
		id := ch.Old.GetMeta().ID
		delete(c.keys, id)
		delete(c.heard, id)
		delete(c.kept, id)
		delete(c.held, id)
		delete(c.known, id)
		delete(c.away, id)
		delete(c.took, id)
		delete(c.saved, id)
		return
	}
	t := ch.New.(*api.TrainingTask)
	c.keys[t.Meta.ID] = ch.Key
	if t.Status.From == nil || t.Status.Phase.Finished() {
		delete(c.held, t.Meta.ID)
	} else {
		c.held[t.Meta.ID] = *t.Status.From
	}
}

// Saved says that ranks of a task may hold another step, or, anew, that one of its launchers may have
// missed what was told. It never blocks.
func (c *Controller) Saved(taskID string, anew bool) {
	c.hear(taskID, heard{anew: anew})
}

// hear files what came and asks for the task's turn.
func (c *Controller) hear(taskID string, what heard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ok := c.keys[taskID]
	if c.loop == nil || !ok && c.full { // it is gone
		return
	}
	h := c.heard[taskID]
	h.anew, h.ended = h.anew || what.anew, append(h.ended, what.ended...)
	c.heard[taskID] = h
	if ok {
		c.loop.Add(key)
	}
}

// catchUp asks for the turns of tasks of which something was heard before they were known.
func (c *Controller) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = true
	for id := range c.heard {
		if key, ok := c.keys[id]; ok {
			c.loop.Add(key)
		} else {
			delete(c.heard, id)
		}
	}
}

// Reconcile is one turn for one task.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	s, err := c.observe(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil // its memory goes with the change that says so
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	c.mu.Lock()
	was := c.kept[s.Task.Meta.ID]
	c.mu.Unlock()
	now := c.cfg.Clock.Now()
	p, next := decide(s, was, now)
	if p.askRoom {
		full := c.cfg.Room != nil && !c.cfg.Room(ctx, s.Task)
		s.full = &full
		p, next = decide(s, was, now)
	}
	c.remember(s.Task.Meta.ID, next)
	return reconcile.Result{}, c.apply(ctx, s, p)
}

// remember keeps what a turn leaves for the next.
func (c *Controller) remember(taskID string, m memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[taskID]; !ok || m.empty() {
		delete(c.kept, taskID)
		return
	}
	c.kept[taskID] = m
}
