package store_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// TestTakeOver: placements that bear the names of their tasks get the tasks' ids as names, and nothing else
// about them changes; those that have them already are not written.
func TestTakeOver(t *testing.T) {
	s := storetest.Open(t)
	var old []*api.Placement
	for i := range 120 { // more than one write
		name := fmt.Sprintf("t%d", i)
		p := &api.Placement{Meta: api.Meta{ID: id.Default.New("plc"), Name: name, DisplayName: "训练", Project: "p"}, Spec: api.PlacementSpec{
			TaskID: id.Default.New("task"), Attempt: 2, Roles: []api.RoleAssignment{{Role: "worker", Slots: make(api.Slots, 400)}},
		}}
		commitOne(t, s, p)
		old = append(old, p)
	}
	fresh := &api.Placement{Meta: api.Meta{ID: id.Default.New("plc"), DisplayName: "new", Project: "p"}, Spec: api.PlacementSpec{TaskID: id.Default.New("task")}}
	fresh.Meta.Name = fresh.Spec.TaskID
	commitOne(t, s, fresh)
	if _, err := s.List(t.Context(), api.KindPlacement, "", fresh.Meta.Revision); err != nil { // as a new leader has seen all
		t.Fatal(err)
	}
	for _, want := range []int{len(old), 0} {
		if n, err := store.TakeOver(t.Context(), s, store.Epoch{}); err != nil || n != want {
			t.Fatalf("%d were taken over (%v), not %d", n, err, want)
		}
	}
	all, err := s.List(t.Context(), api.KindPlacement, "", 0)
	if err != nil || all.Len() != len(old)+1 {
		t.Fatalf("there are %d: %v", all.Len(), err)
	}
	all.Ascend("", func(o api.Object) bool {
		if p := o.(*api.Placement); p.Meta.Name != p.Spec.TaskID {
			t.Errorf("%s has the name %s", p.Spec.TaskID, p.Meta.Name)
		}
		return true
	})
	for _, p := range old {
		o, err := s.Get(t.Context(), api.PlaceKey("p", p.Spec.TaskID), 0)
		if err != nil {
			t.Fatal(err)
		}
		want := store.Clone(p)
		want.Meta.DisplayName, want.Meta.Name, want.Meta.Revision = p.Meta.Name, p.Spec.TaskID, o.GetMeta().Revision
		if diff := cmp.Diff(want, o); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", p.Meta.Name, diff)
		}
	}
	o, err := s.Get(t.Context(), api.KeyOf(fresh), 0)
	if err != nil || o.GetMeta().Revision != fresh.Meta.Revision {
		t.Errorf("the new one was written: %v", err)
	}
}

func commitOne(t *testing.T, s *store.Store, o api.Object) {
	t.Helper()
	if _, err := s.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Create(o)}}); err != nil {
		t.Fatal(err)
	}
}
