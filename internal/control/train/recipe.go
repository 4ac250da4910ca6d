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
	in := recipe.Input{Spec: spec, Lead: recipe.Lead{Port: recipe.PortOf(task.Meta.ID, task.Status.Attempt)}}
	ranks := map[string]int{}
	for i := range spec.Roles {
		ranks[spec.Roles[i].Name] = recipe.Ranks(spec.Framework, &spec.Roles[i])
	}
	for _, m := range s.members {
		g := recipe.Group{Role: m.role, Index: m.index, Node: m.node, Address: here, Ranks: ranks[m.role]}
		slot := slotOf(s.placement, m.role, m.index)
		if n := c.node(slot.Node); n != nil {
			g.Devices = devicesOf(n, slot)
		}
		in.Groups = append(in.Groups, g)
	}
	made, err := recipe.Make(in)
	if err != nil {
		return nil, err
	}
	return made, made.Startable()
}

// withRecipe gives member i its part.
func withRecipe(r *engine.Replica, made *recipe.Recipe, i int) {
	if made == nil {
		return
	}
	first := made.Leader(i)
	r.Command = first.Command
	r.Recipe = &engine.Recipe{Env: first.Env, Files: made.Files()}
}
