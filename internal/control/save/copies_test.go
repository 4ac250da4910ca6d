package save

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/google/go-cmp/cmp"
)

// peered is a running task of so many members of two ranks each, with peer memory.
func peered(n int) *gang.Gang {
	tk := task(api.PhaseRunning, 1, 1)
	tk.Spec.Checkpoint, tk.Spec.Restart = &api.Checkpoints{Peer: true}, &api.RestartPolicy{MaxRestarts: 5}
	tk.Spec.Roles[0].Replicas = n
	s := &gang.Gang{Terms: gang.Terms{Task: tk, Placement: placed()}}
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
func holdsCopy(s *gang.Gang, i, of int, steps ...int64) {
	m := &s.Members[i]
	m.Said.Copies = append(m.Said.Copies, link.Copy{First: s.Members[of].First, Ranks: 2, Steps: steps})
}

// TestKeep: what is safe stays until something newer is; a new step begins only then, and not at once.
func TestKeep(t *testing.T) {
	s, d := peered(2), turnOf(peered(2), false)
	keep := func(generation int, watermark int64) []int64 {
		s.Task.Status.Generation = generation
		return d.keep(main(s), watermark)
	}
	own := func(steps ...int64) {
		for i := range 2 {
			s.Members[i].Said.Copies = nil
			holdsCopy(s, i, i, steps...)
		}
	}
	if got := keep(1, 3); !cmp.Equal(got, []int64{3}) {
		t.Error(got)
	}
	own(3)
	if got := keep(1, 7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v before step 3 is safe", got)
	}
	holdsCopy(s, 1, 0, 3)
	if got := keep(1, 7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v: only one has its copy", got)
	}
	holdsCopy(s, 0, 1, 3)
	if got := keep(1, 7); !cmp.Equal(got, []int64{3}) {
		t.Errorf("%v: too soon", got)
	}
	d.now = d.now.Add(copyEvery)
	if got := keep(1, 8); !cmp.Equal(got, []int64{3, 8}) {
		t.Error(got)
	}
	d.now = d.now.Add(time.Minute)
	if got := keep(1, 20); !cmp.Equal(got, []int64{3, 8}) {
		t.Errorf("%v: step 8 is on its way", got)
	}
	own(3, 8)
	holdsCopy(s, 0, 1, 3, 8)
	holdsCopy(s, 1, 0, 3, 8)
	if got := keep(1, 20); !cmp.Equal(got, []int64{8, 20}) {
		t.Error(got)
	}
	own()
	s.Task.Status.Rendezvous.Restore = 8 // and a copy is lost
	if got := keep(2, 8); !cmp.Equal(got, []int64{8}) {
		t.Errorf("%v in the next generation", got)
	}
	if got := keep(2, 9); !cmp.Equal(got, []int64{8, 9}) {
		t.Errorf("%v: a step of this generation can be copied", got)
	}
}
