package sched

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// place looks for room: in one zone, then in the zones of one region, then anywhere allowed;
// healthy zones before degraded ones. Within a set of zones it is first fit by node number.
func place(c *Cluster, w *Workload) (Assignment, bool) {
	zones := allowed(c, w)
	for _, z := range zones {
		if at, ok := firstFit(c, w, []*zone{z}); ok {
			return at, true
		}
	}
	if w.Replicas() == 1 {
		return nil, false
	}
	tried := map[string]bool{}
	for _, z := range zones {
		if z.Region == "" || tried[z.Region] {
			continue
		}
		tried[z.Region] = true
		var same []*zone
		for _, other := range zones {
			if other.Region == z.Region {
				same = append(same, other)
			}
		}
		if len(same) > 1 {
			if at, ok := firstFit(c, w, same); ok {
				return at, true
			}
		}
	}
	if len(zones) > 1 {
		return firstFit(c, w, zones)
	}
	return nil, false
}

func allowed(c *Cluster, w *Workload) []*zone {
	var out []*zone
	for _, z := range c.order {
		if (len(w.Allow) == 0 || slices.Contains(w.Allow, z.Name)) && !slices.Contains(w.Deny, z.Name) {
			out = append(out, z)
		}
	}
	return out
}

// firstFit tries the gang on these zones' nodes in order. The cluster is as before on return.
func firstFit(c *Cluster, w *Workload, zones []*zone) (Assignment, bool) {
	at := make(Assignment, len(w.Roles))
	defer func() {
		for i, slots := range at {
			for _, s := range slots {
				c.take(s, w.Roles[i].Need, -1)
			}
		}
	}()
	for i, role := range w.Roles {
		left := role.Replicas
		for _, z := range zones {
			for _, n := range z.nodes {
				for left > 0 {
					mask, why := c.fit(n, role.Need)
					if why != fits {
						break
					}
					slot := api.Slot{Node: n.Number, Devices: mask}
					c.take(slot, role.Need, +1)
					at[i] = append(at[i], slot)
					left--
				}
				if left == 0 {
					break
				}
			}
		}
		if left > 0 {
			return nil, false
		}
	}
	return clone(at), true
}

// clone keeps the result apart from what firstFit gives back.
func clone(at Assignment) Assignment {
	out := make(Assignment, len(at))
	for i := range at {
		out[i] = slices.Clone(at[i])
	}
	return out
}
