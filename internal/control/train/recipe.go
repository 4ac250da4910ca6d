package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// failUnfit fails a task whose framework can't be started on its placement.
func (s ending) failUnfit(p *plan, now time.Time) bool {
	if s.unfit == nil {
		return false
	}
	if s.endAll(p) {
		code := 1
		p.status.ExitCode = &code
		s.finish(p, now, api.PhaseFailed, s.unfit.Reason, s.unfit.Message)
	}
	return true
}

// cautions are what will work on this placement, but perhaps not as meant; each is told once an attempt.
func cautions(made *recipe.Recipe, attempt int) []event {
	if made == nil {
		return nil
	}
	var out []event
	for _, w := range made.Warnings() {
		out = append(out, event{Warning: true, Reason: "RecipeWarning", Message: w, Once: "recipe-" + itoa(attempt) + "-" + w.EN})
	}
	return out
}

// withRecipe gives the member at a place of the table its part.
func withRecipe(r *engine.Replica, made *recipe.Recipe, place int) {
	if made == nil {
		return
	}
	ranks := made.Group(place)
	if r.Elastic != nil {
		for i := range ranks {
			ranks[i].Env = slices.DeleteFunc(slices.Clone(ranks[i].Env), ofGeneration)
		}
	}
	r.Command = ranks[0].Command
	r.Recipe = &engine.Recipe{Env: ranks[0].Env, Files: made.Files()}
	r.Recipe.Ports, r.Recipe.Table = made.Ports(place)
	r.Recipe.Bare, r.Recipe.Hosts = made.Bare(), made.Groups()
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

// ofGeneration says that a variable is another one in every generation of an elastic task: the launcher
// sets it.
func ofGeneration(v api.EnvVar) bool {
	switch v.Name {
	case "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT":
		return true
	}
	return false
}
