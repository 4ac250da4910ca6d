package sched

import (
	"cmp"
	"fmt"
	"slices"
)

// tree is the nodes in topology order: region, zone, leaf, rack, number. Every domain is a range
// of it, and the domains of a level are numbered in that order, so a domain's children are a
// range too. It is made anew when nodes come, go or move, which is rare.
type tree struct {
	nodes  []*node
	levels [levels][]domain
	of     [levels][]int32 // by node: its domain
	zones  []*zone         // by domain of the zone level
	// racks is the level at which this zone's racks are, by zone.
	racks []int
}

// The levels above nodes. Small and large are rack and leaf, or leaf and rack where racks span
// leaves.
const (
	small = iota
	large
	zonal
	levels
)

// nodal is the level of single nodes.
const nodal = -1

type domain struct {
	lo, hi   int32 // nodes
	klo, khi int32 // domains of the level below, or nodes
}

// topology gives the tree, made when it must be.
func (c *Cluster) topology() *tree {
	if c.tree == nil {
		c.tree = c.grow()
		c.known.lay(c.tree)
		c.bounds.holds = nil
	}
	return c.tree
}

func (c *Cluster) grow() *tree {
	t := &tree{}
	zones := slices.Clone(c.order)
	first := map[string]string{} // region → its first zone, by which regions are ordered
	for _, z := range zones {
		if f, ok := first[z.Region]; !ok || z.Name < f {
			first[z.Region] = z.Name
		}
	}
	slices.SortFunc(zones, func(a, b *zone) int {
		return cmp.Or(cmp.Compare(first[a.Region], first[b.Region]), cmp.Compare(a.Name, b.Name))
	})
	for _, z := range zones {
		z.at = -1
		if len(z.nodes) > 0 {
			z.at = len(t.zones)
			t.zones = append(t.zones, z)
			t.addZone(z)
		}
	}
	return t
}

func (t *tree) addZone(z *zone) {
	type placed struct {
		n            *node
		large, small string
	}
	rackLevel, names := nesting(z)
	t.racks = append(t.racks, rackLevel)
	list := make([]placed, 0, len(z.nodes))
	for _, n := range z.nodes {
		large, small := names(n)
		list = append(list, placed{n, large, small})
	}
	slices.SortStableFunc(list, func(a, b placed) int { // nodes are by number already
		return cmp.Or(cmp.Compare(a.large, b.large), cmp.Compare(a.small, b.small))
	})
	t.open(zonal)
	for i, p := range list {
		newLarge := i == 0 || p.large != list[i-1].large
		if newLarge {
			t.open(large)
		}
		if newLarge || p.small != list[i-1].small {
			t.open(small)
		}
		t.add(p.n)
	}
}

// open starts the next domain of a level where the nodes so far end.
func (t *tree) open(level int) {
	at, kids := int32(len(t.nodes)), int32(len(t.nodes))
	if level > small {
		kids = int32(len(t.levels[level-1]))
	}
	t.levels[level] = append(t.levels[level], domain{lo: at, hi: at, klo: kids, khi: kids})
}

func (t *tree) add(n *node) {
	n.at = int32(len(t.nodes))
	t.nodes = append(t.nodes, n)
	for level := range levels {
		id := len(t.levels[level]) - 1
		d := &t.levels[level][id]
		d.hi++
		d.khi = d.hi
		if level > small {
			d.khi = int32(len(t.levels[level-1]))
		}
		t.of[level] = append(t.of[level], int32(id))
	}
}

// nesting says at which level a zone's racks are, and what a node's domains are called. Leaves
// hold racks, or the other way round; where neither is true leaves are not looked at. A node
// without a rack is one by itself.
func nesting(z *zone) (rackLevel int, names func(*node) (large, small string)) {
	rack := func(n *node) string {
		if n.Rack == "" {
			return fmt.Sprintf("\xff%010d", n.Number)
		}
		return n.Rack
	}
	leafOf, rackOf := map[string]string{}, map[string]string{}
	rackSpans, leafSpans := false, false
	for _, n := range z.nodes {
		if l, ok := leafOf[rack(n)]; ok && l != n.Leaf {
			rackSpans = true
		}
		leafOf[rack(n)] = n.Leaf
		if r, ok := rackOf[n.Leaf]; ok && r != rack(n) {
			leafSpans = true
		}
		rackOf[n.Leaf] = rack(n)
	}
	switch {
	case !rackSpans:
		return small, func(n *node) (string, string) { return n.Leaf, rack(n) }
	case !leafSpans:
		return large, func(n *node) (string, string) { return rack(n), n.Leaf }
	default:
		return small, func(n *node) (string, string) { return "", rack(n) }
	}
}
