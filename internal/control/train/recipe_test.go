package train

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
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
	cut, u := onNodes("megatron-lm", 4, "A100", "A100")
	u.task.Spec.Strategy = &api.Strategy{Tensor: 2}
	if _, err := cut.recipe(u, u.task); err != nil {
		t.Errorf("groups within nodes: %v", err)
	}
	u.members[0].devices = 1<<3 - 1
	u.placement.Spec.Inside = []api.Lender{{}, {}} // only there replicas of a role have different numbers of devices
	u.task.Spec.Strategy.Tensor = 7
	if _, err := cut.recipe(u, u.task); !fault.Is(err, fault.Invalid) || fault.From(err).Fields[0].Path != "spec.strategy.tensor" {
		t.Errorf("groups of 7 across nodes with 3 and 4 devices: %v", err)
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

// TestUnfitMove: a task whose next place does not suit its framework fails there; it is not tried for ever.
func TestUnfitMove(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 1, "A100", "Ascend 910")
	s.task.Status.Phase, s.task.Status.Attempt, s.task.Status.Rendezvous = api.PhaseRecovering, 2, nil
	if !s.starts() {
		t.Fatal("nothing is to be started")
	}
	_, err := c.recipe(s, s.task)
	s.unfit = fault.From(err)
	if p := decide(s, now); p.status.Phase != api.PhaseFailed || p.status.Reason != "BadRecipe" || len(p.start) > 0 {
		t.Errorf("%s %s, starts %v", p.status.Phase, p.status.Reason, p.start)
	}
	s.task.Status.Rendezvous = &api.Rendezvous{Members: "m", Lead: "127.0.0.1:4000", World: 2}
	if s.starts() {
		t.Error("a generation that is open is looked at again")
	}
}

// starting is an engine that starts everything and runs nothing.
type starting struct{ engine.Engine }

func (starting) Start(context.Context, engine.Replica) error { return nil }

// TestWarningsOfAPlacement: what is unwise about the place itself is told once an attempt.
func TestWarningsOfAPlacement(t *testing.T) {
	past, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "h")})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	c, s := onNodes("pytorch-ddp", 2, "A100", "V100")
	c.cfg = Config{History: past, Engine: starting{}, Clock: clock.NewFake(now)}
	s.task.Spec.Precision = api.PrecisionBF16
	s.members = append(s.members, s.members[1])
	s.members[2].index, s.members[2].devices = 2, 3<<2
	s.table()
	told := func() (out []string) {
		list, err := past.ListEvents(t.Context(), history.EventQuery{ObjectID: s.task.Meta.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Type != "Warning" || e.Reason != "RecipeWarning" || e.Message.ZH == "" {
				t.Errorf("%+v", e)
			}
			out = append(out, e.Message.EN)
		}
		slices.Sort(out)
		return out
	}
	for range 2 { // a turn that is repeated
		if err := c.startAll(t.Context(), s, plan{start: []int{0, 1, 2}}, s.task); err != nil {
			t.Fatal(err)
		}
	}
	once := told()
	if len(once) != 3 || !strings.HasPrefix(once[0], "The nodes have different numbers of devices (2 to 4)") ||
		!strings.HasPrefix(once[1], "The role worker stands on several types of devices (A100, V100)") || !strings.HasPrefix(once[2], "V100 has no bf16") {
		t.Fatalf("%q", once)
	}
	s.task.Status.Attempt++
	if err := c.startAll(t.Context(), s, plan{start: []int{0, 1, 2}}, s.task); err != nil {
		t.Fatal(err)
	}
	if twice := told(); len(twice) != 6 {
		t.Errorf("the next attempt: %q", twice)
	}
}
