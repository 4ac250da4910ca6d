package work

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Rules are what one kind adds to what all have.
type Rules interface {
	// Kind is the kind's name in the table.
	Kind() api.Kind
	// Decide is the whole judgement: a pure function of what is seen.
	Decide(s *Seen, now time.Time) Plan
	// Fill completes what the engine is told about a replica; what every kind has stands there already.
	Fill(w api.Work, role *api.Role, r *engine.Replica)
}

// Looker is who needs more of the world for its judgement than all need.
type Looker interface {
	// Look completes what was seen. What can't be had now is left out.
	Look(ctx context.Context, s *Seen, now time.Time)
}

// Engine is what controllers need of the engine port.
type Engine interface {
	Start(ctx context.Context, r engine.Replica) error
	Stop(ctx context.Context, name engine.Name, grace time.Duration) error
	Remove(ctx context.Context, name engine.Name) error
	Replicas(taskID string) []engine.Observation
}

// Hub is what they need of the link.
type Hub interface {
	// Attached says whether the replica's launcher is connected.
	Attached(name engine.Name) bool
	// Ranks is what the launcher told last about its processes.
	Ranks(name engine.Name) (link.Ranks, bool)
	// Silence is how long a launcher has said nothing that it should have said, in time in which somebody listened; known is
	// false where it never said anything.
	Silence(name engine.Name) (silent time.Duration, known bool)
	// Go tells it to start them; repeating is fine.
	Go(name engine.Name, attempt int, g link.Generation) error
	// AskRank has a launcher do something, or tell something, and waits for its answer. Fault Unavailable: it can't be reached now.
	AskRank(ctx context.Context, name engine.Name, p link.Probe) (link.Probed, error)
}

// History is what they need of the past.
type History interface {
	history.Events
	history.Usage
	history.Served
	PutArchived(ctx context.Context, rows ...history.Archived) error
	GetArchived(ctx context.Context, kind api.Kind, project, nameOrID string) (history.Archived, error)
}

// Config makes a Controller.
type Config struct {
	Rules   Rules
	Store   store.ReadWriter
	History History
	Engine  Engine
	Hub     Hub
	Clock   clock.Clock
	Log     *slog.Logger
	// EraseBytes deletes logs and outputs by the owner's id.
	EraseBytes func(ctx context.Context, id string) error
	// Print adds whole lines to the log of something by its id, and says up to where they are kept for good; nil: nobody keeps them.
	Print func(ctx context.Context, id, of string, offset int64, lines []byte) (durable int64, err error)
	// UID is a project's on machines that keep projects apart; nil or 0: none.
	UID func(ctx context.Context, project string, fence store.Epoch) (int, error)
	// Folders are the names of the machines' folders that a project was granted; nil: none.
	Folders func(ctx context.Context, project string) ([]string, error)
	// DropHome deletes the home of this name, that replicas in this zone had; none is fine.
	DropHome func(ctx context.Context, name, zone string) error
	// Output reads a file that a replica left, of so many bytes at most, once it has handed over. Fault NotFound: it left none.
	Output func(ctx context.Context, replica engine.Name, file string, most int64) ([]byte, error)
	// ArchiveAfter is how long what is finished stays in the store.
	ArchiveAfter time.Duration
	Workers      int
}

// Controller keeps the work of one kind true while its server leads. One Run at a time.
type Controller struct {
	cfg   Config
	epoch store.Epoch
	mu    sync.Mutex
	loop  *reconcile.Loop      // nil while not leading
	nodes map[uint32]*api.Node // by number
	named map[string]*api.Node
	keys  map[string]api.Key // id → key
	lent  guests
}

// New makes a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	kinds := []api.Kind{api.KindNode, c.cfg.Rules.Kind(), api.KindPlacement}
	feed := c.cfg.Store.Subscribe(kinds...)
	defer feed.Close()
	loop := reconcile.New(reconcile.Config{
		Name: strings.ToLower(string(c.cfg.Rules.Kind())), Reconciler: c, Workers: max(c.cfg.Workers, 1), Clock: c.cfg.Clock, Log: c.cfg.Log,
	})
	c.mu.Lock()
	c.epoch, c.loop, c.nodes, c.named, c.keys, c.lent = epoch, loop, map[uint32]*api.Node{}, map[string]*api.Node{}, map[string]api.Key{}, guests{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.loop = nil
		c.mu.Unlock()
	}()
	if err := store.Fill(ctx, c.cfg.Store, c.change, kinds...); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, c.change) })
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
			c.know(n)
		}
	case api.KindPlacement:
		for _, id := range append(c.lent.note(ch), ch.Key.Name) {
			if key, ok := c.keys[id]; ok { // else it is of another kind
				c.loop.Add(key)
			}
		}
	default:
		if ch.Old != nil && (ch.New == nil || ch.New.GetMeta().ID != ch.Old.GetMeta().ID) {
			delete(c.keys, ch.Old.GetMeta().ID)
		}
		if ch.New == nil {
			return // its replicas are gone, or orphans
		}
		c.keys[ch.New.GetMeta().ID] = ch.Key
		// One that waits needs no turn before it has a place or somebody wants something else of it.
		if w, _ := api.WorkloadOf(ch.New); w.Phase != api.PhasePending || w.Attempt > 0 || w.Stop {
			c.loop.Add(ch.Key)
		}
	}
}

// know files a node, and asks for the turns of those of whom a replica was given up there or is so no more. mu held.
func (c *Controller) know(n *api.Node) {
	var before hold.List
	if old := c.named[n.Meta.Name]; old != nil {
		before = old.Status.Holds
	}
	c.nodes[n.Spec.Number], c.named[n.Meta.Name] = n, n
	for _, two := range [][2]hold.List{{n.Status.Holds, before}, {before, n.Status.Holds}} {
		for i := range two[0] {
			if key, ok := c.keys[two[0][i].Owner]; ok && two[1].Of(two[0][i].Replica) == nil {
				c.loop.Add(key)
			}
		}
	}
}

// Notify says that something about a replica changed; false: its owner is not of this kind, or gone. It never
// blocks.
func (c *Controller) Notify(owner string, _ engine.Name) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop == nil {
		return false
	}
	key, ok := c.keys[owner]
	if ok {
		c.loop.Add(key)
	}
	return ok
}

// afterRemove is when to look again after a removal, which is told by nobody.
const afterRemove = 20 * time.Millisecond

// Reconcile is one turn for one object.
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
	if l, ok := c.cfg.Rules.(Looker); ok {
		l.Look(ctx, s, c.cfg.Clock.Now().UTC())
	}
	p := c.cfg.Rules.Decide(s, c.cfg.Clock.Now().UTC())
	if err := c.apply(ctx, s, p); err != nil {
		return reconcile.Result{}, err
	}
	if len(p.Remove) > 0 && (p.Wake == 0 || p.Wake > afterRemove) {
		p.Wake = afterRemove
	}
	return reconcile.Result{Wake: p.Wake}, nil
}

// observe gathers what is known: the store, then the engine and the link.
func (c *Controller) observe(ctx context.Context, key api.Key) (*Seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	w := o.(api.Work)
	s := &Seen{Work: w, View: w.Workload(), ArchiveAfter: c.cfg.ArchiveAfter}
	c.mu.Lock()
	s.Guest = c.lent.in(s.View.Meta.ID)
	c.mu.Unlock()
	if po, err := c.cfg.Store.Get(ctx, s.View.PlaceKey(), 0); err == nil {
		s.Placement = po.(*api.Placement)
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	known := map[engine.Name]engine.Observation{}
	for _, ob := range c.cfg.Engine.Replicas(s.View.Meta.ID) {
		known[ob.Name] = c.heed(s, ob)
	}
	if s.Placement != nil {
		c.muster(s, known)
	}
	for _, ob := range known {
		if !isGiven(s.Given, ob.Name) {
			s.Others = append(s.Others, ob)
		}
	}
	slices.SortFunc(s.Others, func(a, b engine.Observation) int { return strings.Compare(string(a.Name), string(b.Name)) })
	for _, ob := range s.Others {
		if silent := c.silenceOf(ob); silent > 0 {
			if s.Silence == nil {
				s.Silence = map[engine.Name]time.Duration{}
			}
			s.Silence[ob.Name] = silent
		}
	}
	return s, nil
}

// muster lists the replicas that the current attempt must have, and takes them out of known.
func (c *Controller) muster(s *Seen, known map[engine.Name]engine.Observation) {
	c.mu.Lock()
	nodes := c.nodes
	for _, role := range s.Placement.Spec.Roles {
		for i, slot := range role.Slots {
			m := Member{Role: role.Role, Index: role.Index(i), Attempt: s.View.AttemptOf(role.Role), Node: nodes[slot.Node], Devices: slot.Devices}
			m.Name = engine.NameOf(s.View.Meta.ID, m.Role, m.Index, m.Attempt)
			s.Members = append(s.Members, m)
		}
	}
	c.mu.Unlock()
	for i := range s.Members {
		m := &s.Members[i]
		if ob, ok := known[m.Name]; ok {
			m.Known = ob
			delete(known, m.Name)
		}
		m.Silent, m.Attached = c.silenceOf(m.Known), c.cfg.Hub.Attached(m.Name) && !isGiven(s.Given, m.Name)
		m.Said, _ = c.cfg.Hub.Ranks(m.Name)
	}
}

// Keeper keeps one kind of work true.
type Keeper interface {
	// Run works until ctx, which ends with the leadership, ends.
	Run(ctx context.Context, epoch store.Epoch) error
	// Notify says that something about a replica changed; false: its owner is not of this kind, or gone. It never
	// blocks.
	Notify(owner string, name engine.Name) bool
}

// Sweeper ends what has no owner.
type Sweeper interface {
	Run(ctx context.Context, epoch store.Epoch) error
	// Notify says that something about a replica changed whose owner no keeper knows. It never blocks.
	Notify(owner string)
}

// Crew are the keepers of all kinds, and who sweeps behind them.
type Crew struct {
	keepers []Keeper
	sweeper Sweeper
}

// NewCrew starts nothing.
func NewCrew(s Sweeper, keepers ...Keeper) *Crew { return &Crew{keepers, s} }

// Run works until ctx, which ends with the leadership, ends.
func (c *Crew) Run(ctx context.Context, epoch store.Epoch) error {
	var g run.Group
	for _, k := range c.keepers {
		g.Add("keeper", func(ctx context.Context) error { return k.Run(ctx, epoch) })
	}
	g.Add("sweeper", func(ctx context.Context) error { return c.sweeper.Run(ctx, epoch) })
	return g.Run(ctx)
}

// Notify hands a replica's news to whose it is; nobody's are swept. It never blocks.
func (c *Crew) Notify(owner string, name engine.Name) {
	for _, k := range c.keepers {
		if k.Notify(owner, name) {
			return
		}
	}
	c.sweeper.Notify(owner)
}
