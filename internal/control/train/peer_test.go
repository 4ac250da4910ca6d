package train

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// peeredSeen is a running task of so many members of two ranks each, with peer memory.
func peeredSeen(n int) snapshot {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Checkpoint, tk.Spec.Restart = &api.Checkpoints{Peer: true}, &api.RestartPolicy{MaxRestarts: 5}
	tk.Spec.Roles[0].Replicas = n
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}}}
	s.Placement.Spec.Roles = []api.RoleAssignment{{Role: "worker"}}
	tk.Status.Rendezvous = nil
	for i := range n {
		m := at(i, 1, engine.StateRunning, true, nil)
		m.Ranks, m.Number, m.Usable, m.Said.PeerPort = 2, uint32(i), true, 6000+i
		s.Members = append(s.Members, m)
		s.Placement.Spec.Roles[0].Slots = append(s.Placement.Spec.Roles[0].Slots, api.Slot{Node: uint32(i)})
	}
	s.Rank()
	tk.Status.Rendezvous = &api.Rendezvous{Members: s.Members.Hash(), Lead: "127.0.0.1:4000", World: s.World, Below: s.Members.Below(), Seats: s.Seating()}
	return s
}

// holdsCopy adds states to what a member said.
func (s *snapshot) holdsCopy(i, of int, steps ...int64) {
	m := &s.Members[i]
	m.Said.Copies = append(m.Said.Copies, link.Copy{First: s.Members[of].First, Ranks: 2, Steps: steps})
}

// TestLostLauncherIsReplacedAlone where its states are elsewhere; where they are not, all start again.
func TestLostLauncherIsReplacedAlone(t *testing.T) {
	for _, safe := range []bool{true, false} {
		s := peeredSeen(3)
		s.Members[1].State, s.Members[1].Attached, s.Members[1].Exit = engine.StateDone, false, exit(engine.ReasonLauncherLost, -1)
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
		s.Task.Status, s.Placement.Spec = p.status, *p.resize
		s.Members[1] = at(3, 1, engine.StateCreated, true, nil)
		s.Members[1].Ranks, s.Members[1].Number, s.Members[1].Node, s.Members[1].Said = 2, 1, "n1", link.Ranks{Port: 4003, Prepared: true, Holding: link.Holding{PeerPort: 6003}}
		for i := range s.Members {
			s.Members[i].Said.Frozen = true
		}
		s.Rank()
		p = decide(s, now)
		if p.status.Generation != 2 || p.status.Rendezvous.Restore != 5 || !slices.Equal(p.goAhead, []int{0, 1, 2}) {
			t.Fatalf("generation %d, %+v, go %v", p.status.Generation, p.status.Rendezvous, p.goAhead)
		}
		g := s.orderFor(1, &p.status, true)
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
func (g *stage) checkPeers(s snapshot, p plan) {
	if !g.tk.Spec.PeerMemory() || p.status.Generation == g.tk.Status.Generation {
		return
	}
	if step := p.status.Rendezvous.Restore; step > 0 && s.Members.HeldByAll() != step && s.Members.Covered(s.World) < step {
		g.t.Fatalf("step %d is nowhere whole", step)
	}
	for i := range s.Members {
		m := &s.Members[i]
		if first, was := g.seats[m.Name]; was && first != m.First {
			g.t.Fatalf("%s had rank %d and has %d", m.Name, first, m.First)
		}
		g.seats[m.Name] = m.First
	}
}

// copy has launchers hold states, of their own ranks and of others.
func (g *stage) copy() {
	if !g.tk.Spec.PeerMemory() {
		return
	}
	for _, name := range sortedNames(g.world) {
		m := g.world[name]
		if m.Said.PeerPort = 6000; m.State != engine.StateRunning || len(m.Said.Copies) > 4 {
			continue
		}
		of := rapid.IntRange(0, 2).Draw(g.t, "of")
		m.Said.Copies = append(m.Said.Copies, link.Copy{First: of, Ranks: 1, Steps: []int64{rapid.Int64Range(1, 3).Draw(g.t, "step")}})
	}
}
