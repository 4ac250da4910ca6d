package cache

import (
	"fmt"
	"testing"
)

// TestMost: the place with most bytes of all that is read, the best one where none has more; what was seen longest ago is forgotten.
func TestMost(t *testing.T) {
	var b Book
	everywhere := func(node uint32) int32 { return int32(node) }
	reads := []Version{{"large", 100}, {"small", 1}, {"other", 1}}
	most := func(want int32, at func(uint32) int32) {
		t.Helper()
		if got := b.Most(reads, 7, at); got != want {
			t.Errorf("node %d, not %d", got, want)
		}
	}
	most(7, everywhere)
	b.Saw("small", 1)
	b.Saw("other", 1)
	most(1, everywhere)
	b.Saw("large", 3)
	b.Saw("large", 2)
	b.Saw("large", 3)
	most(2, everywhere) // of two alike the first
	most(1, func(node uint32) int32 {
		if node > 1 {
			return -1 // none that is as good as the best
		}
		return int32(node)
	})
	b.Saw("large", 7)
	most(7, everywhere)
	if got := b.Most(nil, 7, everywhere); got != 7 {
		t.Error(got)
	}
	for i := range mostVersions {
		b.Saw(fmt.Sprint(i), 1)
	}
	if b.Has("large", 2) || !b.Has("0", 1) || len(b.by) != mostVersions || len(b.order) != mostVersions {
		t.Errorf("%d versions are remembered", len(b.by))
	}
	for i := range uint32(2 * mostNodes) {
		b.Saw("1", i)
	}
	if b.Has("1", 0) || !b.Has("1", 2*mostNodes-1) || len(b.by["1"]) != mostNodes {
		t.Errorf("%d nodes are remembered", len(b.by["1"]))
	}
}
