package sched

import (
	"math/bits"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/pack"
	"github.com/fermi-cluster/fermi/sched/room"
)

// misfit is why one replica does not fit one node.
type misfit int

const (
	fits misfit = iota
	misfitClosed
	misfitType    // the node has too few devices of the type even when empty
	misfitDevices // the devices are taken
	misfitSize    // CPU, memory or disk of the empty node are too small
	misfitFull    // CPU, memory or disk are taken
	misfitHost    // the machine behind it runs as many processes as it may
)

// fit says whether one more replica fits and which devices it would take.
func (c *Cluster) fit(n *node, need Need) (uint64, misfit) {
	if n.Closed {
		return 0, misfitClosed
	}
	mask, why := c.devicesFor(n, &need)
	if why != fits {
		return 0, why
	}
	if need.CPU > n.CPU || need.Memory > n.Memory || (n.Disk > 0 && need.Disk > n.Disk) {
		return 0, misfitSize
	}
	if int64(need.CPU) > n.room.CPU || int64(need.Memory) > n.room.Memory || (n.Disk > 0 && need.Disk > n.disk) {
		return 0, misfitFull
	}
	if n.host != nil && n.host.used >= n.host.Processes {
		return 0, misfitHost
	}
	return mask, fits
}

// devicesFor looks at the devices alone, in the order of the types' preference.
func (c *Cluster) devicesFor(n *node, need *Need) (uint64, misfit) {
	if need.Devices == 0 {
		return 0, fits
	}
	best := misfitType
	for i := range need.Choices() {
		key, ok := c.askKey(need, i)
		if !ok {
			continue
		}
		a := key.Ask()
		a.CPU, a.Memory = 0, 0
		if n.room.Fits(&a) > 0 {
			return n.seat(nil, c.known.demand, &a, 1)[0].Devices, fits
		}
		whole := pack.Room{Types: n.room.Types, Free: make([]uint16, len(n.Devices)), WholeOnly: n.WholeOnly}
		for k := range whole.Free {
			whole.Free[k] = WholeDevice
		}
		if whole.Fits(&a) > 0 {
			best = misfitDevices
		}
	}
	return 0, best
}

// disks counts replicas by disk alone.
func (n *node) disks(each int64) int32 {
	switch {
	case n.Disk == 0:
		return pack.MostFits // not counted
	case n.disk < 0:
		return 0
	case each == 0:
		return pack.MostFits
	}
	return int32(min(int64(n.disk)/each, pack.MostFits))
}

// seat adds the slots of count replicas, which must fit, one after the other.
func (n *node) seat(slots []api.Slot, d *pack.Demand, a *pack.Ask, count int) []api.Slot {
	if a.Devices == 0 {
		for range count {
			slots = append(slots, api.Slot{Node: n.Number})
		}
		return slots
	}
	var free [64]uint16
	left := n.room
	left.Free = append(free[:0], left.Free...)
	for i := range count {
		_, mask, ok := d.Score(&left, a)
		if !ok {
			panic("sched: a counted replica does not fit " + n.Name)
		}
		if a.Share == WholeDevice {
			mask = n.whole(&left, left.Types[bits.TrailingZeros64(mask)], a.Devices, a.Devices*(count-i))
		}
		slots = append(slots, api.Slot{Node: n.Number, Devices: mask})
		left.CPU -= a.CPU
		left.Memory -= a.Memory
		for ; mask != 0; mask &= mask - 1 {
			left.Free[bits.TrailingZeros64(mask)] -= a.Share
		}
	}
	return slots
}

// whole picks untouched devices of one type: from the island with the least left over that has
// all the rest of the gang wants here, else all of this replica, else from as few as can be.
func (n *node) whole(left *pack.Room, t uint16, count, rest int) uint64 {
	var islands [64]uint64
	for i, free := range left.Free {
		if free == WholeDevice && left.Types[i] == t {
			islands[n.islands[i]] |= 1 << i
		}
	}
	for _, want := range []int{rest, count} {
		best := uint64(0)
		for _, mask := range islands {
			if k := bits.OnesCount64(mask); k >= want && (best == 0 || k < bits.OnesCount64(best)) {
				best = mask
			}
		}
		if best != 0 {
			return lowest(best, count)
		}
	}
	var out uint64
	for count > 0 {
		big := 0
		for i := range islands {
			if bits.OnesCount64(islands[i]) > bits.OnesCount64(islands[big]) {
				big = i
			}
		}
		took := lowest(islands[big], min(count, bits.OnesCount64(islands[big])))
		out |= took
		islands[big] = 0
		count -= bits.OnesCount64(took)
	}
	return out
}

// lowest picks the count lowest bits of free, which has so many.
func lowest(free uint64, count int) uint64 {
	var mask uint64
	for ; count > 0; count-- {
		bit := free & -free
		mask |= bit
		free &^= bit
	}
	return mask
}

// askKey is the wish of one replica with the choice-th preferred type; ok is false when no node has it, or when the wish
// makes no sense.
func (c *Cluster) askKey(n *Need, choice int) (room.Key, bool) {
	k := room.Key{CPU: int64(n.CPU), Memory: int64(n.Memory), Disk: int64(n.Disk), Devices: int16(n.Devices), Kind: -1}
	if n.CPU < 0 || n.Memory < 0 || n.Disk < 0 || n.Devices < 0 || n.Devices > 64 {
		return k, false
	}
	if n.Devices == 0 {
		return k, true
	}
	k.Share = n.Part()
	if k.Share < WholeDevice && n.Devices != 1 {
		return k, false
	}
	if name := n.Choice(choice); name != "" {
		id, ok := c.TypeID(name)
		if !ok {
			return k, false
		}
		k.Kind = int32(id)
	}
	return k, true
}

// Arrive tells of a workload that came, once: packing learns from it what typically comes.
func (c *Cluster) Arrive(w *Workload) {
	for i := range w.Roles {
		need := &w.Roles[i].Need
		key, ok := c.askKey(need, 0)
		if !ok {
			continue
		}
		a := key.Ask()
		a.Types = c.kinds(need)
		for range min(w.Roles[i].Replicas, mostSeen) {
			c.known.demand.See(a)
			c.known.seen = true
		}
	}
}

// mostSeen bounds the weight of one gang in what is learned.
const mostSeen = 64

// kinds are the ids of all types a need allows, sorted; nil is any.
func (c *Cluster) kinds(need *Need) []uint16 {
	var out []uint16
	for i := range need.Choices() {
		if id, ok := c.TypeID(need.Choice(i)); ok && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
