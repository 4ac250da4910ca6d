package train

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

func between(low, replicas, high int) *api.TrainingTask {
	tk := task(api.PhasePending, 0, 0)
	tk.Spec.Roles[0].Replicas, tk.Spec.Roles[0].MinReplicas, tk.Spec.Roles[0].MaxReplicas = replicas, &low, &high
	tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: 3}
	return tk
}

// stage is an elastic task, its engine and its planner.
type stage struct {
	t     *rapid.T
	tk    *api.TrainingTask
	pl    *api.Placement
	world map[engine.Name]*gang.Member
	ever  map[engine.Name]bool
	node  uint32
	stays int                 // the generation for which there was no other place, and one
	first map[engine.Name]int // ranks of those with spares
	seats map[engine.Name]int // first ranks, of a task with peer memory
	late  bool                // who comes later is looked at
}

// look is what observe would see.
func (g *stage) look() snapshot {
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: g.tk, Placement: g.pl}}, archiveAfter: time.Hour, stay: g.stays == g.tk.Status.Generation+1}
	find := func(roles []api.RoleAssignment) (out gang.Members) {
		for _, r := range roles {
			for i, slot := range r.Slots {
				m := at(r.Index(i), g.tk.Status.Attempt, "", false, nil)
				if known := g.world[m.Name]; known != nil {
					m = *known
				}
				m.Number, m.Usable = slot.Node, slot.Node%3 != 0
				out = append(out, m)
			}
		}
		return out
	}
	current := map[engine.Name]bool{}
	if g.pl != nil {
		roles := g.pl.Spec.Roles
		if g.pl.Spec.Shrink != nil {
			roles = g.pl.Spec.Shrink.Keep
			stay := gang.Spots(roles)
			s.Surplus = slices.DeleteFunc(find(g.pl.Spec.Roles), func(m gang.Member) bool { return stay[m.Spot()] })
		}
		s.Members = find(roles)
		for i := range s.Members {
			current[s.Members[i].Name] = true
		}
		s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
		s.Rank()
	}
	for _, name := range sortedNames(g.world) {
		if !current[name] {
			s.Others = append(s.Others, engine.Observation{Name: name, State: g.world[name].State, Exit: g.world[name].Exit})
		}
	}
	return s
}

// plan is the planner's part: it grows and shrinks what stands, as the placement controller does.
func (g *stage) plan() {
	if g.pl == nil || g.pl.Spec.Evict != nil || g.pl.Spec.Shrink != nil {
		return
	}
	next := *g.pl
	role := next.Spec.Roles[0]
	low, high := g.tk.Spec.Roles[0].Range()
	switch rapid.IntRange(0, 5).Draw(g.t, "planner") {
	case 0:
		if len(role.Slots) < high {
			g.node++
			next.Spec.Roles = []api.RoleAssignment{role.Add(api.Slot{Node: g.node})}
			if next.Spec.Lost != nil {
				next.Spec.Lost = &api.Loss{Until: next.Spec.Lost.Until}
			}
		}
	case 1:
		if len(role.Slots) > low && next.Spec.Lost == nil {
			next.Spec.Shrink = &api.Shrinking{At: now, Keep: []api.RoleAssignment{role.Keep(func(i int) bool { return i < low })}}
		}
	}
	g.pl = &next
}

// check holds a plan against what must never be.
func (g *stage) check(s snapshot, p plan) {
	g.checkLate(s, p)
	if p.status.Attempt < g.tk.Status.Attempt || p.status.Generation < g.tk.Status.Generation {
		g.t.Fatal("attempt or generation went back")
	}
	if p.status.Phase == api.PhaseCompleted && g.tk.Status.Phase != api.PhaseCompleted && len(s.Members) == 0 {
		g.t.Fatal("it is complete, and nobody is there who ended well")
	}
	if len(p.goAhead) > 0 {
		if r := p.status.Rendezvous; r == nil || r.Members != s.Members.Hash() || r.World != s.World {
			g.t.Fatalf("told of another table than the open one: %+v", r)
		}
		if p.status.Generation > g.tk.Status.Generation && s.TooFew() {
			g.t.Fatalf("a generation of %d", len(s.Members))
		}
	}
	if p.resize == nil {
		return
	}
	for _, name := range sortedNames(g.world) { // what a slot is taken from has ended
		m := g.world[name]
		stood, stands := gang.Spots(s.Placement.Spec.Roles)[m.Spot()], gang.Spots(p.resize.Roles)[m.Spot()]
		if stood && !stands && p.resize.Evict == nil && name == engine.NameOf("task-1", m.Role, m.Index, g.tk.Status.Attempt) && !m.Ended() {
			g.t.Fatalf("%s lost its slot while it was %s", name, m.State)
		}
	}
}

// act carries a plan out, up to where the leader is killed.
func (g *stage) act(s snapshot, p plan) {
	if p.commit {
		g.tk = &api.TrainingTask{Meta: g.tk.Meta, Spec: g.tk.Spec, Status: p.status}
		switch {
		case p.dropPlace:
			g.pl = nil
		case p.resize != nil:
			g.pl = &api.Placement{Meta: g.pl.Meta, Spec: *p.resize}
		}
	}
	if rapid.IntRange(0, 9).Draw(g.t, "killed") == 0 {
		return // nothing of what it had written was done
	}
	if p.swap.node != "" {
		g.stays = g.tk.Status.Generation + 1
	}
	all := s.Everybody()
	for _, i := range p.start {
		if g.ever[all[i].Name] {
			g.t.Fatalf("%s was started twice", all[i].Name)
		}
		g.ever[all[i].Name] = true
	}
	s.Members = all
	play(g.t, g.world, s, p)
	for _, i := range p.freeze {
		if m := g.world[s.Members[i].Name]; m != nil {
			m.Said.Frozen = true
		}
	}
	for _, name := range sortedNames(g.world) {
		m := g.world[name]
		m.Said.Prepared = m.Said.Port != 0 && (m.Said.Prepared || rapid.Bool().Draw(g.t, "prepared"))
	}
	g.examine(s, p)
}

// TestEveryElasticLifeEnds: whatever planner, engine and ranks do, and wherever the leader is killed, the
// table that is told is the one that was written, no slot is given up before its processes have ended,
// no name is used twice, and the task comes to an end.
func TestEveryElasticLifeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { lifeEnds(t, between(2, 3, 5)) })
}

// lifeEnds plays one life.
func lifeEnds(t *rapid.T, tk *api.TrainingTask) {
	g := &stage{t: t, tk: tk, world: map[engine.Name]*gang.Member{}, ever: map[engine.Name]bool{}, node: 3, seats: map[engine.Name]int{}, late: rapid.Bool().Draw(t, "late")}
	place := func() {
		g.pl = placed()
		g.pl.Spec.Attempt = g.tk.Status.Attempt + 1
		g.pl.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1}, {Node: 2}, {Node: 3}}}}
	}
	for turn := range 1000 {
		clock := now.Add(time.Duration(turn) * 5 * time.Second)
		if turn == 200 {
			g.tk.Spec.Stop = rapid.Bool().Draw(t, "stop")
		}
		if g.pl == nil && g.tk.Status.Phase == api.PhasePending {
			place()
		}
		g.plan()
		s := g.look()
		p := decide(s, clock)
		g.check(s, p)
		g.checkPeers(s, p)
		g.act(s, p)
		g.copy()
		if g.tk.Status.Phase.Finished() && len(g.world) == 0 {
			return
		}
	}
	t.Fatalf("still %s: %+v", g.tk.Status.Phase, g.tk.Status)
}

// grownTo is a task whose generation of two runs, with a third on its way.
func grownTo(state engine.State, attached, frozen bool) snapshot {
	tk := between(1, 2, 3)
	tk.Status.Phase, tk.Status.Attempt, tk.Status.Generation = api.PhaseRunning, 1, 1
	pl := placed()
	pl.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1}, {Node: 2}, {Node: 3}}}}
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: pl}, Members: gang.Members{at(0, 1, engine.StateRunning, true, nil), at(1, 1, engine.StateRunning, true, nil)}}}
	for i := range s.Members {
		s.Members[i].Said.Held = []int64{7, 8 + int64(i)}
		s.Members[i].Said.Frozen = frozen
	}
	s.Rank()
	tk.Status.Rendezvous = &api.Rendezvous{Members: s.Members.Hash(), World: 2, Below: map[string]int{"worker": 2}}
	s.Members = append(s.Members, at(2, 1, state, attached, nil))
	return s
}

// TestNewcomer: it is started beside those that train, who are not disturbed until it is ready; it need
// not hold what they do.
func TestNewcomer(t *testing.T) {
	s := grownTo("", false, false)
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if p := decide(s, now); len(p.start) != 1 || p.start[0] != 2 || len(p.goAhead) != 0 || p.status.Generation != 1 {
		t.Errorf("not there: %+v", p)
	}
	s = grownTo(engine.StateCreated, true, false)
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if p := decide(s, now); len(p.start)+len(p.goAhead) != 0 || p.status.Generation != 1 {
		t.Errorf("not prepared: %+v", p)
	}
	s = grownTo(engine.StateCreated, true, false)
	s.Members[2].Said.Prepared = true
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if p := decide(s, now); len(p.freeze) != 2 || len(p.goAhead) != 0 || p.status.Generation != 1 {
		t.Errorf("not safe: %+v", p)
	}
	s = grownTo(engine.StateCreated, true, true)
	s.Members[2].Said.Prepared = true
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	p := decide(s, now)
	r := p.status.Rendezvous
	if len(p.goAhead) != 3 || p.status.Generation != 2 || r.World != 3 || r.Restore != 7 || r.Below["worker"] != 3 || len(p.status.Restarts) != 0 {
		t.Errorf("ready: %+v %+v", p, r)
	}
	s = grownTo(engine.StateExited, false, false)
	s.Members[2].Exit = exit(engine.ReasonStartFailed, 127)
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if p := decide(s, now); p.resize == nil || len(p.resize.Roles[0].Slots) != 2 || p.resize.Roles[0].Next != 3 || p.status.Phase != api.PhaseRunning {
		t.Errorf("ended before it joined: %+v", p)
	}
}

// TestFailsWhileItGrows: a failed rank is answered at once, without who is not there yet.
func TestFailsWhileItGrows(t *testing.T) {
	s := grownTo(engine.StateCreated, false, false)
	s.Members[1].Said.Failed = &link.RankExit{Rank: 1, Code: 1, Reason: engine.ReasonNonZero, At: now}
	s.Admit(func(m *gang.Member) bool { return blame.Avoid(s.Task, m) })
	s.Rank()
	if p := decide(s, now); len(p.goAhead) != 2 || p.status.Rendezvous.World != 2 || len(p.status.Restarts) != 1 {
		t.Errorf("%+v", p)
	}
}

// lostOne is a task of three whose second launcher was lost, on a node that takes work or not.
func lostOne(timeout api.Duration, usable bool) snapshot {
	s := grownTo(engine.StateRunning, true, false)
	s.Task.Spec.Restart.RdzvTimeout = timeout
	s.Rank()
	s.Task.Status.Rendezvous = &api.Rendezvous{Members: s.Members.Hash(), World: 3, Below: map[string]int{"worker": 3}}
	s.Members[1] = at(1, 1, engine.StateExited, false, exit(engine.ReasonLauncherLost, -1))
	s.Members[1].Number, s.Members[1].Usable = 2, usable
	return s
}

// TestLostLauncher: it is told at once, whatever the time for a replacement is; only the smaller generation
// waits for that, and not longer.
func TestLostLauncher(t *testing.T) {
	for timeout, wait := range map[api.Duration]time.Duration{0: 30 * time.Second, api.Duration(time.Minute): time.Minute} {
		s := lostOne(timeout, false)
		p := decide(s, now)
		if p.status.Failure == nil || p.status.Failure.Index != 1 || p.status.Phase != api.PhaseRecovering || len(p.status.Restarts) != 1 || len(p.events) == 0 {
			t.Fatalf("not told: %+v", p)
		}
		if l := p.resize.Lost; !l.Until.Equal(now.Add(wait)) || l.Roles["worker"] != 1 || len(p.resize.Roles[0].Slots) != 2 || p.status.Generation != 1 {
			t.Fatalf("%s: %+v", wait, p.resize)
		}
		s.Task.Status, s.Placement.Spec = p.status, *p.resize
		s.Members = gang.Members{s.Members[0], s.Members[2]}
		for i := range s.Members { // their peers are gone: they failed of it
			s.Members[i].Said.Failed, s.Members[i].Said.Frozen = &link.RankExit{Rank: i, Code: 1, Reason: engine.ReasonNonZero, At: now}, true
		}
		s.Rank()
		if p := decide(s, now.Add(wait-time.Second)); p.status.Generation != 1 || p.wake != time.Second || len(p.stop)+len(p.goAhead) != 0 {
			t.Errorf("a second early: %+v", p)
		}
		p = decide(s, now.Add(wait))
		if r := p.status.Rendezvous; p.status.Generation != 2 || r.World != 2 || r.Below["worker"] != 3 || p.resize == nil || p.resize.Lost != nil || len(p.goAhead) != 2 || len(p.status.Restarts) != 1 {
			t.Errorf("in time: %+v %+v", p, r)
		}
	}
}

// TestLostLauncherOfGoodNode: another one is started in its slot.
func TestLostLauncherOfGoodNode(t *testing.T) {
	p := decide(lostOne(0, true), now)
	if r := p.resize.Roles[0]; len(p.resize.Lost.Roles) != 0 || len(r.Slots) != 3 || r.Slots[2].Node != 2 || r.Index(2) != 3 {
		t.Errorf("%+v", r)
	}
}

// TestAllLost: a gang that loses all it had while others are about to join has not ended well; who joins goes on.
func TestAllLost(t *testing.T) {
	s := lostOne(0, false)
	s.Placement.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 7}, {Node: 8}}, Indexes: []int{5, 6}}}
	s.Joining, s.Members = gang.Members{at(5, 1, "", false, nil), at(6, 1, "", false, nil)}, nil
	s.Rank()
	if p := decide(s, now); p.status.Phase.Finished() || len(p.start) != 2 {
		t.Errorf("%s %v: starts %v", p.status.Phase, p.status.Message, p.start)
	}
}

// TestLostTooMany: with fewer than it can do with it waits for another place.
func TestLostTooMany(t *testing.T) {
	s := lostOne(0, false)
	low := 3
	s.Task.Spec.Roles[0].MinReplicas, s.Task.Spec.Roles[0].Replicas = &low, 3
	high := 4
	s.Task.Spec.Roles[0].MaxReplicas = &high
	p := decide(s, now)
	s.Task.Status, s.Placement.Spec = p.status, *p.resize
	s.Members = gang.Members{s.Members[0], s.Members[2]}
	s.Rank()
	if p := decide(s, now.Add(time.Minute)); p.resize == nil || p.resize.Evict == nil || p.status.Generation != 1 {
		t.Errorf("%+v", p)
	}
}

// TestTooFewToStartAgain: what lost a slot and then had to start again waits for another place rather than train with
// fewer than it may.
func TestTooFewToStartAgain(t *testing.T) {
	for slots, gone := range map[int]bool{1: true, 2: false} {
		tk := between(2, 3, 5)
		tk.Status.Phase, tk.Status.Attempt, tk.Status.Generation = api.PhaseRecovering, 2, 1
		pl := placed()
		pl.Spec.Attempt = 2
		pl.Spec.Roles = []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 1}, {Node: 2}}[:slots]}}
		s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: pl}}}
		for i := range slots {
			s.Members = append(s.Members, at(i, 2, "", false, nil))
		}
		s.Rank()
		p := decide(s, now)
		if left := p.resize != nil && p.resize.Evict != nil; left != gone || (len(p.start) == 0) != gone {
			t.Errorf("%d slots: gives its place up %v, starts %v", slots, left, p.start)
		}
	}
}
