package safety

import (
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/sched"
)

// TestMigrations holds every proposal against the book: new places are free beside the old ones and
// break no rule, only those move who may, and in the same scenario played again, once they have
// moved, the workload starts.
func TestMigrations(t *testing.T) {
	asked, found, moves := 0, 0, 0
	for seed := range number(t, "FERMI_MIGRATIONS", 200) {
		w := settled(t, seed)
		for _, id := range sorted(w.b.waits) {
			asked++
			m, ok := sched.Migrate(w.now, w.c, w.q, id, nil)
			if !ok {
				continue
			}
			found++
			moves += len(m.Moves)
			if why := w.checkMigration(m); why != "" {
				t.Fatalf("seed %d: %s: %s\n%+v", seed, id, why, m)
			}
			if why := migrate(settled(t, seed), m); why != "" {
				t.Fatalf("seed %d: %s: %s\n%+v", seed, id, why, m)
			}
		}
		if res := sched.Plan(w.now, w.c, w.q, w.p); len(res.Decisions) > 0 {
			t.Fatalf("seed %d: to look changed something: %v", seed, ids(res))
		}
	}
	t.Logf("%d asked, %d proposals with %d moves", asked, found, moves)
	if found == 0 || moves == found {
		t.Error("too little was seen:", found, moves)
	}
}

// checkMigration names what is wrong with a proposal, by the book alone.
func (w *world) checkMigration(m sched.Migration) string {
	loads, moved := w.b.loads(), map[string]bool{}
	if w.b.stands[m.For] != nil || len(m.Moves) == 0 {
		return "it does not wait, or nobody moves"
	}
	for _, mv := range m.Moves {
		g := w.b.stands[mv.ID]
		switch {
		case g == nil || moved[mv.ID]:
			return mv.ID + " does not stand, or moves twice"
		case !same(g.at, mv.From):
			return mv.ID + " stands elsewhere"
		case !g.w.Preemptible || g.w.Priority > w.b.waits[m.For].Priority:
			return mv.ID + " may not be asked"
		}
		for i := range mv.To {
			if len(mv.To[i]) != len(g.at[i]) {
				return mv.ID + " does not stand whole"
			}
		}
		if why := w.b.rules(g.w, mv.To, slotsOf(mv.To)); why != "" {
			return why
		}
		moved[mv.ID] = true
		put(loads, g.w, mv.To)
	}
	for _, mv := range m.Moves {
		for _, s := range slotsOf(mv.To) {
			if why := w.b.overfull(&loads[s.Node], s.Node, false); why != "" {
				return why
			}
		}
	}
	return ""
}

// migrate carries a proposal out, and says what keeps the workload from starting.
func migrate(w *world, m sched.Migration) string {
	for _, other := range sorted(w.b.waits) {
		if other != m.For {
			w.cancel(other)
		}
	}
	for _, mv := range m.Moves {
		if err := w.c.Reserve(mv.ID, mv.To); err != nil {
			return err.Error()
		}
	}
	for _, mv := range m.Moves {
		if err := sched.Moved(w.now, w.c, w.q, mv.ID, mv.To, w.now); err != nil {
			return err.Error()
		}
		w.b.stands[mv.ID].at = mv.To
	}
	if why := w.turn(); why != "" {
		return why
	}
	if w.b.stands[m.For] == nil {
		after, _ := sched.Explain(w.now, w.c, w.q, m.For, 10_000)
		return fmt.Sprintf("it still waits: %s %s", after.Reason, after.Message.EN)
	}
	return ""
}
