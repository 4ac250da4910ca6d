package order_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

type thing struct{ priority, at int }

func (x *thing) Lies() *int { return &x.at }

// TestTiers: whatever comes and goes, those up to a priority are those that a list would say.
func TestTiers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tiers order.Tiers[*thing]
		var all []*thing
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "goes") == 0 {
				k := rapid.IntRange(0, len(all)-1).Draw(t, "who")
				tiers.Take(all[k], all[k].priority)
				all = slices.Delete(all, k, k+1)
			} else {
				x := &thing{priority: rapid.IntRange(-2, 2).Draw(t, "priority")}
				tiers.Put(x, x.priority)
				all = append(all, x)
			}
			most := rapid.IntRange(-3, 3).Draw(t, "most")
			got := map[*thing]bool{}
			last := -9
			for x := range tiers.UpTo(most) {
				if got[x] || x.priority > most || x.priority < last {
					t.Fatalf("%+v is out of place", x)
				}
				got[x], last = true, x.priority
			}
			if tiers.Count(most) != len(got) {
				t.Fatalf("%d, not %d", tiers.Count(most), len(got))
			}
			for _, x := range all {
				if got[x] != (x.priority <= most) {
					t.Fatalf("%+v: said %t", x, got[x])
				}
			}
		}
	})
}
