package gang

import (
	"fmt"
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"pgregory.net/rapid"
)

// peered is a running task of so many members of two ranks each, with peer memory.
func peered(n int) *Gang {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Checkpoint, tk.Spec.Restart = &api.Checkpoints{Peer: true}, &api.RestartPolicy{MaxRestarts: 5}
	tk.Spec.Roles[0].Replicas = n
	s := &Gang{Terms: Terms{Task: tk, Placement: placed()}}
	s.Placement.Spec.Roles = []api.RoleAssignment{{Role: "worker"}}
	tk.Status.Rendezvous = nil
	for i := range n {
		m := at(i, 1, engine.StateRunning, true)
		m.Ranks, m.Number, m.Usable, m.Said.PeerPort = 2, uint32(i), true, 6000+i
		s.Members = append(s.Members, m)
		s.Placement.Spec.Roles[0].Slots = append(s.Placement.Spec.Roles[0].Slots, api.Slot{Node: uint32(i)})
	}
	s.Rank()
	tk.Status.Rendezvous = &api.Rendezvous{Members: s.Members.Hash(), Lead: "127.0.0.1:4000", World: s.World, Below: s.Members.Below(), Seats: s.Seating()}
	return s
}

// holdsCopy adds states to what a member said.
func holdsCopy(s *Gang, i, of int, steps ...int64) {
	m := &s.Members[i]
	m.Said.Copies = append(m.Said.Copies, link.Copy{First: s.Members[of].First, Ranks: 2, Steps: steps})
}

// TestCovered: the step to restore is the newest that somebody present has of every rank, as a slow and
// obvious search says; what one member could not have is not chosen again.
func TestCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "members")
		s := peered(n)
		for i := range n {
			s.Members[i].Attached = rapid.IntRange(0, 4).Draw(t, "here") > 0
			for range rapid.IntRange(0, 4).Draw(t, "copies") {
				steps := rapid.SliceOfNDistinct(rapid.Int64Range(1, 4), 1, 3, rapid.ID).Draw(t, "steps")
				slices.Sort(steps)
				holdsCopy(s, i, rapid.IntRange(0, n-1).Draw(t, "of"), steps...)
			}
			s.Members[i].Said.Missed = rapid.Int64Range(0, 4).Draw(t, "missed")
		}
		has := func(rank int, step int64) bool {
			for _, m := range s.Members {
				for _, c := range m.Said.Copies {
					if m.Attached && rank >= c.First && rank < c.First+c.Ranks && slices.Contains(c.Steps, step) {
						return true
					}
				}
			}
			return false
		}
		want := int64(0)
		for step := int64(1); step <= 4; step++ {
			all := !slices.ContainsFunc(s.Members, func(m Member) bool { return m.Said.Missed == step })
			for rank := range s.World {
				all = all && has(rank, step)
			}
			if all {
				want = step
			}
		}
		if got := s.Members.Covered(s.World); got != want {
			t.Fatalf("step %d instead of %d", got, want)
		}
		for i := range s.Members {
			g := link.Generation{States: link.States{Restore: want}}
			s.Introduce(i, &g)
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
		s := peered(n)
		first := map[int]int{}
		for i := range s.Members {
			first[s.Members[i].Index] = s.Members[i].First
		}
		lost := rapid.IntRange(0, n-1).Draw(t, "lost")
		empty := s.Members[lost].First
		m := &s.Members[lost]
		m.Index, m.Number = n, uint32(rapid.IntRange(0, 2*n).Draw(t, "elsewhere"))
		m.Node = fmt.Sprint("n", m.Number)
		delete(first, lost)
		s.Rank()
		if m.First != empty {
			t.Fatalf("the newcomer has rank %d, and %d is free", m.First, empty)
		}
		nodes := map[string]bool{}
		for i := range s.Members {
			nodes[s.Members[i].Node] = true
		}
		for i := range s.Members {
			if was, stayed := first[s.Members[i].Index]; stayed && was != s.Members[i].First {
				t.Fatalf("replica %d had rank %d and has %d", s.Members[i].Index, was, s.Members[i].First)
			}
			if k := s.peerOf(i); len(nodes) > 1 && (k < 0 || s.Members[k].Node == s.Members[i].Node) {
				t.Fatalf("member %d has its copy with %d of %v", i, k, nodes)
			}
		}
	})
}

// TestPeerApart: peers are in another leaf, and outside of the tensor group, where there is one.
func TestPeerApart(t *testing.T) {
	s := peered(4)
	for i, leaf := range []string{"a", "a", "b", "b"} {
		s.Members[i].Leaf = leaf
	}
	s.Rank()
	for i := range s.Members {
		if k := s.peerOf(i); s.Members[k].Leaf == s.Members[i].Leaf {
			t.Errorf("%d and its peer %d are both in leaf %s", i, k, s.Members[i].Leaf)
		}
	}
	s = peered(4)
	s.Task.Spec.Strategy = &api.Strategy{Tensor: 4}
	for i := range s.Members {
		if k := s.peerOf(i); s.sameGroup(&s.Members[i], &s.Members[k]) {
			t.Errorf("%d and its peer %d share matrices", i, k)
		}
	}
}
