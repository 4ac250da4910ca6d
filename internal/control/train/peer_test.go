package train

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// peeredSeen is a running task of so many members of two ranks each, with peer memory.
func peeredSeen(n int) seen {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Checkpoint, tk.Spec.Restart = &api.Checkpoints{Peer: true}, &api.RestartPolicy{MaxRestarts: 5}
	tk.Spec.Roles[0].Replicas = n
	s := seen{task: tk, placement: placed()}
	s.placement.Spec.Roles = []api.RoleAssignment{{Role: "worker"}}
	tk.Status.Rendezvous = nil
	for i := range n {
		m := at(i, 1, engine.StateRunning, true, nil)
		m.ranks, m.number, m.usable, m.said.PeerPort = 2, uint32(i), true, 6000+i
		s.members = append(s.members, m)
		s.placement.Spec.Roles[0].Slots = append(s.placement.Spec.Roles[0].Slots, api.Slot{Node: uint32(i)})
	}
	s.table()
	tk.Status.Rendezvous = &api.Rendezvous{Members: s.membersHash(), Lead: "127.0.0.1:4000", World: s.world, Below: s.below(), Seats: s.seating()}
	return s
}

// holdsCopy adds states to what a member said.
func (s *seen) holdsCopy(i, of int, steps ...int64) {
	m := &s.members[i]
	m.said.Copies = append(m.said.Copies, link.Copy{First: s.members[of].first, Ranks: 2, Steps: steps})
}

// TestCovered: the step to restore is the newest that somebody present has of every rank, as a slow and
// obvious search says; what one member could not have is not chosen again.
func TestCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "members")
		s := peeredSeen(n)
		for i := range n {
			s.members[i].attached = rapid.IntRange(0, 4).Draw(t, "here") > 0
			for range rapid.IntRange(0, 4).Draw(t, "copies") {
				steps := rapid.SliceOfNDistinct(rapid.Int64Range(1, 4), 1, 3, rapid.ID).Draw(t, "steps")
				slices.Sort(steps)
				s.holdsCopy(i, rapid.IntRange(0, n-1).Draw(t, "of"), steps...)
			}
			s.members[i].said.Missed = rapid.Int64Range(0, 4).Draw(t, "missed")
		}
		has := func(rank int, step int64) bool {
			for _, m := range s.members {
				for _, c := range m.said.Copies {
					if m.attached && rank >= c.First && rank < c.First+c.Ranks && slices.Contains(c.Steps, step) {
						return true
					}
				}
			}
			return false
		}
		want := int64(0)
		for step := int64(1); step <= 4; step++ {
			all := !slices.ContainsFunc(s.members, func(m member) bool { return m.said.Missed == step })
			for rank := range s.world {
				all = all && has(rank, step)
			}
			if all {
				want = step
			}
		}
		if got := s.covered(); got != want {
			t.Fatalf("step %d instead of %d", got, want)
		}
		for i := range s.members {
			g := link.Generation{Restore: want}
			s.introduce(i, &g)
			if own := fmt.Sprintf("127.0.0.1:%d", 6000+i); slices.ContainsFunc(g.Sources, func(c link.Source) bool { return c.Address == own }) {
				t.Fatal("it is told to ask itself")
			}
		}
	})
}

// TestSeats: whoever is lost and wherever the next one is, the others keep their ranks, and each has its
// peer on another node where there is one.
func TestSeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "members")
		s := peeredSeen(n)
		first := map[int]int{}
		for i := range s.members {
			first[s.members[i].index] = s.members[i].first
		}
		lost := rapid.IntRange(0, n-1).Draw(t, "lost")
		empty := s.members[lost].first
		m := &s.members[lost]
		m.index, m.number = n, uint32(rapid.IntRange(0, 2*n).Draw(t, "elsewhere"))
		m.node = fmt.Sprint("n", m.number)
		delete(first, lost)
		s.table()
		if m.first != empty {
			t.Fatalf("the newcomer has rank %d, and %d is free", m.first, empty)
		}
		nodes := map[string]bool{}
		for i := range s.members {
			nodes[s.members[i].node] = true
		}
		for i := range s.members {
			if was, stayed := first[s.members[i].index]; stayed && was != s.members[i].first {
				t.Fatalf("replica %d had rank %d and has %d", s.members[i].index, was, s.members[i].first)
			}
			if k := s.peerOf(i); len(nodes) > 1 && (k < 0 || s.members[k].node == s.members[i].node) {
				t.Fatalf("member %d has its copy with %d of %v", i, k, nodes)
			}
		}
	})
}

// TestPeerApart: peers are in another leaf, and outside of the tensor group, where there is one.
func TestPeerApart(t *testing.T) {
	s := peeredSeen(4)
	for i, leaf := range []string{"a", "a", "b", "b"} {
		s.members[i].leaf = leaf
	}
	s.table()
	for i := range s.members {
		if k := s.peerOf(i); s.members[k].leaf == s.members[i].leaf {
			t.Errorf("%d and its peer %d are both in leaf %s", i, k, s.members[i].leaf)
		}
	}
	s = peeredSeen(4)
	s.task.Spec.Strategy = &api.Strategy{Tensor: 4}
	for i := range s.members {
		if k := s.peerOf(i); s.sameGroup(&s.members[i], &s.members[k]) {
			t.Errorf("%d and its peer %d share matrices", i, k)
		}
	}
}

// TestKeep: what is safe stays until something newer is; a new step begins only then, and not at once.
func TestKeep(t *testing.T) {
	s, c, when := peeredSeen(2), &copying{}, now
	keep := func(watermark int64) []int64 { return s.keep(c, 1, watermark, when) }
	own := func(steps ...int64) {
		for i := range 2 {
			s.members[i].said.Copies = nil
			s.holdsCopy(i, i, steps...)
		}
	}
	if got := keep(3); !cmp.Equal(got, []int64{3}) {
		t.Error(got)
	}
	own(3)
	if got := keep(7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v before step 3 is safe", got)
	}
	s.holdsCopy(1, 0, 3)
	if got := keep(7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v: only one has its copy", got)
	}
	s.holdsCopy(0, 1, 3)
	if got := keep(7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v: too soon", got)
	}
	when = when.Add(copyEvery)
	if got := keep(8); !cmp.Equal(got, []int64{3, 8}) {
		t.Error(got)
	}
	when = when.Add(time.Minute)
	if got := keep(20); !cmp.Equal(got, []int64{3, 8}) {
		t.Errorf("%v: step 8 is on its way", got)
	}
	own(3, 8)
	s.holdsCopy(0, 1, 3, 8)
	s.holdsCopy(1, 0, 3, 8)
	if got := keep(20); !cmp.Equal(got, []int64{8, 20}) {
		t.Error(got)
	}
	own()
	s.task.Status.Rendezvous.Restore = 8 // and a copy is lost
	if got := s.keep(c, 2, 8, when); !cmp.Equal(got, []int64{8}) {
		t.Errorf("%v in the next generation", got)
	}
	if got := s.keep(c, 2, 9, when); !cmp.Equal(got, []int64{8, 9}) {
		t.Errorf("%v: a step of this generation can be copied", got)
	}
}

// TestLostLauncherIsReplacedAlone where its states are elsewhere; where they are not, all start again.
func TestLostLauncherIsReplacedAlone(t *testing.T) {
	for _, safe := range []bool{true, false} {
		s := peeredSeen(3)
		s.members[1].state, s.members[1].attached, s.members[1].exit = engine.StateDone, false, exit(engine.ReasonLauncherLost, -1)
		for i := range 3 {
			s.holdsCopy(i, i, 5)
			if safe {
				s.holdsCopy(i, (i+2)%3, 5)
			}
		}
		p := decide(s, now)
		if replaced := p.resize != nil && p.status.Attempt == 1 && len(p.stop) == 0; replaced != safe {
			t.Errorf("safe %v: attempt %d, stops %v, resize %+v", safe, p.status.Attempt, p.stop, p.resize)
		}
		if !safe {
			continue
		}
		// Another one stands in its slot, and is ready.
		s.task.Status, s.placement.Spec = p.status, *p.resize
		s.members[1] = at(3, 1, engine.StateCreated, true, nil)
		s.members[1].ranks, s.members[1].number, s.members[1].node, s.members[1].said = 2, 1, "n1", link.Ranks{Port: 4003, PeerPort: 6003, Prepared: true}
		for i := range s.members {
			s.members[i].said.Frozen = true
		}
		s.table()
		p = decide(s, now)
		if p.status.Generation != 2 || p.status.Rendezvous.Restore != 5 || !slices.Equal(p.goAhead, []int{0, 1, 2}) {
			t.Fatalf("generation %d, %+v, go %v", p.status.Generation, p.status.Rendezvous, p.goAhead)
		}
		g := s.orderFor(1, p.status, true)
		if want := []link.Source{{First: 2, Ranks: 2, Address: "127.0.0.1:6002"}}; g.FirstRank != 2 || !cmp.Equal(g.Sources, want) || g.Peer == "" {
			t.Errorf("%+v", g)
		}
	}
}

// TestEveryPeeredLifeEnds: as TestEveryElasticLifeEnds, of a task whose launchers keep each other's states: in
// one attempt a replica has the same ranks in every generation, and where a generation goes on from is
// held for each rank by somebody who is there.
func TestEveryPeeredLifeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tk := between(3, 3, 3)
		tk.Spec.Checkpoint = &api.Checkpoints{Peer: true}
		lifeEnds(t, tk)
	})
}

// checkPeers holds a plan of a task with peer memory against what must never be.
func (g *stage) checkPeers(s seen, p plan) {
	if !g.tk.Spec.PeerMemory() || p.status.Generation == g.tk.Status.Generation {
		return
	}
	if step := p.status.Rendezvous.Restore; step > 0 && s.heldByAll() != step && !covers(s.where(step, 0, s.world), s.world, 1) {
		g.t.Fatalf("step %d is nowhere whole", step)
	}
	for i := range s.members {
		m := &s.members[i]
		if first, was := g.seats[m.name]; was && first != m.first {
			g.t.Fatalf("%s had rank %d and has %d", m.name, first, m.first)
		}
		g.seats[m.name] = m.first
	}
}

// copy has launchers hold states, of their own ranks and of others.
func (g *stage) copy() {
	if !g.tk.Spec.PeerMemory() {
		return
	}
	for _, name := range sortedNames(g.world) {
		m := g.world[name]
		if m.said.PeerPort = 6000; m.state != engine.StateRunning || len(m.said.Copies) > 4 {
			continue
		}
		of := rapid.IntRange(0, 2).Draw(g.t, "of")
		m.said.Copies = append(m.said.Copies, link.Copy{First: of, Ranks: 1, Steps: []int64{rapid.Int64Range(1, 3).Draw(g.t, "step")}})
	}
}
