package train

import (
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// onNodes is a controller that knows nodes of these types, 8 devices each, and a task of one replica
// on each with so many devices.
func onNodes(fw api.Framework, devices int, types ...string) (*Controller, seen) {
	c := &Controller{nodes: map[uint32]*api.Node{}}
	s := seen{task: task(api.PhaseInitializing, 1, 0), placement: placed()}
	s.task.Spec.Framework = fw
	s.task.Spec.Roles = []api.Role{{
		Name: "worker", Replicas: len(types), Command: []string{"python"}, Args: []string{"t.py"},
		Resources: api.Resources{Accelerators: api.Accelerators{Count: devices}},
	}}
	var slots api.Slots
	for i, name := range types {
		n := &api.Node{Meta: api.Meta{Name: "n" + itoa(i)}, Spec: api.NodeSpec{Number: uint32(i + 1)}}
		for d := range 8 {
			n.Spec.Devices = append(n.Spec.Devices, api.Device{Index: d, Type: name})
		}
		c.nodes[n.Spec.Number] = n
		slots = append(slots, api.Slot{Node: n.Spec.Number, Devices: 1<<devices - 1})
		s.members = append(s.members, at(i, 1, "", false, nil))
		s.members[i].ranks = recipe.Started(fw, &s.task.Spec.Roles[0])
		s.members[i].number, s.members[i].devices = n.Spec.Number, 1<<devices-1
	}
	s.table()
	s.placement.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: slots}}
	return c, s
}

func TestRecipeOfAPlacement(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 1, "A100", "A100")
	made, err := c.recipe(s, s.task)
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for i := range s.members {
		r := c.replica(&s.members[i], s.task)
		withRecipe(&r, made, i)
		env := map[string]string{}
		for _, v := range r.Recipe.Env {
			env[v.Name] = v.Value
		}
		if env["RANK"] != itoa(i) || env["WORLD_SIZE"] != "2" || env["LOCAL_RANK"] != "0" || env["MASTER_ADDR"] != recipe.LeadHostToken || env["FERMI_BACKEND"] != "nccl" {
			t.Errorf("replica %d: %v", i, env)
		}
		if len(r.Recipe.Files) == 0 || strings.Join(r.Command, " ") != "python t.py" {
			t.Errorf("%+v", r)
		}
		ports = append(ports, env["MASTER_PORT"])
	}
	if ports[0] != ports[1] || ports[0] != recipe.LeadPortToken {
		t.Errorf("they would meet at %v", ports)
	}
}

// TestPortsOfAGeneration: everybody is told the ports of all launchers, in rank order.
func TestPortsOfAGeneration(t *testing.T) {
	_, s := onNodes("mpi", 2, "A100", "A100", "A100")
	s.members[0].number, s.members[1].number, s.members[2].number = 3, 1, 2
	s.table()
	for i := range s.members {
		s.members[i].said = link.Ranks{Port: 1 + i, Ports: []int{10 + i}}
	}
	p := plan{status: s.task.Status}
	s.open(&p, s.world)
	if got := s.orderFor(0, p.status, false).Ports; !slices.Equal(got, []int{11, 12, 10}) {
		t.Errorf("%v", got)
	}
}

// TestRecipeOfSeveralRanks: one process for each device, each with its own place.
func TestRecipeOfSeveralRanks(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 2, "A100", "A100")
	made, err := c.recipe(s, s.task)
	if err != nil || s.world != 4 {
		t.Fatal(s.world, err)
	}
	for i := range s.members {
		r := c.replica(&s.members[i], s.task)
		withRecipe(&r, made, s.members[i].place)
		if r.Ranks != 2 || len(r.Recipe.Each) != 2 {
			t.Fatalf("%d ranks with %d environments", r.Ranks, len(r.Recipe.Each))
		}
		for local, vars := range r.Recipe.Each {
			env := map[string]string{}
			for _, v := range vars {
				env[v.Name] = v.Value
			}
			if env["RANK"] != itoa(s.members[i].first+local) || env["WORLD_SIZE"] != "4" || env["LOCAL_RANK"] != itoa(local) || env["LOCAL_WORLD_SIZE"] != "2" {
				t.Errorf("replica %d: %v", i, env)
			}
		}
	}
}

func TestPlainHasNoRecipe(t *testing.T) {
	for _, fw := range []api.Framework{"", api.FrameworkPlain} {
		c, s := onNodes(fw, 1, "A100", "Ascend 910")
		made, err := c.recipe(s, s.task)
		if made != nil || err != nil {
			t.Errorf("%+v %v", made, err)
		}
		r := engine.Replica{Command: []string{"x"}}
		if withRecipe(&r, made, 0); r.Recipe != nil || r.Command[0] != "x" {
			t.Errorf("%+v", r)
		}
	}
}

// TestUnfitPlacements: what only the place shows.
func TestUnfitPlacements(t *testing.T) {
	mixed, m := onNodes("pytorch-ddp", 1, "A100", "Ascend 910")
	if _, err := mixed.recipe(m, m.task); !fault.Is(err, fault.Invalid) {
		t.Errorf("two makers in one gang: %v", err)
	}
	far, f := onNodes("mpi", 4, "A100", "A100")
	if made, err := far.recipe(f, f.task); err != nil || made.Group(1)[0].Command[2] != "serve" {
		t.Errorf("mpirun over two replicas: %v", err)
	}
	one, o := onNodes("mpi", 4, "A100")
	made, err := one.recipe(o, o.task)
	if err != nil {
		t.Fatal(err)
	}
	r := one.replica(&o.members[0], o.task)
	if withRecipe(&r, made, 0); strings.Join(r.Command, " ") != "mpirun --hostfile ${FERMI_RECIPE}/hostfile -np 4 python t.py" {
		t.Errorf("%q", r.Command)
	}
}
