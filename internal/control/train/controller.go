package train

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// History is what train needs of the past.
type History interface {
	history.Events
	history.Usage
	PutRun(ctx context.Context, r history.Run) error
	PutArchived(ctx context.Context, rows ...history.Archived) error
}

// Hub is what train needs of the link.
type Hub interface {
	// Attached says whether the replica's launcher is connected.
	Attached(name engine.Name) bool
	// Ranks is what the launcher told last about its ranks.
	Ranks(name engine.Name) (link.Ranks, bool)
	// Go tells it to start a generation; repeating is fine.
	Go(name engine.Name, attempt int, g link.Generation) error
	// Watermark tells it the newest step that every rank holds, and what of it to persist.
	Watermark(name engine.Name, w link.Watermark) error
	// AskRank has a launcher do something to a rank, or look at it.
	AskRank(ctx context.Context, name engine.Name, p link.Probe) (link.Probed, error)
}

// Config makes a Controller.
type Config struct {
	Store   store.ReadWriter
	History History
	Engine  engine.Engine
	Hub     Hub
	Clock   clock.Clock
	Log     *slog.Logger
	// EraseBytes deletes a task's logs and outputs.
	EraseBytes func(ctx context.Context, taskID string) error
	// Away finds the task another place without a node, or without the rack, leaf or zone it is in as kind says, and has it go there;
	// an error says that it stays. Nil: tasks never move.
	Away func(ctx context.Context, task *api.TrainingTask, node, kind string) error
	// Repo is the checkpoints of a task in a tier; of link.TierLocal their records. Nil, also for a tier: there
	// are none.
	Repo func(tier, taskID string) (*ckpt.Repo, error)
	// Room says whether another checkpoint of a task may go to the shared store; nil: always. It must not block.
	Room func(ctx context.Context, task *api.TrainingTask) bool
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
	loop  *reconcile.Loop      // nil while not leading
	nodes map[uint32]*api.Node // by number; replaced, never changed
	keys  map[string]api.Key   // task id → key
	marks *watermarks          // nil while not leading
	lent  map[string]api.Key   // task id → who is inside it
	stays map[string]int       // task id → generation whose failure no other place was found for
	paces map[api.Key]pace     // of large tasks
	bases map[string]base      // by work
	bills map[string]uint64    // task id → what the usage rows of this leader say

	durable map[string]*checkpoints             // task id → its checkpoints
	away    map[string]time.Time                // task id → until when it is not asked for them again
	held    map[string]api.CheckpointOrigin     // task id → the checkpoint of another that it begins from
	took    map[string]map[string]time.Duration // task id → tier → how long the last checkpoint took to get there
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	feed := c.cfg.Store.Subscribe(api.KindTrainingTask, api.KindPlacement, api.KindNode)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{Name: "train", Reconciler: c, Workers: c.cfg.Workers, Clock: c.cfg.Clock, Log: c.cfg.Log})
	c.mu.Lock()
	c.epoch, c.loop, c.nodes, c.keys = epoch, loop, map[uint32]*api.Node{}, map[string]api.Key{}
	c.stays, c.paces, c.bills = map[string]int{}, map[api.Key]pace{}, map[string]uint64{}
	c.lent, c.bases = map[string]api.Key{}, map[string]base{}
	c.durable, c.away, c.held = map[string]*checkpoints{}, map[string]time.Time{}, map[string]api.CheckpointOrigin{}
	c.took = map[string]map[string]time.Duration{}
	marks := newWatermarks()
	c.marks = marks
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop, c.marks = nil, nil
		c.mu.Unlock()
	}()
	if err := c.fill(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { c.follow(ctx, feed) })
	wg.Go(func() { c.watch(ctx, marks) })
	err := loop.Run(ctx)
	wg.Wait()
	return err
}

func (c *Controller) fill(ctx context.Context) error {
	for _, kind := range []api.Kind{api.KindNode, api.KindTrainingTask, api.KindPlacement} {
		snap, err := c.cfg.Store.List(ctx, kind, "", 0)
		if err != nil {
			return err
		}
		snap.Ascend("", func(o api.Object) bool {
			c.change(store.Change{Key: api.KeyOf(o), New: o})
			return true
		})
	}
	return nil
}

func (c *Controller) follow(ctx context.Context, feed *store.Feed) {
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return
		}
		for _, ch := range changes {
			c.change(ch)
		}
	}
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
			c.nodes[n.Spec.Number] = n
		}
	case api.KindTrainingTask:
		c.wakeGuest(ch)
		if ch.New != nil {
			c.keys[ch.New.GetMeta().ID] = ch.Key
			c.noteBase(ch.New.(*api.TrainingTask))
			c.noteHeld(ch.New.(*api.TrainingTask))
			if idle(ch.New.(*api.TrainingTask)) {
				return
			}
		} else {
			delete(c.keys, ch.Old.GetMeta().ID)
			delete(c.stays, ch.Old.GetMeta().ID)
			delete(c.bills, ch.Old.GetMeta().ID)
			delete(c.durable, ch.Old.GetMeta().ID)
			delete(c.away, ch.Old.GetMeta().ID)
			delete(c.held, ch.Old.GetMeta().ID)
			delete(c.took, ch.Old.GetMeta().ID)
			delete(c.paces, ch.Key)
		}
		c.loop.Add(ch.Key)
	case api.KindPlacement:
		if owner, ok := c.keys[ch.Key.Name]; ok { // else it is of another kind
			c.lending(ch, owner)
			c.loop.Add(owner)
		}
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
	c.wake(taskID)
	key, ok := c.keys[taskID]
	if ok {
		c.loop.AddAfter(key, c.paces[key].left(c.cfg.Clock.Now()))
	}
	return ok
}

func (c *Controller) node(number uint32) *api.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[number]
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
	c.paced(key, len(s.members))
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

// observe gathers what is known: the store at one revision, then the engine and the link.
func (c *Controller) observe(ctx context.Context, key api.Key) (seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if err != nil {
		return seen{}, err
	}
	s := seen{task: o.(*api.TrainingTask), archiveAfter: c.cfg.ArchiveAfter}
	if po, err := c.cfg.Store.Get(ctx, api.PlaceKey(key.Project, s.task.Meta.ID), 0); err == nil {
		s.placement = po.(*api.Placement)
	} else if !fault.Is(err, fault.NotFound) {
		return seen{}, err
	}
	replicas := c.cfg.Engine.Replicas(s.task.Meta.ID)
	known := make(map[engine.Name]engine.Observation, len(replicas))
	for _, ob := range replicas {
		known[ob.Name] = ob
	}
	s.stay = c.staysIn(s.task) || s.inside()
	s.guest, s.base = c.guestOf(s.task.Meta.ID), c.baseOf(s.task)
	if s.homeless, err = c.environments(ctx, &s); err != nil {
		return seen{}, err
	}
	c.muster(&s, known)
	s.table()
	s.durable, s.took = c.keeps(&s), c.tookOf(s.task.Meta.ID)
	c.origins(ctx, &s)
	if s.starts() {
		if _, err := c.recipe(s, s.task); err != nil {
			s.unfit = fault.From(err)
		}
	}
	for _, ob := range known {
		s.others = append(s.others, ob)
	}
	slices.SortFunc(s.others, func(a, b engine.Observation) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return s, nil
}

// torn says that the task was read before and the placement after the write that moved both on.
func (s *seen) torn() bool {
	phase := s.task.Status.Phase
	return s.placement != nil && s.placement.Spec.Attempt > s.task.Status.Attempt && phase != "" && phase != api.PhasePending && !phase.Finished()
}

// members lists the replicas the current attempt must have, and takes them out of known.
func (c *Controller) members(s seen, roles []api.RoleAssignment, known map[engine.Name]engine.Observation) []member {
	total := 0
	for i := range roles {
		total += len(roles[i].Slots)
	}
	out := make([]member, 0, total)
	for _, role := range roles {
		for i, slot := range role.Slots {
			index, attempt := role.Index(i), s.task.Status.AttemptOf(role.Role)
			out = append(out, member{
				name: engine.NameOf(s.task.Meta.ID, role.Role, index, attempt), role: role.Role, index: index, attempt: attempt,
				number: slot.Node, devices: slot.Devices, ranks: s.ranksAt(role.Role, slot, recipe.Started), lender: s.lender(index),
			})
			m := &out[len(out)-1]
			if n := c.node(slot.Node); n != nil {
				m.node, m.zone, m.leaf, m.rack = n.Meta.Name, n.Spec.Zone, n.Spec.Leaf, n.Spec.Rack
				m.peak, m.virtual = peakOf(n, slot.Devices), n.Spec.Virtual
				m.closed = n.Spec.Cordoned || n.Meta.DeletedAt != nil
				m.usable = n.Status.Ready && !m.closed
			}
			if ob, ok := known[m.name]; ok {
				m.state, m.exit, m.observed = ob.State, ob.Exit, ob
				delete(known, m.name)
			}
			m.attached = c.cfg.Hub.Attached(m.name)
			m.said, _ = c.cfg.Hub.Ranks(m.name)
		}
	}
	return out
}
