package sched

import "math/bits"

// takes is the Need of a gang that has a place.
func (w *Workload) takes(c *Cluster, at Assignment) Vector {
	v := c.Need(w)
	for i := range w.Roles {
		n := &w.Roles[i].Need
		for k := 0; n.Open() && k < len(at[i]); k++ {
			first := bits.TrailingZeros64(at[i][k].Devices)
			if node := c.nodes[at[i][k].Node]; node != nil && first < len(node.room.Types) { // it may have lost devices
				v[VectorTypes+int(node.room.Types[first])] += int64(n.Devices) * int64(n.Part())
			}
		}
	}
	return v
}

// limit is whose limit of what keeps a workload out, and what it needs of that.
type limit struct {
	queue    string
	resource int
	need     int64
}

// within is the workload held to the types that have room, itself where all have; room is the tree's Room, or RoomEver for any time. Whatever its roles
// then get stays within the limits together; with apart each is looked at alone, so that nothing is called impossible which is not. why is set where no type is left.
func (w *Workload) within(c *Cluster, room func(queue string, v []int64) (limited string, resource int, ok bool), apart bool) (held *Workload, why limit, ok bool) {
	need := c.Need(w)
	if queue, resource, ok := room(w.Queue, need); !ok {
		return nil, limit{queue, resource, need[resource]}, false
	}
	h := holding{c: c, w: w, held: w, room: room, apart: apart, need: need}
	var ordered []int
	for i := range w.Roles {
		if w.Roles[i].Need.Choices() > 1 {
			ordered = append(ordered, i)
		}
	}
	// All roles that name types in order stand on the types at one place of their orders: it stays or goes for all of them.
	why, ok = h.hold(ordered, w.choices(), func(n *Need, k int) string { return n.Choice(k) })
	for i := 0; ok && i < len(w.Roles); i++ {
		if n := &w.Roles[i].Need; n.Open() && n.Choices() == 1 {
			why, ok = h.hold([]int{i}, len(c.TypeNames()), func(_ *Need, k int) string { return c.TypeNames()[k] })
		}
	}
	return h.held, why, ok
}

// holding is a workload on its way to being held: need is what it takes of each resource with the types that its roles were left with.
type holding struct {
	c       *Cluster
	w, held *Workload
	room    func(queue string, v []int64) (limited string, resource int, ok bool)
	apart   bool
	need    Vector
}

// hold leaves some roles those of their types that have room; the k-th types of all of them are taken together.
func (h *holding) hold(roles []int, types int, name func(n *Need, k int) string) (why limit, ok bool) {
	var may []int
	for k := range types {
		if !h.add(roles, k, 1, name) {
			continue
		}
		queue, resource, fits := h.room(h.w.Queue, h.need)
		if fits {
			may = append(may, k)
		} else if why.queue == "" {
			why = limit{queue, resource, h.need[resource]}
		}
		h.add(roles, k, -1, name)
	}
	if len(may) == 0 {
		return why, why.queue == ""
	}
	for _, k := range may {
		if !h.apart {
			h.add(roles, k, 1, name) // the roles after them count it, as they may stand there
		}
	}
	for _, i := range roles {
		if len(may) == types {
			break
		}
		if h.held == h.w {
			h.held = withReplicas(h.w, func(role int) int { return h.w.Roles[role].Replicas })
		}
		n := &h.held.Roles[i].Need
		n.DeviceType, n.DeviceTypes = "", nil
		for _, k := range may {
			n.DeviceTypes = append(n.DeviceTypes, name(&h.w.Roles[i].Need, k))
		}
	}
	return limit{}, true
}

// add counts the k-th types of some roles, or takes them back; it is false, and counts nothing, where no node has one of them.
func (h *holding) add(roles []int, k int, sign int64, name func(n *Need, k int) string) bool {
	for _, i := range roles {
		if _, known := h.c.TypeID(name(&h.w.Roles[i].Need, k)); !known {
			return false
		}
	}
	for _, i := range roles {
		r := &h.w.Roles[i]
		id, _ := h.c.TypeID(name(&r.Need, k))
		h.need[VectorTypes+int(id)] += sign * int64(r.Replicas) * int64(r.Need.Devices) * int64(r.Need.Part())
	}
	return true
}
