package sched

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// TestSpot: never and only keep a gang off nodes, and prefer is as only where that has room in one domain, else as no rule; what the rules forbid is not
// placed, and what they leave is as if the other nodes were closed.
func TestSpot(t *testing.T) {
	kept, preferred, fell := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 12).Draw(t, "life") {
			w.step()
		}
		for _, n := range w.c.nodes {
			n.Spot = w.n(2) == 0
			w.c.touch(n)
		}
		w.c.bounds.holds = nil // as where nodes are set
		g := w.workload(true)
		g.Roles = g.Roles[:1]
		try := func(rule spot.Rule) (at Assignment, onSpot, offSpot int, ok bool) {
			g.Roles[0].Need.Spot = rule
			at, ok = place(w.c, g)
			for _, slots := range at {
				for _, s := range slots {
					if w.c.nodes[s.Node].Spot {
						onSpot++
					} else {
						offSpot++
					}
				}
			}
			return at, onSpot, offSpot, ok
		}
		_, _, _, any := try("")
		_, on, _, never := try(spot.Never)
		_, _, off, only := try(spot.Only)
		if on > 0 || off > 0 || (never || only) && !any {
			t.Fatalf("%+v: %d replicas against the rule; without one %v, never %v, only %v", g.Roles[0], on+off, any, never, only)
		}
		_, on, off, ok := try(spot.Prefer)
		if ok != any {
			t.Fatalf("%+v: preferred %v, without a rule %v", g.Roles[0], ok, any)
		}
		kept += on
		if ok && off == 0 {
			preferred++
		}
		if ok && off > 0 {
			fell++
		}
		// As if all others were closed.
		g.Roles[0].Need.Spot = ""
		for _, n := range w.c.nodes {
			n.Closed = n.Closed || !n.Spot
			w.c.touch(n)
		}
		if _, closed := place(w.c, g); closed != only {
			t.Fatalf("%+v: on spot nodes alone %v, with the others closed %v", g.Roles[0], only, closed)
		}
	})
	if kept == 0 || preferred == 0 || fell == 0 {
		t.Errorf("%d on spot nodes, %d gangs all there, %d not: that says little", kept, preferred, fell)
	}
}
