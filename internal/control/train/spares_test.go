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

// guarded is a task of so many replicas with spares.
func guarded(replicas, spares int) *api.TrainingTask {
	tk := task(api.PhasePending, 0, 0)
	tk.Spec.Roles[0].Replicas, tk.Spec.Roles[0].Spares = replicas, spares
	tk.Spec.Restart = &api.RestartPolicy{MaxRestarts: 3}
	return tk
}

func slotsOn(nodes ...uint32) []api.RoleAssignment {
	r := api.RoleAssignment{Role: "worker"}
	for _, n := range nodes {
		r.Slots = append(r.Slots, api.Slot{Node: n})
	}
	return []api.RoleAssignment{r}
}

// findSpare is the planner's part: it finds room for what is lost.
func (g *stage) findSpare() {
	if g.pl == nil || g.pl.Spec.Evict != nil || g.pl.Spec.Lost == nil || len(g.pl.Spec.Lost.Roles) == 0 || rapid.IntRange(0, 3).Draw(g.t, "planner") > 0 {
		return
	}
	next := *g.pl
	next.Spec.Roles = slices.Clone(next.Spec.Roles)
	for range next.Spec.Lost.Roles["worker"] {
		g.node++
		next.Spec.Roles[0] = next.Spec.Roles[0].Add(api.Slot{Node: g.node})
	}
	next.Spec.Lost = &api.Loss{Until: next.Spec.Lost.Until, Roles: map[string]int{}, Avoid: next.Spec.Lost.Avoid}
	g.pl = &next
}

// checkSpares: a generation has its full size, who stays in it keeps its ranks, and none is opened because of
// who is not of it.
func (g *stage) checkSpares(s snapshot, p plan) {
	opened := p.status.Generation > g.tk.Status.Generation
	if opened && len(s.Members) != g.tk.Spec.Roles[0].Replicas {
		g.t.Fatalf("a generation of %d", len(s.Members))
	}
	well := func(m gang.Member) bool {
		return m.State == engine.StateRunning && m.Said.Failed == nil && m.Said.Hung == nil
	}
	if opened && g.tk.Status.Rendezvous != nil && !s.Members.DifferFrom(g.tk.Status.Rendezvous) && !slices.ContainsFunc(s.Members, func(m gang.Member) bool { return !well(m) }) {
		g.t.Fatalf("generation %d though nothing failed", p.status.Generation)
	}
	if opened && g.tk.Status.Rendezvous == nil {
		g.first = map[engine.Name]int{}
	}
	taken := map[int]bool{}
	for i := range s.Members {
		m := &s.Members[i]
		if was, ok := g.first[m.Name]; opened && ok && was != m.First {
			g.t.Fatalf("%s had rank %d and has %d", m.Name, was, m.First)
		}
		if opened {
			g.first[m.Name], taken[m.First] = m.First, true
		}
	}
	if opened && len(taken) != s.World {
		g.t.Fatalf("%d ranks of %d", len(taken), s.World)
	}
	for _, i := range p.goAhead {
		if s.Everybody()[i].Spare {
			g.t.Fatalf("%s was told to go", s.Everybody()[i].Name)
		}
	}
}

// loseSpares ends some of those that wait.
func (g *stage) loseSpares(s snapshot) {
	for i := range s.Spares {
		if m := g.world[s.Spares[i].Name]; m != nil && !m.Ended() && rapid.IntRange(0, 7).Draw(g.t, "spare lost") == 0 {
			m.State, m.Exit, m.Attached = engine.StateExited, exit(engine.ReasonLauncherLost, -1), false
		}
	}
}

// TestEveryGuardedLifeEnds: whatever planner, engine, ranks and spares do, and wherever the leader is killed.
func TestEveryGuardedLifeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &stage{t: t, tk: guarded(3, 2), world: map[engine.Name]*gang.Member{}, ever: map[engine.Name]bool{}, node: 5, first: map[engine.Name]int{}, late: rapid.Bool().Draw(t, "late")}
		for turn := range 1000 {
			clock := now.Add(time.Duration(turn) * 5 * time.Second)
			if turn == 200 {
				g.tk.Spec.Stop = rapid.Bool().Draw(t, "stop")
			}
			if g.pl == nil && g.tk.Status.Phase == api.PhasePending {
				g.pl = placed()
				g.pl.Spec.Attempt, g.pl.Spec.Roles = g.tk.Status.Attempt+1, slotsOn(1, 2, 3, 4, 5)
			}
			g.findSpare()
			s := g.look()
			p := decide(s, clock)
			g.check(s, p)
			g.checkSpares(s, p)
			g.act(s, p)
			g.loseSpares(s)
			if g.tk.Status.Phase.Finished() && len(g.world) == 0 {
				return
			}
		}
		t.Fatalf("still %s: %+v", g.tk.Status.Phase, g.tk.Status)
	})
}

// watched is a running task of three on nodes 1 to 3 with a spare on node 4, as states say; all hold step 7.
func watched(spare engine.State) *stage {
	g := &stage{tk: guarded(3, 1), world: map[engine.Name]*gang.Member{}}
	g.tk.Status.Phase, g.tk.Status.Attempt, g.tk.Status.Generation = api.PhaseRunning, 1, 1
	g.pl = placed()
	g.pl.Spec.Roles = slotsOn(1, 2, 4, 5)
	for i := range 4 {
		state := engine.StateRunning
		if i == 3 {
			state = spare
		}
		m := at(i, 1, state, state != "", nil)
		if i == 3 {
			m.Said.Generation, m.Said.Prepared, m.Said.Warm = 0, state != "", state != ""
		} else {
			m.Said.Held, m.Said.Frozen = []int64{7}, true
		}
		if state != "" {
			g.world[m.Name] = &m
		}
	}
	s := g.look()
	g.tk.Status.Rendezvous = &api.Rendezvous{Members: s.Members.Hash(), World: 3, Below: s.Members.Below()}
	return g
}

func (g *stage) worker(i int) *gang.Member { return g.world[engine.NameOf("task-1", "worker", i, 1)] }

// step is one turn whose plan is written down.
func (g *stage) step() plan {
	s := g.look()
	p := decide(s, now)
	if p.commit {
		g.tk = &api.TrainingTask{Meta: g.tk.Meta, Spec: g.tk.Spec, Status: p.status}
		if p.resize != nil {
			g.pl = &api.Placement{Meta: g.pl.Meta, Spec: *p.resize}
		}
	}
	return p
}

// TestSpareTakesPlace: a launcher is lost, and the next generation has the spare in its ranks; the others
// keep theirs, the spare need not hold what they do, and a new spare gets the slot.
func TestSpareTakesPlace(t *testing.T) {
	g := watched(engine.StateRunning)
	lost := g.worker(1)
	lost.State, lost.Exit = engine.StateExited, exit(engine.ReasonLauncherLost, -1)
	p := g.step()
	if p.status.Phase != api.PhaseRecovering || p.status.Failure == nil || p.status.Failure.Index != 1 || len(p.goAhead) != 0 || !slices.Equal(p.status.Rendezvous.Vacant, []int{1}) {
		t.Fatalf("lost: %+v", p.status)
	}
	if r := g.pl.Spec.Roles[0]; len(r.Slots) != 4 || r.Index(3) != 4 || r.Slots[3].Node != 2 {
		t.Fatalf("its slot: %+v", r)
	}
	p = g.step()
	r := p.status.Rendezvous
	if p.status.Generation != 2 || len(p.goAhead) != 3 || r.World != 3 || r.Restore != 7 || p.status.Reason != spareTaken || !slices.Equal(r.Stead, []api.Seat{{Index: 3, Place: 1}}) || len(r.Vacant)+len(r.Aside) != 0 || len(p.status.Restarts) != 1 {
		t.Fatalf("taken: %+v %+v", p, r)
	}
	s := g.look()
	for i, first := range map[int]int{0: 0, 2: 2, 3: 1} {
		if k := slices.IndexFunc(s.Members, func(m gang.Member) bool { return m.Index == i }); k < 0 || s.Members[k].First != first {
			t.Errorf("worker-%d: %+v", i, s.Members)
		}
	}
	if len(s.Spares) != 1 || s.Spares[0].Index != 4 || len(p.start) != 1 {
		t.Errorf("the next spare: %+v, started %v", s.Spares, p.start)
	}
}

// TestSpareOfBadNode: where the node takes no work placement looks for another, without a limit in time.
func TestSpareOfBadNode(t *testing.T) {
	g := watched(engine.StateRunning)
	g.pl.Spec.Roles = slotsOn(1, 6, 4, 5) // 6 takes no work
	g.tk.Status.Rendezvous.Members = func() string { s := g.look(); return s.Members.Hash() }()
	lost := g.worker(1)
	lost.State, lost.Exit = engine.StateExited, exit(engine.ReasonLauncherLost, -1)
	g.step()
	if p := g.step(); p.status.Generation != 2 || g.pl.Spec.Lost == nil || !g.pl.Spec.Lost.Until.IsZero() || g.pl.Spec.Lost.Roles["worker"] != 1 || len(g.pl.Spec.Roles[0].Slots) != 3 {
		t.Errorf("%+v %+v", p.status, g.pl.Spec)
	}
}

// TestSpareLost: it is replaced, and the generation stays.
func TestSpareLost(t *testing.T) {
	g := watched(engine.StateRunning)
	spare := g.worker(3)
	spare.State, spare.Exit = engine.StateExited, exit(engine.ReasonLauncherLost, -1)
	p := g.step()
	if p.status.Generation != 1 || p.status.Phase != api.PhaseRunning || p.status.Failure != nil || p.resize == nil || g.pl.Spec.Roles[0].Index(3) != 4 {
		t.Fatalf("%+v", p)
	}
	if p = g.step(); len(p.start) != 1 || p.status.Generation != 1 || len(p.status.Spares) != 1 || p.status.Spares[0].State != api.SpareStarting {
		t.Errorf("%+v", p)
	}
	if d := spareAgain(&g.pl.Spec.Roles[0], 4); d != time.Second {
		t.Errorf("the next one waits %s", d)
	}
}

// TestNoSpareReady: the loss waits for one, as long as a replacement may take, and then for another place.
func TestNoSpareReady(t *testing.T) {
	g := watched("")
	lost := g.worker(1)
	lost.State, lost.Exit = engine.StateExited, exit(engine.ReasonLauncherLost, -1)
	g.step()
	if p := g.step(); p.status.Generation != 1 || p.wake != 30*time.Second {
		t.Fatalf("%+v", p)
	}
	for i := range g.pl.Spec.Roles { // nobody comes
		g.pl.Spec.Roles[i] = g.pl.Spec.Roles[i].Keep(func(k int) bool { return k < 2 })
	}
	if p := decide(g.look(), now.Add(time.Minute)); p.resize == nil || p.resize.Evict == nil {
		t.Errorf("%+v", p)
	}
}

// TestAllLostButASpare: with a whole zone all members went, at once or one after the other, and one spare can't go on alone: nobody waits for the
// rest of that place.
func TestAllLostButASpare(t *testing.T) {
	for name, turns := range map[string][][]int{"at once": {{0, 1, 2}}, "one by one": {{1}, {0}, {2}}, "some first": {{0, 1}, {2}}} {
		g := watched(engine.StateRunning)
		g.pl.Spec.Roles = slotsOn(6, 6, 6, 5) // 6 takes no work
		g.tk.Status.Rendezvous.Members = func() string { s := g.look(); return s.Members.Hash() }()
		var p plan
		for _, turn := range turns {
			for _, i := range turn {
				lost := g.worker(i)
				lost.State, lost.Exit = engine.StateExited, exit(engine.ReasonLauncherLost, -1)
			}
			p = g.step()
		}
		if !slices.Contains(p.stop, g.worker(3).Name) {
			t.Errorf("%s: it waits for others: %+v, stops %v", name, g.pl.Spec, p.stop)
		}
	}
}

// TestSpareForFaultyNode: a rank fails of its node; a spare has its ranks, and its launcher ends after that.
func TestSpareForFaultyNode(t *testing.T) {
	g := watched(engine.StateRunning)
	bad := g.worker(1)
	bad.Said.Failed = &link.RankExit{Rank: 1, Code: 1, Reason: engine.ReasonNonZero, At: now, Diagnosis: engine.Diagnosis{Cause: "device-lost"}}
	if p := g.step(); p.swap.node != "" || len(p.status.Restarts) != 1 || !slices.Equal(p.status.Rendezvous.Left, []int{1}) || len(p.stop) != 0 {
		t.Fatalf("%+v", p)
	}
	p := g.step()
	if p.status.Generation != 2 || len(p.goAhead) != 3 || !slices.Equal(p.status.Rendezvous.Aside, []int{1}) || len(p.stop) != 0 {
		t.Fatalf("%+v %+v", p, p.status.Rendezvous)
	}
	for _, i := range []int{0, 2, 3} {
		g.worker(i).Said.Generation = 2
	}
	if p = g.step(); !slices.Equal(p.stop, []engine.Name{bad.Name}) || p.status.Generation != 2 {
		t.Fatalf("%+v", p)
	}
	bad.State, bad.Exit = engine.StateExited, exit(engine.ReasonStopped, 143)
	p = g.step()
	if l := g.pl.Spec.Lost; l == nil || l.Roles["worker"] != 1 || !slices.Equal(l.Avoid, []uint32{2}) || len(g.pl.Spec.Roles[0].Slots) != 3 || p.status.Generation != 2 {
		t.Errorf("%+v", g.pl.Spec)
	}
}

// TestWhoStandsBy: those that share their node with the fewest, and first of all those whose node takes no work.
func TestWhoStandsBy(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []uint32
		want  []int
	}{
		"one alone":              {[]uint32{1, 1, 2, 1}, []int{2}},
		"each alone":             {[]uint32{1, 2, 4, 5}, []int{3}},
		"one takes no work":      {[]uint32{1, 3, 4, 5}, []int{1}},
		"no more than are there": {[]uint32{1, 2, 4}, nil},
	} {
		g := &stage{tk: guarded(3, 1), pl: placed()}
		g.pl.Spec.Roles = slotsOn(c.nodes...)
		s := g.look()
		var got []int
		for i := range s.Spares {
			got = append(got, s.Spares[i].Index)
		}
		if !slices.Equal(got, c.want) || len(s.Members) != 3 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
