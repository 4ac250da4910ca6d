package train

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// here is where every replica is reached: the engine there is starts them all on this machine.
const here = "127.0.0.1"

// recipe is what the framework adds on this placement; nil for a plain command.
func (c *Controller) recipe(s seen, task *api.TrainingTask) (*recipe.Recipe, error) {
	spec := &task.Spec
	if !recipe.Needed(spec) {
		return nil, nil
	}
	in := recipe.Input{Spec: spec, Live: true}
	for _, i := range s.order {
		m := &s.members[i]
		slot := slotOf(s.placement, m.role, m.index)
		g := recipe.Group{Role: m.role, Index: m.index, Node: m.node, Address: here, Ranks: s.ranksAt(m.role, slot, recipe.Ranks)}
		if n := c.node(slot.Node); n != nil {
			g.Devices = devicesOf(n, slot)
		}
		in.Groups = append(in.Groups, g)
	}
	return recipe.Make(in)
}

// withRecipe gives the member at a place of the table its part.
func withRecipe(r *engine.Replica, made *recipe.Recipe, place int) {
	if made == nil {
		return
	}
	ranks := made.Group(place)
	r.Command = ranks[0].Command
	r.Recipe = &engine.Recipe{Env: ranks[0].Env, Files: made.Files()}
	r.Recipe.Ports, r.Recipe.Table = made.Ports(place)
	r.Recipe.Bare = made.Bare()
	if r.Ranks > 1 {
		for _, rank := range ranks {
			r.Recipe.Each = append(r.Recipe.Each, rank.Env)
		}
	}
}

// standbyOf is a role's wish for a standby; what it does not say follows from the framework.
func standbyOf(spec *api.TrainingTaskSpec, role *api.Role) *api.Standby {
	if role.Standby != nil && (role.Standby.Disabled || role.Standby.Preload != nil) || !recipe.Torch(spec.Framework) {
		return role.Standby
	}
	return &api.Standby{Preload: []string{"torch"}}
}
