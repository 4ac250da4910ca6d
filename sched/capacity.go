package sched

import "slices"

// Capacity is what there is of one device type, in thousandths of a device. Total is Used plus Free
// plus Closed; Stranded is the part of Free that no task for a whole device could use, because a
// card is partly taken or its node has too little CPU or memory left.
type Capacity struct {
	Type                                string
	Total, Used, Free, Closed, Stranded int64
	// Gangs says for each of GangSizes whether one of so many devices, eight or all of a smaller node
	// to a replica, would find room now.
	Gangs []bool
	// Largest is the most devices of such a gang that would.
	Largest int
}

// GangSizes are the sizes of gang that Capacity tries, in devices.
var GangSizes = []int{8, 32, 64}

// usual is what one whole device comes with when a task does not say.
var usual = Need{CPU: 4000, Memory: 16 << 30, Devices: 1}

// Capacities lists all types by name. The cluster is as before on return.
func Capacities(c *Cluster) []Capacity {
	byType := make([]Capacity, len(c.TypeNames()))
	most := make([]int, len(c.TypeNames())) // devices on one open node
	for i := range byType {
		byType[i].Type = c.TypeNames()[i]
	}
	for _, n := range c.nodes {
		n.addTo(byType, most)
	}
	out := byType[:0]
	for i, t := range byType {
		if t.Total == 0 {
			continue
		}
		t.Largest = c.largestGang(t, min(most[i], 8))
		for _, size := range GangSizes {
			t.Gangs = append(t.Gangs, size <= t.Largest)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Capacity) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return out
}

// addTo counts one node's devices.
func (n *node) addTo(byType []Capacity, most []int) {
	whole := make([]int64, len(byType)) // untouched devices, by type
	count := make([]int, len(byType))
	for i := range n.Devices {
		id := n.room.Types[i]
		t := &byType[id]
		t.Total += WholeDevice
		t.Used += int64(n.used[i])
		left := int64(WholeDevice - n.used[i])
		if n.Closed || n.ClosedDevices&(1<<i) != 0 {
			t.Closed += left
			continue
		}
		count[id]++
		t.Free += left
		if left == WholeDevice {
			whole[id]++
		} else {
			t.Stranded += left
		}
	}
	room := min(n.room.CPU/int64(usual.CPU), n.room.Memory/int64(usual.Memory))
	for id, w := range whole {
		most[id] = max(most[id], count[id])
		if beyond := w - max(room, 0); beyond > 0 {
			byType[id].Stranded += beyond * WholeDevice
		}
	}
}

// largestGang searches for the most replicas of so many devices each that find room together.
func (c *Cluster) largestGang(t Capacity, each int) int {
	if each == 0 {
		return 0
	}
	fits := func(replicas int) bool {
		need := Need{CPU: usual.CPU, Memory: usual.Memory, Devices: each, DeviceType: t.Type}
		_, ok := place(c, &Workload{ID: "capacity", Roles: []Role{{Name: "worker", Replicas: replicas, Need: need}}})
		return ok
	}
	low, high := 0, int(t.Free/WholeDevice)/each
	for low < high {
		if middle := (low + high + 1) / 2; fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low * each
}
