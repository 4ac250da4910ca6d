package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/moment"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// observe gathers what is known: the gang, then what else a turn is judged by.
func (c *Controller) observe(ctx context.Context, key api.Key) (snapshot, error) {
	g, err := c.cfg.Gangs.Look(ctx, key)
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{Gang: g, archiveAfter: c.cfg.ArchiveAfter, mark: markOf(c.cfg.Clock)}
	s.stay = c.kept.hasToStay(s.Task) || s.Inside()
	guest, _ := c.kept.guestOf(s.Task.Meta.ID)
	s.guest, s.base = guest.Name, c.kept.baseOf(s.Task)
	if s.homeless, err = c.environments(ctx, &s); err != nil {
		return snapshot{}, err
	}
	if c.cfg.Checkpoints != nil {
		s.origins, s.took = c.cfg.Checkpoints.Origins(ctx, &s.Gang), c.cfg.Checkpoints.Took(s.Task.Meta.ID)
		s.saved = c.cfg.Checkpoints.Newest(s.Task.Meta.ID)
	}
	if s.isFresh() {
		if _, err := c.recipe(&s.Gang, s.Task); err != nil {
			s.unfit = fault.From(err)
		}
	}
	return s, nil
}

// markOf is now by both clocks; nil where there is only one.
func markOf(c clock.Clock) *moment.Mark {
	boot, up := clock.Up(c)
	if boot == "" {
		return nil
	}
	return &moment.Mark{At: c.Now().UTC().Round(0), Boot: boot, Up: api.Duration(up)}
}

// environments looks whether all environments of a guest are as they were when it got its place; nil: they are.
func (c *Controller) environments(ctx context.Context, s *snapshot) (*loss, error) {
	if s.Placement == nil {
		return nil, nil
	}
	for _, l := range s.Placement.Spec.Inside {
		o, err := c.cfg.Store.Get(ctx, l.Key(s.Task.Meta.Project), 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		env, ok := api.WorkloadOf(o)
		if err != nil || !ok || o.GetMeta().ID != l.TaskID {
			return environmentStopped(l.Task), nil
		}
		switch {
		case env.Stop:
			return environmentStopped(l.Task), nil
		case !env.Host.Admit(env.Meta.Owner, s.Task.Meta.Owner):
			return environmentClosed(l.Task, env.Meta.Owner), nil
		case env.Phase.Finished() || env.AttemptOf(l.Role) != l.Attempt || !runs(c.cfg.Engine, l):
			return environmentLost(l.Task), nil
		}
		leaves, err := c.leaves(ctx, s.Task.Meta.Project, l)
		if err != nil {
			return nil, err
		}
		if leaves {
			return environmentLost(l.Task), nil
		}
	}
	return nil, nil
}

// runs says that the environment's replica lives.
func runs(e engine.Engine, l api.Lender) bool {
	name := engine.NameOf(l.TaskID, l.Role, 0, l.Attempt)
	for _, ob := range e.Replicas(l.TaskID) {
		if ob.Name == name {
			return ob.State == engine.StateRunning
		}
	}
	return false
}

// leaves says that the environment was asked to leave its place, or has.
func (c *Controller) leaves(ctx context.Context, project string, l api.Lender) (bool, error) {
	o, err := c.cfg.Store.Get(ctx, api.PlaceKey(project, l.TaskID), 0)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p := o.(*api.Placement)
	return p.Spec.Evict != nil, nil
}

// recipe is what the framework adds on this placement; nil for a plain command.
func (c *Controller) recipe(g *gang.Gang, task *api.TrainingTask) (*recipe.Recipe, error) {
	spec := &task.Spec
	if !recipe.Needed(spec) {
		return nil, nil
	}
	in := recipe.Input{Spec: spec, Live: true}
	for _, i := range g.Order {
		m := &g.Members[i]
		one := recipe.Group{Role: m.Role, Index: m.Index, Node: m.Node, Address: recipe.HostToken(len(in.Groups)), Ranks: g.RanksAt(m.Role, api.Slot{Devices: m.Devices}, recipe.Ranks)}
		if n := c.cfg.Gangs.Node(m.Number); n != nil {
			one.Devices = gang.DevicesOf(n, m.Devices)
		}
		in.Groups = append(in.Groups, one)
	}
	return recipe.Make(in)
}
