package placement_test

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// between is a task of whole nodes that may grow and shrink.
func between(name string, low, replicas, high int) *api.TrainingTask {
	tk := task(name, replicas, 2)
	tk.Spec.Roles[0].MinReplicas, tk.Spec.Roles[0].MaxReplicas, tk.Spec.Preemptible = &low, &high, true
	return tk
}

func runs(t *testing.T, s *store.Store, tk *api.TrainingTask) {
	t.Helper()
	next := store.Clone(tk)
	next.Status.Phase, next.Status.Attempt = api.PhaseRunning, 1
	commit(t, s, store.Update(next))
}

func slots(s *store.Store, name string) api.RoleAssignment {
	p := place(s, name)
	if p == nil {
		return api.RoleAssignment{}
	}
	return p.Spec.Roles[0]
}

// TestGrowsAndShrinks: a gang starts at what there is, grows when there is more, is asked to shrink for
// another, and grows again under indexes that nobody had.
func TestGrowsAndShrinks(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(4, 0)
	lead(t, s, zones, all, func(c *placement.Config) { c.Quantum = time.Second })
	first := task("first", 2, 2) // half of the cluster
	commit(t, s, store.Create(first))
	eventually(t, "the first stands", func() bool { return place(s, "first") != nil })
	tk := between("elastic", 1, 3, 4)
	commit(t, s, store.Create(tk))
	eventually(t, "it starts at its least size", func() bool { return len(slots(s, "elastic").Slots) == 1 })
	runs(t, s, tk)
	eventually(t, "it grows to what there is", func() bool { return len(slots(s, "elastic").Slots) == 2 })

	urgent := task("urgent", 1, 2)
	high := 900
	urgent.Spec.Priority = &high
	commit(t, s, store.Create(urgent))
	eventually(t, "it is asked to shrink", func() bool { return place(s, "elastic").Spec.Shrink != nil })
	p := store.Clone(place(s, "elastic"))
	if keep := p.Spec.Shrink.Keep[0]; len(p.Spec.Roles[0].Slots) != 2 || len(keep.Slots) != 1 || keep.Index(0) != 0 || keep.Next != 2 || place(s, "urgent") != nil {
		t.Fatalf("%+v", p.Spec)
	}
	p.Spec.Roles, p.Spec.Shrink = p.Spec.Shrink.Keep, nil // as train does, once they have ended
	commit(t, s, store.Update(p))
	eventually(t, "the other starts", func() bool { return place(s, "urgent") != nil })

	over := func(done *api.TrainingTask) {
		next := store.Clone(done)
		next.Status.Phase = api.PhaseCompleted
		commit(t, s, store.Update(next), store.Delete(api.KeyOf(place(s, done.Meta.Name)), 0))
	}
	over(first)
	over(urgent)
	eventually(t, "it grows to its largest size", func() bool { return len(slots(s, "elastic").Slots) == 4 })
	if r := slots(s, "elastic"); !slices.Equal(r.Indexes, []int{0, 2, 3, 4}) || r.Next != 5 {
		t.Errorf("%+v", r)
	}
	if used := nodesIn(place(s, "elastic").Spec.Roles); len(slices.Compact(slices.Sorted(slices.Values(used)))) != 4 {
		t.Errorf("given twice: %v", used)
	}
}

// TestReplacesLost: replicas that were lost with a node get room elsewhere, and nothing is left over.
func TestReplacesLost(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(3, 0)
	c := lead(t, s, zones, all)
	tk := between("elastic", 1, 2, 2)
	commit(t, s, store.Create(tk))
	eventually(t, "it stands", func() bool { return len(slots(s, "elastic").Slots) == 2 })
	runs(t, s, tk)
	lost := store.Clone(place(s, "elastic"))
	gone := lost.Spec.Roles[0].Slots[0].Node
	o, err := s.Get(t.Context(), api.Key{Kind: api.KindNode, Name: all[gone-1].Meta.Name}, 0)
	if err != nil {
		t.Fatal(err)
	}
	closed := store.Clone(o.(*api.Node))
	closed.Spec.Cordoned = true
	commit(t, s, store.Update(closed))
	role := lost.Spec.Roles[0]
	lost.Spec.Roles = []api.RoleAssignment{role.Keep(func(i int) bool { return i == 1 })}
	lost.Spec.Lost = &api.Loss{Until: time.Now().Add(time.Hour).UTC(), Roles: map[string]int{"worker": 1}}
	commit(t, s, store.Update(lost))
	eventually(t, "it is replaced", func() bool { return len(slots(s, "elastic").Indexes) == 2 })
	p := place(s, "elastic")
	if r := p.Spec.Roles[0]; slices.Contains(nodesIn(p.Spec.Roles), gone) || !slices.Equal(r.Indexes, []int{1, 2}) || len(p.Spec.Lost.Roles) != 0 {
		t.Errorf("%+v", p.Spec)
	}
	other := task("other", 1, 2)
	commit(t, s, store.Create(other))
	eventually(t, "nothing is free but the closed node", func() bool {
		ex, ok := c.Why(other.Meta.ID)
		return ok && ex.Reason != advice.ReasonScheduling
	})
	if place(s, "other") != nil {
		t.Error("a slot was given twice")
	}
}

// TestReplacedOutside: the place of two faults is left for a lost replica where there is room elsewhere; where there is
// none it goes on there, rather on another node.
func TestReplacedOutside(t *testing.T) {
	for name, c := range map[string]struct {
		racks []string // of four nodes, the gang on the first two
		want  []uint32 // any of them
	}{
		"room outside":    {[]string{"r1", "r1", "r1", "r2"}, []uint32{4}},
		"no room outside": {[]string{"r1", "r1", "r1", "r1"}, []uint32{3, 4}},
		"only the node":   {[]string{"r1", "r1"}, []uint32{2}},
	} {
		s := storetest.Open(t)
		zones, all := twoZones(len(c.racks), 0)
		for i := range all {
			all[i].Spec.Rack = c.racks[i]
		}
		lead(t, s, zones, all)
		tk := between("elastic", 1, 2, 2)
		commit(t, s, store.Create(tk))
		eventually(t, "it stands", func() bool { return len(slots(s, "elastic").Slots) == 2 })
		runs(t, s, tk)
		p := store.Clone(place(s, "elastic"))
		gone := p.Spec.Roles[0].Slots[1].Node
		p.Spec.Roles = []api.RoleAssignment{p.Spec.Roles[0].Keep(func(i int) bool { return i == 0 })}
		p.Spec.Lost = &api.Loss{Until: time.Now().Add(time.Hour).UTC(), Roles: map[string]int{"worker": 1}, Around: "rack", Of: gone}
		commit(t, s, store.Update(p))
		eventually(t, "it is replaced", func() bool { return slices.Equal(slots(s, "elastic").Indexes, []int{0, 2}) })
		if got := slots(s, "elastic").Slots[1].Node; !slices.Contains(c.want, got) {
			t.Errorf("%s: on node %d, not %v; lost was that of %d", name, got, c.want, gone)
		}
	}
}

// TestSparesStand: spares are placed with the gang; one that is lost is replaced for as long as it takes, and never
// on a node that is at fault.
func TestSparesStand(t *testing.T) {
	s := storetest.Open(t)
	zones, all := twoZones(4, 0)
	lead(t, s, zones, all)
	other := task("other", 1, 2)
	commit(t, s, store.Create(other))
	eventually(t, "the other stands", func() bool { return place(s, "other") != nil })
	tk := task("guarded", 2, 2)
	tk.Spec.Roles[0].Spares = 1
	commit(t, s, store.Create(tk))
	eventually(t, "it stands on one more", func() bool { return len(slots(s, "guarded").Slots) == 3 })
	runs(t, s, tk)
	p := store.Clone(place(s, "guarded"))
	gone := p.Spec.Roles[0].Slots[2].Node
	p.Spec.Roles = []api.RoleAssignment{p.Spec.Roles[0].Keep(func(i int) bool { return i < 2 })}
	p.Spec.Lost = &api.Loss{Roles: map[string]int{"worker": 1}, Avoid: []uint32{gone}}
	commit(t, s, store.Update(p))
	next := task("next", 1, 2) // placed after a turn that saw the loss: it gets what must not be the spare's
	commit(t, s, store.Create(next))
	eventually(t, "somebody gets what is left", func() bool { return place(s, "next") != nil })
	if n := len(slots(s, "guarded").Slots); n != 2 {
		t.Fatalf("%d replicas", n)
	}
	was := store.Clone(other)
	was.Status.Phase = api.PhaseCompleted
	commit(t, s, store.Update(was), store.Delete(api.KeyOf(place(s, "other")), 0))
	eventually(t, "it is replaced", func() bool { return len(slots(s, "guarded").Slots) == 3 })
	if r := slots(s, "guarded"); slices.Contains(nodesIn([]api.RoleAssignment{r}), gone) || !slices.Equal(r.Indexes, []int{0, 1, 3}) {
		t.Errorf("%+v", r)
	}
}
