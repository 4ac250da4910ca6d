package train

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// checkRoles holds any plan against what roles may expect: nobody goes before the generation of its
// own part is written, no part goes back, and one part's restart leaves the others where they are.
func checkRoles(t *rapid.T, s snapshot, p plan) {
	for _, i := range p.goAhead {
		own := p.status.Role(s.Members[i].Role)
		if own == nil && (p.status.Rendezvous == nil || p.status.Generation == 0) || own != nil && (own.Rendezvous == nil || own.Generation == 0) {
			t.Fatal("go before the generation was written")
		}
	}
	for i, r := range s.Task.Status.Roles {
		if now := p.status.Roles[i]; now.Attempt < r.Attempt || now.Generation < r.Generation {
			t.Fatal("a role went back")
		}
	}
	if n, was := len(p.status.Restarts), len(s.Task.Status.Restarts); n > was {
		moved := 0
		if p.status.Attempt+p.status.Generation > s.Task.Status.Attempt+s.Task.Status.Generation {
			moved++
		}
		for i, r := range s.Task.Status.Roles {
			if p.status.Roles[i].Attempt+p.status.Roles[i].Generation > r.Attempt+r.Generation {
				moved++
			}
		}
		if moved == 0 && p.swap.node == "" { // that is paid first
			t.Fatal("a restart was paid that nobody had")
		}
	}
}

// rlhf is a task of two actors and two reward replicas that restart by themselves, all running.
func rlhf(restarts int, change func(members gang.Members)) snapshot {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: restarts}
	tk.Spec.Roles = []api.Role{{Name: "worker", Replicas: 2}, {Name: "reward", Replicas: 2, Restart: api.RestartRole}}
	tk.Status.Roles = []api.RoleStatus{{Name: "reward", Attempt: 3, Generation: 7, Rendezvous: &api.Rendezvous{World: 2, Lead: "127.0.0.1:1"}}}
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}}}
	for i := range 4 {
		m := at(i%2, 1, engine.StateRunning, true, nil)
		m.Said.Serve, m.Attempt = 5000+i, 1
		if i >= 2 {
			m.Role, m.Attempt, m.Said.Generation = "reward", 3, 7
			m.Name = engine.NameOf("task-1", "reward", i%2, 3)
		}
		s.Members = append(s.Members, m)
	}
	s.Rank()
	_, table := s.Addresses()
	for i := range s.Members {
		s.Members[i].Said.RoleTable = table
	}
	change(s.Members)
	return s
}

// TestRoleByItself: what fails in such a role stays in it.
func TestRoleByItself(t *testing.T) {
	killed := func(rank int) *link.RankExit {
		return &link.RankExit{Rank: rank, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, At: now.Add(-time.Second)}
	}
	s := rlhf(1, func(gang.Members) {})
	if s.Members[2].First != 0 || s.Members[3].First != 1 || s.Members[1].First != 1 || s.Members[3].Seat != 3 {
		t.Errorf("ranks: %+v", s.Members)
	}
	if p := decide(s, now); p.commit && p.status.Phase != api.PhaseRunning || len(p.goAhead) > 0 {
		t.Errorf("nothing is to be done: %+v", summary(p))
	}

	p := decide(rlhf(1, func(m gang.Members) { m[3].Said.Failed = killed(1) }), now)
	own := p.status.Roles[0]
	if !slices.Equal(p.goAhead, []int{2, 3}) || own.Generation != 8 || own.Attempt != 3 || p.status.Generation != 1 || p.status.Attempt != 1 || p.status.Rendezvous.Lead != "127.0.0.1:4000" {
		t.Errorf("a reward rank failed: %+v %+v", summary(p), p.status.Roles)
	}
	if p.status.Failure.Role != "reward" || len(p.status.Restarts) != 1 {
		t.Errorf("%+v", p.status.Failure)
	}

	p = decide(rlhf(1, func(m gang.Members) { m[0].Said.Failed = killed(0) }), now)
	if !slices.Equal(p.goAhead, []int{0, 1}) || p.status.Roles[0].Generation != 7 || p.status.Generation != 2 {
		t.Errorf("an actor rank failed: %+v %+v", summary(p), p.status.Roles)
	}

	// A checkpoint is of the roles that restart with the task.
	for failed, at := range map[int]func(*plan) *api.CheckpointOrigin{
		0: func(p *plan) *api.CheckpointOrigin { return p.status.Rendezvous.Origin },
		3: func(p *plan) *api.CheckpointOrigin { return p.status.Roles[0].Rendezvous.Origin },
	} {
		s := rlhf(1, func(m gang.Members) { m[failed].Said.Failed = killed(failed % 2) })
		s.origins.List = []api.CheckpointOrigin{{TaskID: "task-1", Name: "1-5", Step: 5}}
		p = decide(s, now)
		if o := at(&p); (o != nil) != (failed == 0) {
			t.Errorf("member %d failed: from %+v", failed, o)
		}
	}

	lost := exit(engine.ReasonLauncherLost, -1)
	p = decide(rlhf(1, func(m gang.Members) { m[2].State, m[2].Exit = engine.StateDone, lost }), now)
	if !slices.Equal(p.stop, []engine.Name{"task-1-reward-1-3"}) || p.status.Roles[0].Attempt != 3 {
		t.Errorf("a reward launcher is lost: %+v", summary(p))
	}
	p = decide(rlhf(1, func(m gang.Members) {
		m[2].State, m[2].Exit, m[3].State, m[3].Exit = engine.StateDone, lost, engine.StateDone, exit(engine.ReasonStopped, 143)
	}), now)
	if own := p.status.Roles[0]; own.Attempt != 4 || own.Rendezvous != nil || own.Generation != 7 || p.status.Attempt != 1 || p.status.Rendezvous == nil {
		t.Errorf("its next attempt: %+v %+v", summary(p), p.status.Roles)
	}

	// Without a restart left the whole task ends, with the cause.
	p = decide(rlhf(0, func(m gang.Members) { m[2].State, m[2].Exit = engine.StateDone, lost }), now)
	if len(p.stop) != 3 || p.status.Failure.Role != "reward" {
		t.Errorf("no restart is left: %+v", summary(p))
	}
	p = decide(rlhf(0, func(m gang.Members) {
		for i := range m {
			m[i].State, m[i].Exit = engine.StateDone, exit(engine.ReasonStopped, 143)
		}
		m[2].Exit = lost
	}), now)
	if p.status.Phase != api.PhaseFailed || p.status.Reason != engine.ReasonLauncherLost {
		t.Errorf("the end: %+v", summary(p))
	}
}

// TestAddressesAreToldAnew: who was told others before is told again, in its own generation.
func TestAddressesAreToldAnew(t *testing.T) {
	s := rlhf(1, func(m gang.Members) { m[3].Said.Serve = 6000 })
	if p := decide(s, now); !slices.Equal(p.goAhead, []int{0, 1, 2, 3}) || p.status.Generation != 1 || p.status.Roles[0].Generation != 7 {
		t.Errorf("%+v", summary(p))
	}
	roles, _ := s.Addresses()
	if r := roles[1]; r.Name != "reward" || r.Ranks != 2 || !slices.Equal(r.Addresses, []string{"127.0.0.1:5002", "127.0.0.1:6000"}) {
		t.Errorf("%+v", roles)
	}
	s = rlhf(1, func(m gang.Members) { m[3].Said = link.Ranks{} }) // a new leader has not heard of it yet
	if p := decide(s, now); len(p.goAhead) > 0 {
		t.Errorf("told without knowing all: %+v", summary(p))
	}
	alone := rlhf(1, func(gang.Members) {})
	alone.Task.Spec.Roles = alone.Task.Spec.Roles[:1]
	if roles, table := alone.Addresses(); roles != nil || table != "" {
		t.Error("a task of one role needs no addresses")
	}
}
