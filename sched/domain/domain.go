package domain

import (
	"cmp"
	"fmt"
	"slices"
)

// The levels above nodes. Small and large are rack and leaf, or leaf and rack where racks span
// leaves.
const (
	Small = iota
	Large
	Zonal
	Levels
)

// Nodal is the level of single nodes.
const Nodal = -1

// Node is what places one in the tree.
type Node struct {
	Number     uint32
	Rack, Leaf string
}

// Span is a domain: a range of nodes, and of domains of the level below, or nodes.
type Span struct{ Lo, Hi, KidLo, KidHi int32 }

// Tree is the nodes in topology order: zone, leaf, rack, number. The domains of a level are numbered in that order.
// The zero value is empty.
type Tree struct {
	Levels [Levels][]Span
	Of     [Levels][]int32 // by node: its domain
	racks  []int           // the level at which the racks are, by zone
}

// Add puts a zone with its nodes, which come by number, behind the others; it says in which order they are.
func (t *Tree) Add(zone []Node) (order []int) {
	type placed struct {
		at           int
		large, small string
	}
	rackLevel, names := nesting(zone)
	t.racks = append(t.racks, rackLevel)
	list := make([]placed, 0, len(zone))
	for i := range zone {
		large, small := names(&zone[i])
		list = append(list, placed{i, large, small})
	}
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.large, b.large), cmp.Compare(a.small, b.small))
	})
	t.open(Zonal)
	for i, p := range list {
		newLarge := i == 0 || p.large != list[i-1].large
		if newLarge {
			t.open(Large)
		}
		if newLarge || p.small != list[i-1].small {
			t.open(Small)
		}
		t.add()
		order = append(order, p.at)
	}
	return order
}

// open starts the next domain of a level where the nodes so far end.
func (t *Tree) open(level int) {
	at := int32(len(t.Of[Zonal]))
	kids := at
	if level > Small {
		kids = int32(len(t.Levels[level-1]))
	}
	t.Levels[level] = append(t.Levels[level], Span{Lo: at, Hi: at, KidLo: kids, KidHi: kids})
}

func (t *Tree) add() {
	for level := range Levels {
		id := len(t.Levels[level]) - 1
		d := &t.Levels[level][id]
		d.Hi++
		d.KidHi = d.Hi
		if level > Small {
			d.KidHi = int32(len(t.Levels[level-1]))
		}
		t.Of[level] = append(t.Of[level], int32(id))
	}
}

// Rack is the domain that is a node's rack, with its level.
func (t *Tree) Rack(at int32) (level int, id int32) {
	level = t.RackLevel(int(t.Of[Zonal][at]))
	return level, t.Of[level][at]
}

// RackLevel is the level at which a zone's racks are.
func (t *Tree) RackLevel(zone int) int { return t.racks[zone] }

// Inside is the range of domains of a level in a zone.
func (t *Tree) Inside(level, zone int) (lo, hi int32) {
	lo, hi = int32(zone), int32(zone)+1
	for l := Zonal; l > level; l-- {
		lo, hi = t.Levels[l][lo].KidLo, t.Levels[l][hi-1].KidHi
	}
	return lo, hi
}

// Nodes is the range of nodes of a domain.
func (t *Tree) Nodes(level int, id int32) (lo, hi int32) {
	if level == Nodal {
		return id, id + 1
	}
	d := &t.Levels[level][id]
	return d.Lo, d.Hi
}

// nesting says at which level a zone's racks are, and what a node's domains are called. Leaves
// hold racks, or the other way round; where neither is true leaves are not looked at. A node
// without a rack is one by itself.
func nesting(zone []Node) (rackLevel int, names func(*Node) (large, small string)) {
	rack := func(n *Node) string {
		if n.Rack == "" {
			return fmt.Sprintf("\xff%010d", n.Number)
		}
		return n.Rack
	}
	leafOf, rackOf := map[string]string{}, map[string]string{}
	rackSpans, leafSpans := false, false
	for i := range zone {
		n := &zone[i]
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
		return Small, func(n *Node) (string, string) { return n.Leaf, rack(n) }
	case !leafSpans:
		return Large, func(n *Node) (string, string) { return rack(n), n.Leaf }
	default:
		return Small, func(n *Node) (string, string) { return "", rack(n) }
	}
}
