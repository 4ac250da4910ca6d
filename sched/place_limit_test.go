package sched

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/room"
)

// TestSpreadAndLimitsMissNothing: what can be placed is placed, and a spread is even.
func TestSpreadAndLimitsMissNothing(t *testing.T) {
	placed, limited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 12).Draw(t, "life") {
			w.step()
		}
		g := w.workload(true)
		g.Roles = g.Roles[:1]
		_, plain := place(w.c, g)
		g.Topology.Spread = true
		at, spread := place(w.c, g)
		if plain != spread {
			t.Fatalf("%+v: packed %v, spread %v", g.Roles[0], plain, spread)
		}
		if spread {
			placed++
			even(t, w.c, g, at)
		}
		g.Topology = Topology{MaxPerRack: 1 + w.n(3)}
		if most := slowMost(w.c, g); most < g.Roles[0].Replicas {
			return
		}
		limited++
		if _, ok := place(w.c, g); !ok {
			t.Fatalf("%+v: there is a zone with racks enough for %+v", g.Roles[0], g.Topology)
		}
	})
	if placed == 0 || limited == 0 { // about 50 and 14 of 100
		t.Errorf("%d spread and %d limited say little", placed, limited)
	}
}

// even: while a rack with fewer replicas has room and its host too, no other rack of the zone has
// two more.
func even(t *rapid.T, c *Cluster, g *Workload, at Assignment) {
	if crosses(c, at) || c.lemons > 0 {
		return
	}
	before := map[uint32]int32{}
	key := choiceOf(c, g, at)
	for number, n := range c.nodes {
		before[number], _ = slowFits(c, n, &index{Key: key, Ask: key.Ask()})
	}
	racks, room, hosted := map[string]int{}, map[string]int32{}, false
	zone := c.nodes[at[0][0].Node].Zone
	for number, n := range c.nodes {
		if n.Zone == zone {
			room[slowRack(n)] += before[number]
			hosted = hosted || n.host != nil
		}
	}
	for _, s := range at[0] {
		racks[slowRack(c.nodes[s.Node])]++
		room[slowRack(c.nodes[s.Node])]--
	}
	if hosted {
		return
	}
	for full, count := range racks {
		for other, left := range room {
			if left > 0 && racks[other]+1 < count {
				t.Fatalf("rack %q has %d and %q, with room for %d more, %d", full, count, other, left, racks[other])
			}
		}
	}
}

// choiceOf is the wish that was granted: the type of the first replica's devices.
func choiceOf(c *Cluster, g *Workload, at Assignment) room.Key {
	need := &g.Roles[0].Need
	first := at[0][0]
	for i := range need.Choices() {
		key, ok := c.askKey(need, i)
		if !ok {
			continue
		}
		for d, kind := range c.nodes[first.Node].room.Types {
			if key.Kind < 0 || (first.Devices>>d&1 != 0 && int32(kind) == key.Kind) {
				return key
			}
		}
		if need.Devices == 0 {
			return key
		}
	}
	panic("no choice was granted")
}

// slowMost is the most replicas one zone takes with so many a rack at most; hosts are left out, so a
// world with hosts counts nothing.
func slowMost(c *Cluster, g *Workload) int {
	best := 0
	for choice := range g.Roles[0].Need.Choices() {
		key, ok := c.askKey(&g.Roles[0].Need, choice)
		if !ok {
			continue
		}
		for _, z := range c.order {
			racks, sum := map[string]int{}, 0
			for _, n := range z.nodes {
				if n.host != nil {
					return 0
				}
				fits, _ := slowFits(c, n, &index{Key: key, Ask: key.Ask()})
				racks[slowRack(n)] += int(fits)
			}
			for _, count := range racks {
				sum += min(count, g.Topology.MaxPerRack)
			}
			best = max(best, sum)
		}
	}
	return best
}
