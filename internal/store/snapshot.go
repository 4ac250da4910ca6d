package store

import (
	"strings"

	"github.com/google/btree"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Snapshot is one moment of a kind, cheap to take and to keep for a while. Safe for concurrent
// use. The zero value is empty.
type Snapshot struct {
	// Revision is the store revision the cache had seen.
	Revision int64
	tree     *btree.BTreeG[api.Object]
}

// Len is how many objects there are.
func (s Snapshot) Len() int {
	if s.tree == nil {
		return 0
	}
	return s.tree.Len()
}

// Ascend visits the objects with ids after the given one ("" from the start), oldest first,
// until visit returns false.
func (s Snapshot) Ascend(after string, visit func(api.Object) bool) {
	if s.tree == nil {
		return
	}
	if after == "" {
		s.tree.Ascend(visit)
		return
	}
	s.tree.AscendGreaterOrEqual(pivot{meta: &api.Meta{ID: after, Name: pastAllNames}}, visit)
}

// Descend visits the objects with ids before the given one ("" from the end), newest first,
// until visit returns false.
func (s Snapshot) Descend(before string, visit func(api.Object) bool) {
	if s.tree == nil {
		return
	}
	if before == "" {
		s.tree.Descend(visit)
		return
	}
	// Nothing is less than an id with an empty project and name but smaller ids.
	s.tree.DescendLessOrEqual(pivot{meta: &api.Meta{ID: before}}, func(o api.Object) bool {
		return o.GetMeta().ID >= before || visit(o)
	})
}

// pastAllNames is larger than any project and name.
const pastAllNames = "\xff"

// pivot is a place in the order of objects.
type pivot struct{ meta *api.Meta }

func (pivot) Kind() api.Kind       { return "" }
func (p pivot) GetMeta() *api.Meta { return p.meta }

// byID orders by id. Name and project make the order total, so that an object without an id, or
// two with the same one, are strange but not lost.
func byID(a, b api.Object) bool {
	x, y := a.GetMeta(), b.GetMeta()
	if c := strings.Compare(x.ID, y.ID); c != 0 {
		return c < 0
	}
	if c := strings.Compare(x.Name, y.Name); c != 0 {
		return c < 0
	}
	return x.Project < y.Project
}
