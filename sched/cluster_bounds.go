package sched

import "github.com/fermi-cluster/fermi/sched/room"

// bounds are sums over all nodes, and how many replicas of a wish the empty zones would take, by zone in the
// tree, and after the last all of them.
type bounds struct {
	room.Bounds
	holds map[room.Key][]int64
}

// maxAsks bounds what is remembered in holds.
const maxAsks = 4096

// emptyHolds is how many replicas of a wish all nodes take when nothing stands on them, closed
// or not.
func (c *Cluster) emptyHolds(k room.Key) int64 {
	zones := c.emptyZones(k)
	return zones[len(zones)-1]
}

// emptyZones is the same by zone, all together last. It is counted once, until a node becomes another.
func (c *Cluster) emptyZones(k room.Key) []int64 {
	t := c.topology()
	if n, ok := c.bounds.holds[k]; ok {
		return n
	}
	if c.bounds.holds == nil || len(c.bounds.holds) >= maxAsks {
		c.bounds.holds = map[room.Key][]int64{}
	}
	sums := make([]int64, len(t.zones)+1)
	for at, n := range t.nodes {
		fits := n.bare(&k, true)
		sums[t.Of[zonal][at]] += int64(fits)
		sums[len(t.zones)] += int64(fits)
	}
	c.bounds.holds[k] = sums
	return sums
}

// hopeless says, without a look at any node, that a workload can't be placed with this choice of
// types.
func (c *Cluster) hopeless(w *Workload, choice int) bool {
	for i := range w.Roles {
		count := int64(w.Roles[i].Replicas)
		key, ok := c.askKey(&w.Roles[i].Need, choice)
		if !ok || !c.bounds.Covers(&key, count) || c.emptyHolds(key) < count {
			return true
		}
	}
	return false
}
