package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/fermi-cluster/fermi/internal/selection"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// MaxShownRanks bounds an answer: the processes of a role differ in their numbers only.
const MaxShownRanks = 8

// checkRecipe refuses a task whose framework could never start as it says.
func checkRecipe(t *api.TrainingTask) error {
	if !recipe.Needed(&t.Spec) || len(t.Spec.Inside) > 0 { // that depends on its environments
		return nil
	}
	_, err := recipe.Make(recipe.Unplaced(&t.Spec, nil))
	return err
}

// recipe shows what would be made of a task.
func (s *Previews) recipe(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	task, err := s.wish(ctx, c, "previewRecipe")
	if err != nil {
		return nil, err
	}
	in, err := s.recipeInput(ctx, c.Who, task)
	if err != nil {
		return nil, err
	}
	made, err := recipe.Make(in)
	if err != nil {
		return nil, err
	}
	out := made.Summary(MaxShownRanks)
	out.Warnings = append(out.Warnings, fault.T(
		"Addresses and ports are examples: they are settled when the task is placed.", "地址与端口为示例，放置后才会确定。"))
	return &rest.Reply{Data: out}, nil
}

// recipeInput is what is known of a task's place before it has one: of environments all, elsewhere what its devices are.
func (s *Previews) recipeInput(ctx context.Context, who *access.Caller, task *api.TrainingTask) (recipe.Input, error) {
	if len(task.Spec.Inside) > 0 {
		found, err := s.around.environments(ctx, who, task.Meta.Project, "spec.inside", task.Spec.Inside)
		return selection.Input(&task.Spec, found), err
	}
	nodes, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return recipe.Input{}, err
	}
	look := func(deviceType string) (found api.Device, ok bool) {
		nodes.Ascend("", func(o api.Object) bool {
			for _, d := range o.(*api.Node).Spec.Devices {
				if deviceType == "" || api.FoldDevice(d.Type) == api.FoldDevice(deviceType) {
					found, ok = d, true
					break
				}
			}
			return !ok
		})
		return found, ok
	}
	return recipe.Unplaced(&task.Spec, look), nil
}
