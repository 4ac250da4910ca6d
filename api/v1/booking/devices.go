package booking

import (
	"cmp"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Devices is a wish for accelerators instead of nodes: nodes that have so many are chosen when the booking is made, whole ones.
type Devices struct {
	Count int    `json:"count" doc:"How many; whole nodes that have so many are chosen, close to each other."`
	Type  string `json:"type,omitempty" doc:"Of this type, as A100; any when absent."`
}

const maxDevices = 100_000

// Of is how many of them a node has.
func (d *Devices) Of(n *api.Node) (have int) {
	for _, x := range n.Spec.Devices {
		if d.Type == "" || x.Type == d.Type {
			have++
		}
	}
	return have
}

// candidate is a node that may be chosen.
type candidate struct {
	name, rack, leaf, zone string
	have                   int
}

// Choose are nodes with so many devices as are wished for, by name, and how many these have. Of those that the booking is about and that are free they are
// the closest together: one node, else one rack, leaf, zone, else any; among places alike the one that is filled best. Where there
// are too few, names is nil and have what there is.
func (s *BookingSpec) Choose(nodes []*api.Node, free func(*api.Node) bool) (names []string, have int) {
	open := *s
	open.Devices = nil
	var all []candidate
	for _, n := range nodes {
		if c := s.Devices.Of(n); c > 0 && !n.Spec.Cordoned && !n.Spec.Lost && open.Covers(n) && free(n) {
			all = append(all, candidate{n.Meta.Name, n.Spec.Zone + "/" + n.Spec.Leaf + "/" + n.Spec.Rack, n.Spec.Zone + "/" + n.Spec.Leaf, n.Spec.Zone, c})
		}
	}
	for _, place := range []func(candidate) string{
		func(c candidate) string { return c.name }, func(c candidate) string { return c.rack }, func(c candidate) string { return c.leaf },
		func(c candidate) string { return c.zone }, func(candidate) string { return "" },
	} {
		groups := map[string][]candidate{}
		for _, c := range all {
			groups[place(c)] = append(groups[place(c)], c)
		}
		best, most := "", 0
		for at, group := range groups {
			n := total(group)
			if n >= s.Devices.Count && (most == 0 || n < most || n == most && at < best) {
				best, most = at, n
			}
		}
		if most > 0 {
			return fill(groups[best], s.Devices.Count)
		}
	}
	return nil, total(all)
}

func total(list []candidate) (n int) {
	for _, c := range list {
		n += c.have
	}
	return n
}

// fill takes nodes of a place until there are enough: the smallest that is enough for what is left, else the largest.
func fill(from []candidate, count int) (names []string, have int) {
	slices.SortFunc(from, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.have, b.have), cmp.Compare(a.name, b.name)) })
	for have < count {
		i := slices.IndexFunc(from, func(c candidate) bool { return c.have >= count-have })
		if i < 0 {
			i = len(from) - 1
			for i > 0 && from[i-1].have == from[i].have { // the first by name of the largest
				i--
			}
		}
		names, have = append(names, from[i].name), have+from[i].have
		from = slices.Delete(from, i, i+1)
	}
	slices.Sort(names)
	return names, have
}
