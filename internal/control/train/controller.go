package train

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/train/bill"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// History is what train needs of the past.
type History interface {
	history.Events
	bill.History
	PutArchived(ctx context.Context, rows ...history.Archived) error
}

// Hub is what train needs of the link.
type Hub interface {
	// Go tells it to start a generation; repeating is fine.
	Go(name engine.Name, attempt int, g link.Generation) error
	// AskRank has a launcher do something to a rank, or look at it.
	AskRank(ctx context.Context, name engine.Name, p link.Probe) (link.Probed, error)
}

// Checkpoints is what train needs of saves.
type Checkpoints interface {
	// Origins are the checkpoints that a task could begin from. Where a store is away it says so, and does not wait for it.
	Origins(ctx context.Context, g *gang.Gang) save.Origins
	// Took is how long the last checkpoint took until a tier had it, by tier.
	Took(taskID string) map[string]time.Duration
	// Newest is the newest checkpoint that this leader committed; nil: none.
	Newest(taskID string) *api.SavedStep
}

// Config makes a Controller.
type Config struct {
	Store   store.ReadWriter
	History History
	Engine  engine.Engine
	Hub     Hub
	// Gangs looks at the replicas of tasks; the controller tells it of nodes that change.
	Gangs *gang.Observer
	// Checkpoints are those of tasks; nil: there are none.
	Checkpoints Checkpoints
	Clock       clock.Clock
	Log         *slog.Logger
	// EraseBytes deletes a task's logs and outputs.
	EraseBytes func(ctx context.Context, taskID string) error
	// Away finds the task another place without a node, or without the rack, leaf or zone it is in as kind says, and has it go there;
	// an error says that it stays. Nil: tasks never move.
	Away func(ctx context.Context, task *api.TrainingTask, node, kind string) error
	// UID is a project's on machines that keep projects apart; nil or 0: none.
	UID func(ctx context.Context, project string, fence store.Epoch) (int, error)
	// Folders are the names of the machines' folders that a project was granted; nil: none.
	Folders func(ctx context.Context, project string) ([]string, error)
	// ArchiveAfter is how long a finished task stays in the store.
	ArchiveAfter time.Duration
	Workers      int
	// Recoveries counts failures and ways back; nil: nobody does.
	Recoveries *telemetry.Recoveries
}

// Controller keeps training tasks true while its server leads. One Run at a time.
type Controller struct {
	cfg   Config
	epoch store.Epoch
	mu    sync.Mutex
	loop  *reconcile.Loop // nil while not leading
	kept  *memory         // of this leadership
	book  *bill.Book
}

// NewGangs makes what looks at the replicas of tasks, for this controller and for that of their checkpoints: both must see the same.
func NewGangs(s store.Reader, e gang.Engine, h gang.Hub) *gang.Observer {
	return gang.NewObserver(s, e, h, blame.Avoid)
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg, kept: newMemory()} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.Subscribe(append(api.WorkKinds(), api.KindPlacement, api.KindNode)...)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "train", Reconciler: c, Workers: c.cfg.Workers, Clock: c.cfg.Clock, Log: c.cfg.Log})
	c.mu.Lock()
	c.epoch, c.loop, c.book = epoch, loop, bill.NewBook(c.cfg.Store, c.cfg.History, c.cfg.Gangs.Node)
	c.kept.reset()
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop = nil
		c.mu.Unlock()
	}()
	if err := c.fill(ctx); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, c.change) })
}

func (c *Controller) fill(ctx context.Context) error {
	if err := c.cfg.Gangs.Fill(ctx); err != nil {
		return err
	}
	return store.Fill(ctx, c.cfg.Store, c.change, api.KindTrainingTask, api.KindPlacement)
}

// change files one change of the store and asks for the turns it calls for.
func (c *Controller) change(ch store.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop == nil {
		return
	}
	switch ch.Key.Kind {
	case api.KindNode:
		if n, ok := ch.New.(*api.Node); ok {
			c.cfg.Gangs.Note(n)
			old, _ := ch.Old.(*api.Node)
			for _, key := range c.kept.heldOtherwise(old, n) {
				c.loop.Add(key)
			}
		}
	case api.KindTrainingTask:
		for _, o := range []api.Object{ch.New, ch.Old} {
			if o != nil {
				c.wakeGuest(o.GetMeta().ID)
			}
		}
		if ch.New == nil {
			c.kept.forget(ch.Key, ch.Old.GetMeta().ID)
			c.book.Forget(ch.Old.GetMeta().ID)
		} else {
			task := ch.New.(*api.TrainingTask)
			if c.kept.note(ch.Key, task); idle(task) {
				return
			}
		}
		c.loop.Add(ch.Key)
	case api.KindPlacement:
		if owner, ok := c.kept.keyOf(ch.Key.Name); ok { // else it is of another kind
			for _, key := range c.kept.lend(ch, owner) {
				c.loop.Add(key)
			}
			c.loop.Add(owner)
		} else {
			c.wakeGuest(ch.Key.Name)
		}
	default: // work of another kind, which a task may be inside of
		for _, o := range []api.Object{ch.New, ch.Old} {
			if o != nil {
				c.wakeGuest(o.GetMeta().ID)
			}
		}
	}
}

// wakeGuest asks for a turn of who is inside a task. The lock is held.
func (c *Controller) wakeGuest(id string) {
	if guest, ok := c.kept.guestOf(id); ok {
		c.loop.Add(guest)
	}
}

// idle says that a waiting task needs no turn: 100,000 queued tasks must not cost 100,000 turns.
func idle(t *api.TrainingTask) bool {
	return t.Status.Phase == api.PhasePending && t.Status.Attempt == 0 && !t.Spec.Stop && t.Meta.DeletedAt == nil &&
		(t.Spec.Timeouts == nil || t.Spec.Timeouts.Pending == 0)
}

// Notify says that something about a replica changed; false: its owner is no task, or gone. It never blocks.
func (c *Controller) Notify(taskID string, _ engine.Name) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop == nil {
		return false
	}
	c.wakeGuest(taskID)
	key, ok := c.kept.keyOf(taskID)
	if ok {
		c.loop.AddAfter(key, c.kept.pause(key, c.cfg.Clock.Now()))
	}
	return ok
}

// Reconcile is one turn for one task.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	s, err := c.observe(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.torn() {
		return reconcile.Result{Wake: afterRemove}, nil
	}
	c.kept.hadTurn(key, len(s.Members), c.cfg.Clock.Now())
	p := decide(s, c.cfg.Clock.Now().UTC())
	if err := c.apply(ctx, s, p); err != nil {
		return reconcile.Result{}, err
	}
	if len(p.remove) > 0 && (p.wake == 0 || p.wake > afterRemove) {
		p.wake = afterRemove // a removal is told by nobody
	}
	return reconcile.Result{Wake: p.wake}, nil
}

const afterRemove = 20 * time.Millisecond

// Probed is where a probe went and what came of it.
type Probed struct {
	Replica    engine.Name
	Node       string
	Generation int
	link.Probed
}

// Probe has something done to a rank of a running task, or has it looked at, by its launcher. Fault
// NotFound where there is no such rank, Conflict where the launcher refuses, Unavailable where it is not
// there or this server does not lead. Safe for concurrent use.
func (c *Controller) Probe(ctx context.Context, task *api.TrainingTask, rank int, kind string) (Probed, error) {
	out, err := c.RankOf(ctx, task, rank)
	if err != nil {
		return out, err
	}
	out.Probed, err = c.cfg.Hub.AskRank(ctx, out.Replica, link.Probe{Generation: int64(out.Generation), Rank: rank, Kind: kind})
	if err == nil && out.Refused != (fault.Text{}) {
		err = fault.New(fault.Conflict, "Refused", out.Refused)
	}
	return out, err
}

// RankOf says where a rank is; nothing is asked of it. Faults are those of Probe.
func (c *Controller) RankOf(ctx context.Context, task *api.TrainingTask, rank int) (Probed, error) {
	s, err := c.observe(ctx, api.KeyOf(task))
	if err != nil {
		return Probed{}, err
	}
	if s.Task.Status.Rendezvous == nil {
		return Probed{}, fault.New(fault.Conflict, "NotRunning", fault.T("The task does not run yet.", "任务尚未运行。"))
	}
	for i := range s.Members {
		if m := &s.Members[i]; rank >= m.First && rank < m.First+m.Ranks {
			return Probed{Replica: m.Name, Node: m.Node, Generation: s.Task.Status.Generation}, nil
		}
	}
	return Probed{}, fault.New(fault.NotFound, "NoSuchRank", fault.T("The task has no rank %d; its ranks are 0 to %d.", "任务没有 rank %d；其 rank 为 0 至 %d。", rank, s.World-1))
}
