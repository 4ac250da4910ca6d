package array

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/reconcile"
	"github.com/fermi-cluster/fermi/internal/store"
)

// lookAgain is how often an array looks for room that nobody tells it of.
const lookAgain = 10 * time.Second

// Controller keeps arrays true while its server leads. One Run at a time.
type Controller struct {
	cfg   work.Config
	ids   *id.Source
	epoch store.Epoch
}

// New makes a controller; it starts nothing.
func New(cfg work.Config, ids *id.Source) *Controller { return &Controller{cfg: cfg, ids: ids} }

// Notify is for those who have replicas of an engine; arrays have none.
func (*Controller) Notify(string, engine.Name) bool { return false }

// Run works until ctx, which ends with the leadership, ends.
func (c *Controller) Run(ctx context.Context, epoch store.Epoch) error {
	kinds := []api.Kind{kind.Kind, api.KindTrainingTask}
	feed := c.cfg.Store.Subscribe(kinds...)
	defer feed.Close()
	c.epoch = epoch
	loop := reconcile.New(reconcile.Config{Name: "array", Reconciler: c, Workers: max(c.cfg.Workers, 1), Clock: c.cfg.Clock, Log: c.cfg.Log})
	change := func(ch store.Change) {
		for _, o := range []api.Object{ch.Old, ch.New} {
			if o == nil {
				continue
			}
			if name := arrayOf(o); name != "" {
				loop.Add(api.Key{Kind: kind.Kind, Project: o.GetMeta().Project, Name: name})
			}
		}
	}
	if err := store.Fill(ctx, c.cfg.Store, change, kinds...); err != nil {
		return err
	}
	return loop.RunBeside(ctx, func() { feed.Each(ctx, change) })
}

// arrayOf is the name of the array whose turn it is when an object changed; "": none's.
func arrayOf(o api.Object) string {
	if o.Kind() == kind.Kind {
		return o.GetMeta().Name
	}
	return o.GetMeta().Labels[kind.Label]
}

// Reconcile is one turn for one array.
func (c *Controller) Reconcile(ctx context.Context, key api.Key) (reconcile.Result, error) {
	s, err := c.observe(ctx, key)
	if err != nil || s == nil {
		return reconcile.Result{}, err
	}
	p := decide(s, c.cfg.Clock.Now().UTC())
	if err := c.apply(ctx, s, &p); err != nil {
		return reconcile.Result{}, err
	}
	if p.status.Reason == "ProjectFull" && !p.status.Phase.Finished() {
		return reconcile.Result{Wake: lookAgain}, nil
	}
	return reconcile.Result{}, nil
}

// observe gathers what is known: first the array, whose revision guards the commit, then its tasks, which may only be newer. nil: there
// is no such array.
func (c *Controller) observe(ctx context.Context, key api.Key) (*seen, error) {
	o, err := c.cfg.Store.Get(ctx, key, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &seen{array: o.(*kind.TaskArray), taken: map[int]bool{}}
	for _, index := range living(s.array) {
		m := member{index: index}
		t, err := c.task(ctx, s.array, index)
		switch {
		case err == nil && arrayOf(t) == s.array.Meta.Name:
			m.task, m.phase = t, t.Status.Phase
		case err == nil || fault.Is(err, fault.NotFound):
			if m.phase, err = c.past(ctx, s.array, index); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
		s.members = append(s.members, m)
	}
	for _, index := range next(s.array) {
		if _, err := c.task(ctx, s.array, index); err == nil {
			s.taken[index] = true
		} else if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	s.room, err = c.room(ctx, key.Project)
	return s, err
}

func (c *Controller) task(ctx context.Context, a *kind.TaskArray, index int) (*api.TrainingTask, error) {
	o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindTrainingTask, Project: a.Meta.Project, Name: a.TaskName(index)}, 0)
	if err != nil {
		return nil, err
	}
	return o.(*api.TrainingTask), nil
}

// past is how a task ended that is no more in the store; "": nobody knows.
func (c *Controller) past(ctx context.Context, a *kind.TaskArray, index int) (api.Phase, error) {
	row, err := c.cfg.History.GetArchived(ctx, api.KindTrainingTask, a.Meta.Project, a.TaskName(index))
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if m := row.Object.GetMeta(); m.Labels[kind.Label] != a.Meta.Name || m.CreatedAt.Before(a.Meta.CreatedAt) {
		return "", nil
	}
	return api.Phase(row.Phase), nil
}

// room is how many objects a project may still have.
func (c *Controller) room(ctx context.Context, project string) (int, error) {
	o, err := c.cfg.Store.Get(ctx, api.Key{Kind: api.KindProject, Name: project}, 0)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	room := o.(*api.Project).StorageLimits().Objects
	for _, k := range api.WorkKinds() {
		snap, err := c.cfg.Store.List(ctx, k, project, 0)
		if err != nil {
			return 0, err
		}
		room -= snap.Len()
	}
	return room, nil
}
