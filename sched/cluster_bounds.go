package sched

import "github.com/fermi-cluster/fermi/sched/pack"

// bounds say from above what could be placed: sums over all nodes, closed ones included. What is
// more than these is refused without looking at any node, which is what a long backlog asks for.
type bounds struct {
	cpu, memory int64
	whole       []int64 // untouched devices, by type
	parts       []int64 // thousandths left, by type
	// holds is how many replicas of a wish the empty zones would take, by zone in the tree, and after
	// the last all of them.
	holds map[askKey][]int64
}

// maxAsks bounds what is remembered in holds.
const maxAsks = 4096

// add counts (+1) what is left on a node, or no longer (-1).
func (b *bounds) add(r *pack.Room, sign int64) {
	b.addSizes(r, sign)
	for i, t := range r.Types {
		b.addDevice(t, r.Free[i], sign)
	}
}

// addSizes counts CPU and memory; a node that is over-full has none, not less than none.
func (b *bounds) addSizes(r *pack.Room, sign int64) {
	b.cpu += sign * max(r.CPU, 0)
	b.memory += sign * max(r.Memory, 0)
}

func (b *bounds) addDevice(t, free uint16, sign int64) {
	for len(b.whole) <= int(t) {
		b.whole, b.parts = append(b.whole, 0), append(b.parts, 0)
	}
	b.parts[t] += sign * int64(free)
	if free == WholeDevice {
		b.whole[t] += sign
	}
}

// covers says that so many replicas of a wish are not beyond the sums.
func (b *bounds) covers(k *askKey, count int64) bool {
	if count*int64(k.cpu) > b.cpu || count*int64(k.memory) > b.memory {
		return false
	}
	if k.devices == 0 {
		return true
	}
	have, need := b.parts, count*int64(k.share)
	if k.share == WholeDevice {
		have, need = b.whole, count*int64(k.devices)
	}
	if k.kind >= 0 {
		return int(k.kind) < len(have) && have[k.kind] >= need
	}
	sum := int64(0)
	for _, n := range have {
		sum += n
	}
	return sum >= need
}

// emptyHolds is how many replicas of a wish all nodes take when nothing stands on them, closed
// or not.
func (c *Cluster) emptyHolds(k askKey) int64 {
	zones := c.emptyZones(k)
	return zones[len(zones)-1]
}

// emptyZones is the same by zone, all together last. It is counted once, until a node becomes another.
func (c *Cluster) emptyZones(k askKey) []int64 {
	t := c.topology()
	if n, ok := c.bounds.holds[k]; ok {
		return n
	}
	if c.bounds.holds == nil || len(c.bounds.holds) >= maxAsks {
		c.bounds.holds = map[askKey][]int64{}
	}
	var free [64]uint16
	for i := range free {
		free[i] = WholeDevice
	}
	sums, a := make([]int64, len(t.zones)+1), k.ask()
	for at, n := range t.nodes {
		fits := fitsIn(&pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types, Free: free[:len(n.Devices)], WholeOnly: n.WholeOnly}, &a)
		if n.Disk > 0 && k.disk > 0 {
			fits = min(fits, int32(min(n.Disk/k.disk, mostFits)))
		}
		sums[t.of[zonal][at]] += int64(fits)
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
		if !ok || !c.bounds.covers(&key, count) || c.emptyHolds(key) < count {
			return true
		}
	}
	return false
}
