package server

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/train"
)

const recipePath = "/api/v1/training-tasks/recipe"

func TestRecipeRoute(t *testing.T) {
	w := newWorld(t)
	w.put(&api.Node{Meta: api.Meta{Name: "n"}, Spec: api.NodeSpec{Number: 7, Zone: "z", Devices: []api.Device{{Type: "A100", Vendor: "nvidia", Virtual: true}}}})
	var r api.Recipe
	w.ok("POST", recipePath, manifest("a", func(t *api.TrainingTask) {
		t.Spec.Framework, t.Spec.Roles[0].Replicas, t.Spec.Roles[0].Resources.Accelerators = "pytorch-ddp", 14, api.Accelerators{Type: "A100", Count: 1}
	}), &r)
	if r.RankCount != 14 || len(r.Ranks) != train.MaxShownRanks || r.Sizes.Data != 14 || r.Ranks[0].Backend != "gloo" || len(r.Files) == 0 {
		t.Errorf("%+v", r)
	}
	if r.Files[0].Name != "pytorch_ddp_config.yaml" || !strings.Contains(r.Files[0].Text, "world_size: 14\n  nnodes: 14\n") {
		t.Errorf("%+v", r.Files[0])
	}
	// mpirun over several replicas starts the others by our rsh agent.
	w.ok("POST", recipePath, `{"spec":{"framework":"mpi","roles":[{"command":["x"],"replicas":2}]}}`, &r)
	if first, second := strings.Join(r.Ranks[0].Command, " "), strings.Join(r.Ranks[1].Command, " "); !strings.HasPrefix(first, "fermi rsh lead -- mpirun ") || second != "fermi rsh serve" {
		t.Errorf("%q %q", first, second)
	}
	var page struct{ Items []any }
	w.ok("GET", "/api/v1/training-tasks", nil, &page)
	if len(page.Items) != 0 {
		t.Errorf("%d tasks were made", len(page.Items))
	}
}

// TestRecipesAreChecked: what could never start is refused where it is submitted, previewed or shown.
func TestRecipesAreChecked(t *testing.T) {
	w := newWorld(t)
	seed := `{"metadata":{"name":"seed"},"spec":{"framework":"deepspeed","strategy":{"data":2,"pipeline":4,"tensor":8},"roles":[{"command":["x"],"replicas":14}]}}`
	for _, path := range []string{"/api/v1/training-tasks", "/api/v1/placements/preview"} {
		w.refused("POST", path, seed, 400, "BadRecipe")
	}
	w.refused("POST", recipePath, seed, 400, "BadRecipe")
	w.refused("POST", recipePath, `{"spec":{"framework":"x","roles":[{"command":["x"]}]}}`, 400, "InvalidField")
	w.refused("POST", recipePath, `{"spec":{"strategy":{"kind":"ddp"},"roles":[{"command":["x"]}]}}`, 400, "BadRecipe")
	w.refused("POST", recipePath, `{"spec":{"framework":"mpi","strategy":{"tensr":2},"roles":[{"command":["x"]}]}}`, 400, "UnknownField")
	var made train.Submitted
	w.ok("POST", "/api/v1/training-tasks", `{"metadata":{"name":"good"},"spec":{"framework":"deepspeed","strategy":{"data":7,"tensor":2},"roles":[{"command":["x"],"replicas":14}]}}`, &made)
	if made.DistributedInfo.Framework != "deepspeed" {
		t.Errorf("%+v", made)
	}
}

// TestRecipeInside: what runs inside environments has a process for each device that is there, as many as differ.
func TestRecipeInside(t *testing.T) {
	w := newWorld(t)
	environment(w, "default", "small", "z", 101, 2)
	environment(w, "default", "large", "z", 102, 4)
	guest := func(change func(*api.TrainingTaskSpec)) *api.TrainingTask {
		return manifest("guest", func(t *api.TrainingTask) {
			t.Spec.Inside, t.Spec.Roles[0].Replicas, t.Spec.Roles[0].Resources = []string{"large", "small"}, 2, api.Resources{}
			change(&t.Spec)
		})
	}
	for want, change := range map[int]func(*api.TrainingTaskSpec){
		6:  func(s *api.TrainingTaskSpec) { s.Framework = "pytorch-ddp" },
		2:  func(s *api.TrainingTaskSpec) {},
		10: func(s *api.TrainingTaskSpec) { s.Framework, s.Roles[0].Ranks = "pytorch-ddp", 5 },
	} {
		var r api.Recipe
		if w.ok("POST", recipePath, guest(change), &r); r.RankCount != want || r.Sizes.Nodes != 2 {
			t.Errorf("%d processes in %d replicas instead of %d", r.RankCount, r.Sizes.Nodes, want)
		}
	}
	var r api.Recipe
	w.ok("POST", recipePath, guest(func(s *api.TrainingTaskSpec) { s.Framework = "pytorch-ddp" }), &r)
	if last := r.Ranks[5]; last.Backend != "nccl" || last.Replica != 1 || !slices.ContainsFunc(r.Warnings, func(w fault.Text) bool {
		return strings.Contains(w.EN, "different numbers of devices (2 to 4)")
	}) {
		t.Errorf("%+v %v", last, r.Warnings)
	}
	split := guest(func(s *api.TrainingTaskSpec) { s.Framework, s.Strategy = "megatron-lm", &api.Strategy{Tensor: 3} })
	if got := w.refused("POST", recipePath, split, 400, "BadRecipe"); got.Fields[0].Path != "spec.strategy.tensor" {
		t.Errorf("%+v", got)
	}
	waits := environment(w, "default", "waits", "z", 103, 1)
	waits.Status.Phase = api.PhasePending
	w.put(waits)
	none := guest(func(s *api.TrainingTaskSpec) { s.Inside[1] = "waits" })
	if got := w.refused("POST", recipePath, none, 400, "BadSelection"); got.Fields[0].Path != "spec.inside[1]" {
		t.Errorf("%+v", got)
	}
}
