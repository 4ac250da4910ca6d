package train

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// onNodes is a controller that knows nodes of these types, 8 devices each, and a task of one replica
// on each with so many devices.
func onNodes(fw api.Framework, devices int, types ...string) (*Controller, snapshot) {
	c := &Controller{cfg: Config{Gangs: gang.NewObserver(nil, nil, nil, blame.Avoid)}}
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 1, 0), Placement: placed()}}}
	s.Task.Spec.Framework = fw
	s.Task.Spec.Roles = []api.Role{{
		Name: "worker", Replicas: len(types), Command: []string{"python"}, Args: []string{"t.py"},
		Resources: api.Resources{Accelerators: api.Accelerators{Count: devices}},
	}}
	var slots api.Slots
	for i, name := range types {
		n := &api.Node{Meta: api.Meta{Name: "n" + itoa(i)}, Spec: api.NodeSpec{Number: uint32(i + 1)}}
		for d := range 8 {
			n.Spec.Devices = append(n.Spec.Devices, api.Device{Index: d, Type: name})
		}
		c.cfg.Gangs.Note(n)
		slots = append(slots, api.Slot{Node: n.Spec.Number, Devices: 1<<devices - 1})
		s.Members = append(s.Members, at(i, 1, "", false, nil))
		s.Members[i].Ranks = recipe.Started(fw, &s.Task.Spec.Roles[0])
		s.Members[i].Number, s.Members[i].Devices = n.Spec.Number, 1<<devices-1
	}
	s.Rank()
	s.Placement.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: slots}}
	return c, s
}

func TestRecipeOfAPlacement(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 1, "A100", "A100")
	made, err := c.recipe(&s.Gang, s.Task)
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for i := range s.Members {
		r := c.replica(t.Context(), &s.Members[i], s.Task)
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
	s.Members[0].Number, s.Members[1].Number, s.Members[2].Number = 3, 1, 2
	s.Rank()
	for i := range s.Members {
		s.Members[i].Said = link.Ranks{Port: 1 + i, Ports: []int{10 + i}}
	}
	p := plan{status: s.Task.Status}
	answer{&s, mainOf(&s.Gang, &p), &p, now}.open(s.World)
	if got := s.orderFor(0, &p.status, false).Ports; !slices.Equal(got, []int{11, 12, 10}) {
		t.Errorf("%v", got)
	}
}

// TestRecipeOfSeveralRanks: one process for each device, each with its own place.
func TestRecipeOfSeveralRanks(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 2, "A100", "A100")
	made, err := c.recipe(&s.Gang, s.Task)
	if err != nil || s.World != 4 {
		t.Fatal(s.World, err)
	}
	for i := range s.Members {
		r := c.replica(t.Context(), &s.Members[i], s.Task)
		withRecipe(&r, made, s.Members[i].Seat)
		if r.Ranks != 2 || len(r.Recipe.Each) != 2 {
			t.Fatalf("%d ranks with %d environments", r.Ranks, len(r.Recipe.Each))
		}
		for local, vars := range r.Recipe.Each {
			env := map[string]string{}
			for _, v := range vars {
				env[v.Name] = v.Value
			}
			if env["RANK"] != itoa(s.Members[i].First+local) || env["WORLD_SIZE"] != "4" || env["LOCAL_RANK"] != itoa(local) || env["LOCAL_WORLD_SIZE"] != "2" {
				t.Errorf("replica %d: %v", i, env)
			}
		}
	}
}

func TestPlainHasNoRecipe(t *testing.T) {
	for _, fw := range []api.Framework{"", api.FrameworkPlain} {
		c, s := onNodes(fw, 1, "A100", "Ascend 910")
		made, err := c.recipe(&s.Gang, s.Task)
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
	if _, err := mixed.recipe(&m.Gang, m.Task); !fault.Is(err, fault.Invalid) {
		t.Errorf("two makers in one gang: %v", err)
	}
	cut, u := onNodes("megatron-lm", 4, "A100", "A100")
	u.Task.Spec.Strategy = &api.Strategy{Tensor: 2}
	if _, err := cut.recipe(&u.Gang, u.Task); err != nil {
		t.Errorf("groups within nodes: %v", err)
	}
	u.Members[0].Devices = 1<<3 - 1
	u.Placement.Spec.Inside = []api.Lender{{}, {}} // only there replicas of a role have different numbers of devices
	u.Task.Spec.Strategy.Tensor = 7
	if _, err := cut.recipe(&u.Gang, u.Task); !fault.Is(err, fault.Invalid) || fault.From(err).Fields[0].Path != "spec.strategy.tensor" {
		t.Errorf("groups of 7 across nodes with 3 and 4 devices: %v", err)
	}
	far, f := onNodes("mpi", 4, "A100", "A100")
	if made, err := far.recipe(&f.Gang, f.Task); err != nil || made.Group(1)[0].Command[2] != "serve" {
		t.Errorf("mpirun over two replicas: %v", err)
	}
	one, o := onNodes("mpi", 4, "A100")
	made, err := one.recipe(&o.Gang, o.Task)
	if err != nil {
		t.Fatal(err)
	}
	r := one.replica(t.Context(), &o.Members[0], o.Task)
	if withRecipe(&r, made, 0); strings.Join(r.Command, " ") != "mpirun --hostfile ${FERMI_RECIPE}/hostfile -np 4 python t.py" {
		t.Errorf("%q", r.Command)
	}
}

// TestUnfitMove: a task whose next place does not suit its framework fails there; it is not tried for ever.
func TestUnfitMove(t *testing.T) {
	c, s := onNodes("pytorch-ddp", 1, "A100", "Ascend 910")
	s.Task.Status.Phase, s.Task.Status.Attempt, s.Task.Status.Rendezvous = api.PhaseRecovering, 2, nil
	if !s.isFresh() {
		t.Fatal("nothing is to be started")
	}
	_, err := c.recipe(&s.Gang, s.Task)
	s.unfit = fault.From(err)
	if p := decide(s, now); p.status.Phase != api.PhaseFailed || p.status.Reason != "BadRecipe" || len(p.start) > 0 {
		t.Errorf("%s %s, starts %v", p.status.Phase, p.status.Reason, p.start)
	}
	s.Task.Status.Rendezvous = &api.Rendezvous{Members: "m", Lead: "127.0.0.1:4000", World: 2}
	if s.isFresh() {
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
	c.cfg = Config{Gangs: c.cfg.Gangs, History: past, Engine: starting{}, Clock: clock.NewFake(now)}
	s.Task.Spec.Precision = api.PrecisionBF16
	s.Members = append(s.Members, s.Members[1])
	s.Members[2].Index, s.Members[2].Devices = 2, 3<<2
	s.Rank()
	told := func() (out []string) {
		list, err := past.ListEvents(t.Context(), history.EventQuery{ObjectID: s.Task.Meta.ID})
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
		if err := c.startAll(t.Context(), s, plan{orders: orders{start: []int{0, 1, 2}}}, s.Task); err != nil {
			t.Fatal(err)
		}
	}
	once := told()
	if len(once) != 3 || !strings.HasPrefix(once[0], "The nodes have different numbers of devices (2 to 4)") ||
		!strings.HasPrefix(once[1], "The role worker stands on several types of devices (A100, V100)") || !strings.HasPrefix(once[2], "V100 has no bf16") {
		t.Fatalf("%q", once)
	}
	s.Task.Status.Attempt++
	if err := c.startAll(t.Context(), s, plan{orders: orders{start: []int{0, 1, 2}}}, s.Task); err != nil {
		t.Fatal(err)
	}
	if twice := told(); len(twice) != 6 {
		t.Errorf("the next attempt: %q", twice)
	}
}
