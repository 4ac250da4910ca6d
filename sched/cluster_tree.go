package sched

import (
	"cmp"
	"slices"

	"github.com/fermi-cluster/fermi/sched/domain"
)

// tree is the nodes in topology order, region by region. It is made anew when nodes come, go or move, which is rare.
type tree struct {
	domain.Tree
	nodes []*node
	zones []*zone // by domain of the zone level
}

// The levels, see package domain.
const (
	small, large, zonal, levels = domain.Small, domain.Large, domain.Zonal, domain.Levels
	nodal                       = domain.Nodal
)

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
			t.addZone(z)
		}
	}
	return t
}

func (t *tree) addZone(z *zone) {
	t.zones = append(t.zones, z)
	list := make([]domain.Node, len(z.nodes))
	for i, n := range z.nodes {
		list[i] = domain.Node{Number: n.Number, Rack: n.Rack, Leaf: n.Leaf}
	}
	for _, i := range t.Add(list) {
		n := z.nodes[i]
		n.at = int32(len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
}
