package sched

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// area is a domain of the slow version: a node, or areas.
type area struct {
	n     *node
	parts []*area
	bad   bool
}

func (a *area) nodes() []*node {
	if a.n != nil {
		return []*node{a.n}
	}
	var out []*node
	for _, p := range a.parts {
		out = append(out, p.nodes()...)
	}
	return out
}

// slow is placement as one would explain it, for gangs of one role without special wishes: no index,
// no tree, everything counted anew.
type slow struct {
	c      *Cluster
	ix     *index // only its wish
	strict bool
}

func (s *slow) room(a *area) int64 {
	sum := int64(0)
	for _, n := range a.nodes() {
		fits, _ := slowFits(s.c, n, s.ix)
		if s.strict && n.Failures > 0 {
			fits = 0
		}
		sum += int64(fits)
	}
	return sum
}

// group makes an area of each run of nodes with equal names.
func group(nodes []*node, name func(*node) string, inner func([]*node) []*area) []*area {
	var out []*area
	for i := 0; i < len(nodes); {
		k := i
		for k < len(nodes) && name(nodes[k]) == name(nodes[i]) {
			k++
		}
		out = append(out, &area{parts: inner(nodes[i:k])})
		i = k
	}
	return out
}

func slowRack(n *node) string { return cmp.Or(n.Rack, fmt.Sprintf("\xff%08d", n.Number)) }

func slowZone(z *zone) *area {
	nodes := slices.Clone(z.nodes)
	slices.SortFunc(nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(slowRack(a), slowRack(b)), cmp.Compare(a.Number, b.Number))
	})
	leaf := func(n *node) string { return n.Leaf }
	return &area{bad: z.Degraded, parts: group(nodes, leaf, func(in []*node) []*area {
		return group(in, slowRack, func(in []*node) []*area {
			var out []*area
			for _, n := range in {
				out = append(out, &area{n: n})
			}
			return out
		})
	})}
}

// into divides count over an area.
func (s *slow) into(a *area, count int64, on map[*node]int64) {
	if a.n != nil {
		on[a.n] += count
		return
	}
	rest := slices.Clone(a.parts)
	for count > 0 {
		slices.SortStableFunc(rest, func(p, q *area) int {
			if p.bad != q.bad {
				return map[bool]int{true: 1, false: -1}[p.bad]
			}
			return cmp.Or(cmp.Compare(s.room(q), s.room(p)), s.order(p, q, 1))
		})
		at := 0
		for i, p := range rest { // the tightest that holds the rest
			if s.room(p) >= count && p.bad == rest[0].bad && s.room(p) < s.room(rest[at]) {
				at = i
			}
		}
		take := min(count, s.room(rest[at]))
		s.into(rest[at], take, on)
		count -= take
		rest = slices.Delete(rest, at, at+1)
	}
}

// order compares nodes; other areas keep theirs.
func (s *slow) order(p, q *area, count int64) int {
	if p.n == nil {
		return 0
	}
	tight := 0
	if count > 1 {
		tight = cmp.Compare(s.room(p), s.room(q))
	}
	_, ps := slowFits(s.c, p.n, s.ix)
	_, qs := slowFits(s.c, q.n, s.ix)
	return cmp.Or(cmp.Compare(p.n.Failures, q.n.Failures), tight, cmp.Compare(qs, ps))
}

func (s *slow) within(zones []*area, count int64) (map[*node]int64, bool) {
	up := map[*area]*area{} // what an area is part of; zones are of nothing
	for depth := range 3 {
		for _, a := range atDepth(zones, depth) {
			for _, p := range a.parts {
				up[p] = a
			}
		}
	}
	for _, z := range zones {
		up[z] = &area{}
	}
	for depth := 3; depth >= 0; depth-- {
		var best *area
		for _, a := range atDepth(zones, depth) {
			if s.room(a) < count {
				continue
			}
			tighter := best == nil || cmp.Or(cmp.Compare(s.room(a), s.room(best)), cmp.Compare(s.room(up[a]), s.room(up[best]))) < 0
			if depth == 3 && best != nil {
				tighter = s.order(a, best, count) < 0
			}
			if tighter {
				best = a
			}
		}
		if best != nil && depth == 3 && s.room(best) == count && s.ix.Ask.Devices > 0 && count*int64(s.ix.Ask.Devices) == int64(len(best.n.Devices)) {
			first := best
			for _, a := range atDepth(zones, depth) { // it takes a whole node
				if s.room(a) == count && s.order(a, first, count) == 0 &&
					cmp.Or(cmp.Compare(s.room(up[a]), s.room(up[best])), cmp.Compare(s.room(up[up[a]]), s.room(up[up[best]]))) < 0 {
					best = a
				}
			}
		}
		if best != nil {
			on := map[*node]int64{}
			s.into(best, count, on)
			return on, true
		}
	}
	return nil, false
}

func atDepth(areas []*area, depth int) []*area {
	for ; depth > 0; depth-- {
		var below []*area
		for _, a := range areas {
			below = append(below, a.parts...)
		}
		areas = below
	}
	return areas
}

func (s *slow) place(w *Workload) (map[*node]int64, bool) {
	count := int64(w.Replicas())
	zones := slices.Clone(s.c.order)
	slices.SortFunc(zones, func(a, b *zone) int { return cmp.Compare(a.Name, b.Name) })
	byHealth := map[bool][]*area{}
	for _, z := range zones {
		byHealth[z.Degraded] = append(byHealth[z.Degraded], slowZone(z))
	}
	for _, degraded := range []bool{false, true} {
		for _, strict := range []bool{true, false} {
			s.strict = strict
			if on, ok := s.within(byHealth[degraded], count); ok {
				return on, true
			}
		}
	}
	return nil, false
}

func TestPlacementAgreesWithTheObviousOne(t *testing.T) {
	placed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, n := range w.c.nodes { // leaves hold racks here, and no host limits
			again := n.Node
			again.Host = ""
			if again.Leaf == "leaf9" {
				again.Leaf, again.Rack = "", ""
			}
			w.set(again)
		}
		for range rapid.IntRange(0, 20).Draw(t, "life") {
			g := w.workload(false)
			if at, ok := place(w.c, g); ok {
				if err := w.c.Hold(g.ID, g.Roles, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		n := w.someNode().Node
		n.Failures = w.n(2)
		w.set(n)
		g := w.workload(true)
		g.Roles = g.Roles[:1]
		g.Roles[0].Need.DeviceTypes = nil
		key, ok := w.c.askKey(&g.Roles[0].Need, 0)
		if !ok {
			return
		}
		want, ok := (&slow{c: w.c, ix: &index{Key: key, Ask: key.Ask()}}).place(g)
		at, got := place(w.c, g)
		if !ok {
			refused++
			if got && !crosses(w.c, at) {
				t.Fatalf("%+v at %v, the slow version finds nothing", g.Roles[0], at)
			}
			return
		}
		placed++
		if !got {
			t.Fatalf("%+v found no place, the slow version has %v", g.Roles[0], want)
		}
		have := map[*node]int64{}
		for _, s := range at[0] {
			have[w.c.nodes[s.Node]]++
		}
		for n := range w.c.nodes {
			if node := w.c.nodes[n]; have[node] != want[node] {
				t.Fatalf("%+v: node %s gets %d, the slow version gives it %d", g.Roles[0], node.Name, have[node], want[node])
			}
		}
	})
	if placed < 20 || refused < 5 {
		t.Errorf("%d placed and %d refused say little", placed, refused)
	}
}

// crosses says that a gang stands in more than one zone.
func crosses(c *Cluster, at Assignment) bool {
	zone := ""
	for _, slots := range at {
		for _, s := range slots {
			if z := c.nodes[s.Node].Zone; zone != "" && z != zone {
				return true
			} else {
				zone = z
			}
		}
	}
	return false
}

func cards(n int, kind string) []string { return slices.Repeat([]string{kind}, n) }

// at says where each replica of the first role stands.
func at(t *testing.T, c *Cluster, w *Workload) []api.Slot {
	t.Helper()
	got, ok := place(c, w)
	if !ok {
		return nil
	}
	return got[0]
}

func gangOf(replicas int, need Need) *Workload {
	return &Workload{ID: "g", Roles: []Role{{Name: "w", Replicas: replicas, Need: need}}}
}

func clusterOf(t *testing.T, nodes ...Node) *Cluster {
	t.Helper()
	c := NewCluster()
	for _, n := range nodes {
		if n.CPU == 0 {
			n.CPU, n.Memory = 64000, 64<<30
		}
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestPlacementRules(t *testing.T) {
	type slots = []api.Slot
	eight := func(number uint32, zone, rack string) Node {
		return Node{Number: number, Zone: zone, Rack: rack, Devices: cards(8, "A100")}
	}
	one, two := Need{Devices: 1}, Need{Devices: 2}
	tests := map[string]struct {
		nodes []Node
		zones []Zone
		w     *Workload
		want  slots
	}{
		"the tightest rack that holds all": {
			nodes: []Node{eight(1, "z", "a"), eight(2, "z", "a"), eight(3, "z", "a"), eight(4, "z", "b"), eight(5, "z", "b")},
			w:     gangOf(2, Need{Devices: 8}), want: slots{{Node: 4, Devices: 255}, {Node: 5, Devices: 255}},
		},
		"the rest to the node it fills": {
			nodes: []Node{eight(1, "z", "a"), eight(2, "z", "a"),
				{Number: 3, Zone: "z", Rack: "a", Devices: cards(4, "A100")}, {Number: 4, Zone: "z", Rack: "a", Devices: cards(2, "A100")}},
			w: gangOf(5, Need{Devices: 2}), want: slots{{Node: 1, Devices: 3}, {Node: 1, Devices: 12}, {Node: 1, Devices: 48}, {Node: 1, Devices: 192}, {Node: 4, Devices: 3}},
		},
		"no more processes than the machine behind runs": {
			nodes: []Node{{Number: 1, Zone: "z", Host: "h", Devices: cards(2, "A100")}, {Number: 2, Zone: "z", Host: "h", Devices: cards(2, "A100")}},
			w:     gangOf(4, one),
		},
		"and the rest elsewhere": {
			nodes: []Node{{Number: 1, Zone: "z", Host: "h", Devices: cards(2, "A100")}, {Number: 2, Zone: "z", Host: "h", Devices: cards(2, "A100")},
				{Number: 3, Zone: "z", Devices: cards(2, "A100")}},
			w: gangOf(5, one), want: slots{{Node: 1, Devices: 1}, {Node: 1, Devices: 2}, {Node: 2, Devices: 1}, {Node: 3, Devices: 1}, {Node: 3, Devices: 2}},
		},
		"but as many": {
			nodes: []Node{{Number: 1, Zone: "z", Host: "h", Devices: cards(2, "A100")}, {Number: 2, Zone: "z", Host: "h", Devices: cards(2, "A100")}},
			w:     gangOf(3, one), want: slots{{Node: 1, Devices: 1}, {Node: 1, Devices: 2}, {Node: 2, Devices: 1}},
		},
		"roles that each fit a rack but not together go on to the next": {
			nodes: []Node{eight(1, "z", "a"), {Number: 2, Zone: "z", Rack: "a", CPU: 1, Memory: 1},
				eight(3, "z", "b"), {Number: 4, Zone: "z", Rack: "b", CPU: 64000, Memory: 64 << 30}, eight(5, "z", "b")},
			w:    &Workload{Roles: []Role{{Replicas: 1, Need: Need{CPU: 40000, Devices: 8}}, {Replicas: 1, Need: Need{CPU: 40000}}}, Topology: Topology{MaxPerRack: 2}},
			want: slots{{Node: 3, Devices: 255}},
		},
		"a failed try leaves nothing behind": {
			nodes: []Node{{Number: 1, Zone: "z", Rack: "a", CPU: 100000, Memory: 64 << 30, Devices: cards(8, "A100")},
				{Number: 2, Zone: "z", Rack: "b", CPU: 40000, Memory: 64 << 30, Devices: cards(8, "A100")}},
			w:    &Workload{Roles: []Role{{Replicas: 1, Need: Need{CPU: 40000, Devices: 8}}, {Replicas: 1, Need: Need{CPU: 70000}}}},
			want: slots{{Node: 2, Devices: 255}},
		},
		"the first type that works": {
			nodes: []Node{eight(1, "z", ""), {Number: 2, Zone: "z", Devices: cards(1, "H800")}},
			w:     gangOf(1, Need{Devices: 1, DeviceTypes: []string{"V100", "h-800", "A100"}}), want: slots{{Node: 2, Devices: 1}},
		},
		"half cards share one, a whole one needs an untouched card": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(2, "A100")}},
			w: &Workload{Roles: []Role{
				{Replicas: 2, Need: Need{Devices: 1, Share: 500}}, {Replicas: 1, Need: Need{Devices: 1}}}},
			want: slots{{Node: 1, Devices: 2}, {Node: 1, Devices: 2}},
		},
		"a replica's devices hang on one island": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(8, "A100"), Islands: []string{"a", "b", "a", "b", "a", "b", "a", "b"}, ClosedDevices: 1}},
			w:     gangOf(1, Need{Devices: 4}), want: slots{{Node: 1, Devices: 0b10101010}},
		},
		"so do a gang's devices on a node": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(8, "A100"), Islands: []string{"a", "a", "a", "a", "b", "b", "b", "b"}, ClosedDevices: 1}},
			w:     gangOf(2, Need{Devices: 2}), want: slots{{Node: 1, Devices: 0x30}, {Node: 1, Devices: 0xc0}},
		},
		"a closed device is not given": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(2, "A100"), ClosedDevices: 1}},
			w:     gangOf(2, one), want: nil,
		},
		"nodes that failed come last": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(1, "A100"), Failures: 2}, eight(2, "z", "")},
			w:     gangOf(1, one), want: slots{{Node: 2, Devices: 1}},
		},
		"a gang goes round them": {
			nodes: []Node{{Number: 1, Zone: "z", Rack: "a", Devices: cards(8, "A100"), Failures: 1}, eight(2, "z", "a"), eight(3, "z", "b"), eight(4, "z", "b"), eight(5, "z", "b")},
			w:     gangOf(2, Need{Devices: 8}), want: slots{{Node: 3, Devices: 255}, {Node: 4, Devices: 255}},
		},
		"but they come": {
			nodes: []Node{{Number: 1, Zone: "z", Devices: cards(1, "A100"), Failures: 2}},
			w:     gangOf(1, one), want: slots{{Node: 1, Devices: 1}},
		},
		"to its data": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(1, one).Roles, Data: []Datum{{Bytes: 1 << 40, Zones: []string{"b"}}}}, want: slots{{Node: 2, Devices: 1}},
		},
		"not on a node to avoid": {
			nodes: []Node{eight(1, "a", ""), eight(2, "a", "")},
			w:     &Workload{Roles: gangOf(1, one).Roles, Nodes: Nodes{Avoid: []uint32{1, 7}}}, want: slots{{Node: 2, Devices: 1}},
		},
		"on the only node that it may use": {
			nodes: []Node{{Number: 1, Name: "n1", Zone: "a", Devices: cards(8, "A100")}, {Number: 2, Name: "n2", Zone: "b", Devices: cards(8, "A100")}},
			w:     &Workload{Roles: gangOf(1, one).Roles, Nodes: Nodes{Only: "n2"}}, want: slots{{Node: 2, Devices: 1}},
		},
		"nowhere where that is not there": {
			nodes: []Node{{Number: 1, Name: "n1", Zone: "a", Devices: cards(8, "A100")}},
			w:     &Workload{Roles: gangOf(1, one).Roles, Nodes: Nodes{Only: "n2"}},
		},
		"spread over racks, then over nodes": {
			nodes: []Node{eight(1, "z", "a"), eight(2, "z", "a"), eight(3, "z", "b")},
			w:     &Workload{Roles: gangOf(4, one).Roles, Topology: Topology{Spread: true}},
			want:  slots{{Node: 1, Devices: 1}, {Node: 2, Devices: 1}, {Node: 3, Devices: 1}, {Node: 3, Devices: 2}},
		},
		"no more a rack than wished": {
			nodes: []Node{eight(1, "z", "a"), eight(2, "z", "a"), eight(3, "z", "b")},
			w:     &Workload{Roles: gangOf(3, one).Roles, Topology: Topology{MaxPerRack: 2}},
			want:  slots{{Node: 1, Devices: 1}, {Node: 1, Devices: 2}, {Node: 3, Devices: 1}},
		},
		"a rack under two leaves is one rack": {
			nodes: []Node{{Number: 1, Zone: "z", Rack: "a", Leaf: "x", Devices: cards(8, "A100")}, {Number: 2, Zone: "z", Rack: "a", Leaf: "y", Devices: cards(8, "A100")}},
			w:     &Workload{Roles: gangOf(2, one).Roles, Topology: Topology{MaxPerRack: 1}},
		},
		"whose leaves are tighter": {
			nodes: []Node{{Number: 1, Zone: "z", Rack: "a", Leaf: "x", Devices: cards(8, "A100")}, {Number: 2, Zone: "z", Rack: "a", Leaf: "x", Devices: cards(8, "A100")},
				{Number: 3, Zone: "z", Rack: "a", Leaf: "x", Devices: cards(8, "A100")},
				{Number: 4, Zone: "z", Rack: "a", Leaf: "y", Devices: cards(8, "A100")}, {Number: 5, Zone: "z", Rack: "a", Leaf: "y", Devices: cards(8, "A100")}},
			w: gangOf(2, Need{Devices: 8}), want: slots{{Node: 4, Devices: 255}, {Node: 5, Devices: 255}},
		},
		"also where leaves hold racks": {
			nodes: []Node{{Number: 1, Zone: "z", Rack: "a", Leaf: "x", Devices: cards(8, "A100")}, {Number: 2, Zone: "z", Rack: "a", Leaf: "y", Devices: cards(8, "A100")},
				{Number: 3, Zone: "z", Rack: "b", Leaf: "x", Devices: cards(8, "A100")}},
			w:    &Workload{Roles: gangOf(2, one).Roles, Topology: Topology{MaxPerRack: 1}},
			want: slots{{Node: 1, Devices: 1}, {Node: 3, Devices: 1}},
		},
		"too many for the racks": {
			nodes: []Node{eight(1, "z", "a"), eight(2, "z", "a"), eight(3, "z", "b")},
			w:     &Workload{Roles: gangOf(5, one).Roles, Topology: Topology{MaxPerRack: 2}},
		},
		"split as the user says": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "b", "")},
			zones: []Zone{{Name: "a", Region: "x"}, {Name: "b", Region: "y"}},
			w:     &Workload{Roles: gangOf(3, Need{Devices: 8}).Roles, Split: where.Split{"b": where.Exactly(2), "a": where.Exactly(1)}},
			want:  slots{{Node: 1, Devices: 255}, {Node: 2, Devices: 255}, {Node: 3, Devices: 255}},
		},
		"a split that does not add up": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(2, one).Roles, Split: where.Split{"b": where.Exactly(2), "a": where.Exactly(1)}},
		},
		"a zone may be lost": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "b", "")},
			zones: []Zone{{Name: "a", Region: "x"}, {Name: "b", Region: "x"}},
			w:     &Workload{Roles: gangOf(3, one).Roles, Survive: true},
			want:  slots{{Node: 1, Devices: 1}, {Node: 1, Devices: 2}, {Node: 2, Devices: 1}},
		},
		"which one zone can't give": {
			nodes: []Node{eight(1, "a", ""), eight(2, "a", "")},
			w:     &Workload{Roles: gangOf(2, one).Roles, Survive: true},
		},
		"nor zones that are too full": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "b", ""), eight(4, "b", "")},
			zones: []Zone{{Name: "a", Region: "x"}, {Name: "b", Region: "x"}},
			w:     &Workload{Roles: gangOf(4, Need{Devices: 8}).Roles, Survive: true},
		},
		"a split that can't lose a zone": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			zones: []Zone{{Name: "a", Region: "x"}, {Name: "b", Region: "x"}},
			w:     &Workload{Roles: gangOf(4, one).Roles, Survive: true, Split: where.Split{"a": where.Exactly(3), "b": where.Exactly(1)}},
		},
		"one region and no other": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			zones: []Zone{{Name: "a", Region: "x", Latency: map[string]time.Duration{"b": time.Millisecond}}, {Name: "b", Region: "y"}},
			w:     &Workload{Roles: gangOf(2, Need{Devices: 8}).Roles, OneRegion: true},
		},
		"two zones of one region": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "c", "")},
			zones: []Zone{{Name: "a", Region: "x"}, {Name: "b", Region: "y"}, {Name: "c", Region: "x"}},
			w:     gangOf(2, Need{Devices: 8}), want: slots{{Node: 1, Devices: 255}, {Node: 3, Devices: 255}},
		},
		"a split with bounds: the least in each, the rest in as few as can be": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(5, two).Roles, Split: where.Split{"a": {Least: 1, Most: 4}, "b": {Least: 1, Most: 4}}},
			want:  slots{{Node: 1, Devices: 3}, {Node: 1, Devices: 12}, {Node: 1, Devices: 48}, {Node: 1, Devices: 192}, {Node: 2, Devices: 3}},
		},
		"or evenly": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(4, two).Roles, Split: where.Split{"a": {Least: 1, Most: 4}, "b": {Least: 1, Most: 4}}, Wish: Wish{Balance: true}},
			want:  slots{{Node: 1, Devices: 3}, {Node: 1, Devices: 12}, {Node: 2, Devices: 3}, {Node: 2, Devices: 12}},
		},
		"what one zone has no room for goes to another": {
			nodes: []Node{{Number: 1, Zone: "a", Devices: cards(2, "A100")}, eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(3, two).Roles, Split: where.Split{"a": {Least: 1, Most: 3}, "b": {Most: 3}}},
			want:  slots{{Node: 1, Devices: 3}, {Node: 2, Devices: 3}, {Node: 2, Devices: 12}},
		},
		"but its least is asked for": {
			nodes: []Node{{Number: 1, Zone: "a", Devices: cards(2, "A100")}, eight(2, "b", "")},
			w:     &Workload{Roles: gangOf(3, two).Roles, Split: where.Split{"a": {Least: 2, Most: 3}, "b": {Most: 3}}},
		},
		"a zone that may have none is left out where it is too far": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "c", "")},
			zones: []Zone{{Name: "a", Latency: map[string]time.Duration{"b": 8 * time.Millisecond, "c": time.Millisecond}}, {Name: "b"}, {Name: "c"}},
			w: &Workload{Roles: gangOf(2, Need{Devices: 8}).Roles, MaxLatency: 2 * time.Millisecond,
				Split: where.Split{"a": {Least: 1, Most: 2}, "b": {Most: 2}, "c": {Most: 2}}},
			want: slots{{Node: 1, Devices: 255}, {Node: 3, Devices: 255}},
		},
		"balanced: where most room is left": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), {Number: 3, Zone: "b", Devices: cards(2, "A100")}},
			w:     &Workload{Roles: gangOf(3, two).Roles, Wish: Wish{Balance: true}},
			want:  slots{{Node: 1, Devices: 3}, {Node: 2, Devices: 3}, {Node: 2, Devices: 12}},
		},
		"balanced: one alone too": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", ""), eight(3, "b", "")},
			w:     &Workload{Roles: gangOf(1, Need{Devices: 4}).Roles, Wish: Wish{Balance: true}},
			want:  slots{{Node: 2, Devices: 15}},
		},
		"balanced: not over zones that are far": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			zones: []Zone{{Name: "a", Latency: map[string]time.Duration{"b": 8 * time.Millisecond}}, {Name: "b"}},
			w:     &Workload{Roles: gangOf(2, two).Roles, Wish: Wish{Balance: true}},
			want:  slots{{Node: 1, Devices: 3}, {Node: 1, Devices: 12}},
		},
		"not over zones that are far": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			zones: []Zone{{Name: "a", Region: "x", Latency: map[string]time.Duration{"b": 8 * time.Millisecond}}, {Name: "b", Region: "x"}},
			w:     gangOf(2, Need{Devices: 8}),
		},
		"a closed zone is in nobody's way": {
			nodes: []Node{eight(1, "a", ""), {Number: 2, Zone: "b", Devices: cards(8, "A100"), Closed: true}, eight(3, "c", ""), {Number: 4, Zone: "d", Devices: cards(8, "A100"), Closed: true}},
			zones: []Zone{
				{Name: "a", Latency: map[string]time.Duration{"b": time.Millisecond, "c": 10 * time.Millisecond, "d": 20 * time.Millisecond}},
				{Name: "c", Latency: map[string]time.Duration{"b": 20 * time.Millisecond, "d": time.Millisecond}}, {Name: "b"}, {Name: "d"},
			},
			w:    &Workload{Roles: gangOf(2, Need{Devices: 8}).Roles, MaxLatency: 15 * time.Millisecond},
			want: slots{{Node: 1, Devices: 255}, {Node: 3, Devices: 255}},
		},
		"unless the user bears it": {
			nodes: []Node{eight(1, "a", ""), eight(2, "b", "")},
			zones: []Zone{{Name: "a", Region: "x", Latency: map[string]time.Duration{"b": 8 * time.Millisecond}}, {Name: "b", Region: "x"}},
			w:     &Workload{Roles: gangOf(2, Need{Devices: 8}).Roles, MaxLatency: 10 * time.Millisecond},
			want:  slots{{Node: 1, Devices: 255}, {Node: 2, Devices: 255}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(t, tc.nodes...)
			c.SetHost(Host{Name: "h", Processes: 3})
			for _, z := range tc.zones {
				c.SetZone(z)
			}
			if got := at(t, c, tc.w); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestVectors(t *testing.T) {
	c := clusterOf(t, Node{Number: 1, Zone: "z", Devices: cards(2, "A100")}, Node{Number: 2, Zone: "z", Devices: cards(1, "V100")})
	want := Vector{128000, 128 << 30, 3000, 2000, 1000}
	if got := c.Total(); !slices.Equal(got, want) {
		t.Error(got)
	}
	w := gangOf(4, Need{CPU: 10, Memory: 20, Devices: 1, Share: 250, DeviceType: "v100"})
	if got := c.Need(w); !slices.Equal(got, Vector{40, 80, 1000, 0, 1000}) {
		t.Error(got)
	}
	if id, ok := c.TypeID("V-100"); !ok || c.TypeName(id) != "V100" {
		t.Error(id, ok)
	}
	if err := c.RemoveNode(2); err != nil {
		t.Fatal(err)
	}
	if got := c.Total(); !slices.Equal(got, Vector{64000, 64 << 30, 2000, 2000, 0}) {
		t.Error(got)
	}
}

func slot(number uint32, devices uint64) api.Slot { return api.Slot{Node: number, Devices: devices} }

// TestARackLimitFindsTheOneLeaf: of many leaves that have room but only one rack, none is tried.
func TestARackLimitFindsTheOneLeaf(t *testing.T) {
	c := NewCluster()
	for i := range 42 {
		leaf := min(i, 40) // the last two racks share one
		n := Node{Number: uint32(i + 1), Zone: "z", Leaf: fmt.Sprintf("leaf%02d", leaf), Rack: fmt.Sprintf("rack%02d", i), CPU: 64000, Memory: 64 << 30, Devices: cards(8, "A100")}
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	w := gangOf(2, Need{Devices: 1})
	w.Topology.MaxPerRack = 1
	if got := at(t, c, w); !slices.Equal(got, []api.Slot{slot(41, 1), slot(42, 1)}) {
		t.Error(got)
	}
}

func TestHoldGivesNothingTwice(t *testing.T) {
	c := clusterOf(t, Node{Number: 1, Zone: "z", Devices: cards(2, "A100")}, Node{Number: 2, Zone: "z"})
	half := gangOf(1, Need{CPU: 1000, Devices: 1, Share: 600}).Roles
	if err := c.Hold("a", half, Assignment{{slot(1, 1)}}); err != nil {
		t.Fatal(err)
	}
	before := c.digest()
	for name, at := range map[string]Assignment{
		"beyond its capacity":   {{slot(1, 2), slot(1, 1)}},
		"twice in one gang":     {{slot(1, 2), slot(1, 2)}},
		"which is not there":    {{slot(2, 0), slot(1, 4)}},
		"on a node unheard of":  {{slot(1, 2), slot(9, 1)}},
		"to a role unheard of":  {{slot(1, 2)}, {slot(1, 2)}},
		"to who has it already": nil,
	} {
		id := "b"
		if at == nil {
			id, at = "a", Assignment{{slot(1, 2)}}
		}
		if err := c.Hold(id, half, at); err == nil {
			t.Error("a device was given", name)
		}
		if after := c.digest(); after != before {
			t.Fatalf("%s: a refusal changed the cluster:\n%s\n%s", name, before, after)
		}
	}
	if err := c.RemoveNode(1); err == nil {
		t.Error("a node with work on it was removed")
	}
	c.Release("a")
	c.Release("never held")
	if err := c.RemoveNode(1); err != nil {
		t.Error(err)
	}
}

// TestANewNodeIsSeen: what was plainly too much is not, once there is more.
func TestANewNodeIsSeen(t *testing.T) {
	node := Node{Number: 1, Zone: "z", CPU: 64000, Memory: 64 << 30, Devices: cards(8, "A100")}
	c := clusterOf(t, node)
	w := gangOf(2, Need{CPU: 64000, Devices: 8})
	if got := at(t, c, w); got != nil {
		t.Fatal(got)
	}
	node.Number = 2
	if err := c.SetNode(node); err != nil {
		t.Fatal(err)
	}
	if got := at(t, c, w); len(got) != 2 {
		t.Error(got)
	}
	small := gangOf(3, Need{Devices: 5}) // enough devices, in the wrong places
	if got := at(t, c, small); got != nil {
		t.Fatal(got)
	}
	node.Number = 3
	if err := c.SetNode(node); err != nil {
		t.Fatal(err)
	}
	if got := at(t, c, small); len(got) != 3 {
		t.Error(got)
	}
}
