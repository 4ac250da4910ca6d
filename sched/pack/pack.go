package pack

import "slices"

// Whole is all of a device, in thousandths.
const Whole = 1000

// Room is what is left on one node.
type Room struct {
	CPU, Memory int64    // milli-cores, bytes
	Types       []uint16 // type id of each device; shared, never changed
	Free        []uint16 // thousandths left of each device, ≤ 1000
	Standing    int64    // replicas that stand on it
	WholeOnly   bool     // nothing holds a process to a part of a device here: none is shared
}

// Ask is what one replica takes of one node.
type Ask struct {
	CPU, Memory int64
	Devices     int      // number of devices, ≤ 64, all of one type
	Share       uint16   // thousandths of each; 1000 is whole, less only with Devices == 1
	Types       []uint16 // allowed type ids, sorted; nil is any one type
}

// takes says whether a device of this type may serve the ask.
func (a *Ask) takes(device uint16) bool {
	return a.Types == nil || slices.Contains(a.Types, device)
}

// choices calls try with each set of devices worth judging: one per distinct type and free share.
// It does nothing when the ask does not fit.
func choices(r *Room, a *Ask, try func(devices uint64)) {
	if r.CPU < a.CPU || r.Memory < a.Memory {
		return
	}
	if a.Devices == 0 {
		try(0)
		return
	}
	if r.WholeOnly && a.Share < Whole {
		return
	}
	n := min(len(r.Free), 64)
	for d := range n {
		if r.Free[d] < a.Share || !a.takes(r.Types[d]) || seen(r, a, d) {
			continue
		}
		devices, found := uint64(0), 0
		for e := d; e < n && found < a.Devices; e++ {
			if r.Types[e] == r.Types[d] && r.Free[e] >= a.Share {
				devices |= 1 << e
				found++
			}
		}
		if found == a.Devices {
			try(devices)
		}
	}
}

// seen says whether an earlier device stands for device d: of the same type, and just as free or,
// where whole devices are asked for, as good.
func seen(r *Room, a *Ask, d int) bool {
	for e := range d {
		if r.Types[e] == r.Types[d] && (r.Free[e] == r.Free[d] || a.Share == Whole && r.Free[e] == Whole) {
			return true
		}
	}
	return false
}
