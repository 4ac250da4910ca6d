package order_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

func TestRankIsByPriorityThenOverdueThenLevelThenAge(t *testing.T) {
	want := []order.Rank{
		{Priority: 9, Level: 7, Age: "z"},
		{Priority: 5, Overdue: true, Level: 9, Age: "a"},
		{Priority: 5, Overdue: true, Level: 1, Age: "b"},
		{Priority: 5, Level: 1, Age: "y"},
		{Priority: 5, Level: 2, Age: "c"},
		{Priority: 5, Level: 2, Age: "d"},
		{Priority: 1, Overdue: true, Age: "a"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, order.Rank.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestLevelsAreStepsOfTwo(t *testing.T) {
	for i := range 30 {
		if a, b := order.Level(int64(1)<<(2*i)), order.Level(int64(1)<<(2*i+1)); b != a+1 {
			t.Errorf("%d: %d, %d", i, a, b)
		}
	}
	if order.Level(0) != order.Level(1) || order.Level(-5) != order.Level(1) {
		t.Error("nothing left is the smallest level")
	}
}

type item struct {
	rank order.Rank
	spot order.Spot
}

func (i *item) Rank() order.Rank   { return i.rank }
func (i *item) Where() *order.Spot { return &i.spot }

// TestShelf compares with sorted lists.
func TestShelf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s order.Shelf[*item]
		lies := map[*item]bool{} // true: ready
		var items []*item
		for i := range 8 {
			items = append(items, &item{rank: order.Rank{Level: i % 3, Age: fmt.Sprint(i)}})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			x := rapid.SampledFrom(items).Draw(t, "item")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				s.Put(x)
				lies[x] = true
			case 1:
				s.Park(x)
				lies[x] = false
			case 2:
				s.Drop(x)
				delete(lies, x)
			case 3:
				x.rank.Level = rapid.IntRange(0, 5).Draw(t, "level")
				s.Fix(x)
			case 4:
				s.Unpark()
				for y := range lies {
					lies[y] = true
				}
			}
			var ready []*item
			for y, r := range lies {
				if r {
					ready = append(ready, y)
				}
			}
			slices.SortFunc(ready, func(a, b *item) int { return a.rank.Compare(b.rank) })
			all := slices.Collect(maps.Keys(lies))
			slices.SortFunc(all, func(a, b *item) int { return a.rank.Compare(b.rank) })
			if first, ok := s.First(); ok != (len(all) > 0) || ok && first != all[0] {
				t.Fatalf("first %v %v of %v", first, ok, all)
			}
			best, ok := s.Best()
			if ok != (len(ready) > 0) || ok && best != ready[0] || s.Ready() != len(ready) || s.Parked() != len(lies)-len(ready) {
				t.Fatalf("best %v %v of %d ready, %d parked; want %v", best, ok, s.Ready(), s.Parked(), ready)
			}
		}
	})
}
