package sched

import (
	"testing"
	"time"
)

// TestOverdueShareIsMadeUpFor: what the overdue may hold falls with what they held beyond their share, and is not all or nothing.
func TestOverdueShareIsMadeUpFor(t *testing.T) {
	q := &Queues{longest: 1000 * time.Second}
	for _, c := range []struct {
		recent float64
		due    int
		first  bool
	}{
		{.5, 50, true}, {.5, 51, false}, // as much as their share
		{.6, 40, true}, {.6, 41, false}, // a little more: they may have a little less, not nothing
		{.2, 50, true}, {.2, 51, false}, // less: their share
		{1, 1, false},
	} {
		l := &lane{held: 100, dueLine: dueLine{heldDue: c.due, recent: c.recent, overdueWork: 25_000}} // a share of one half
		if got := l.goesFirst(q, &entry{w: &Workload{ID: "a"}}); got != c.first {
			t.Errorf("held %.1f lately and %d %% now: goes first %t", c.recent, c.due, got)
		}
	}
}
