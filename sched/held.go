package sched

import "math/bits"

// open says that a role may stand on more than one type. A limit of a type holds for such a one, too: it is held to the types that the
// limits leave room for before a place is looked for, and is counted by those that it got.
func (n *Need) open() bool { return n.Devices > 0 && (n.choices() > 1 || n.choice(0) == "") }

// takes is the Need of a gang that has a place.
func (w *Workload) takes(c *Cluster, at Assignment) Vector {
	v := c.Need(w)
	for i := range w.Roles {
		n := &w.Roles[i].Need
		for k := 0; n.open() && k < len(at[i]); k++ {
			first := bits.TrailingZeros64(at[i][k].Devices)
			if node := c.nodes[at[i][k].Node]; node != nil && first < len(node.room.Types) { // it may have lost devices
				v[VectorTypes+int(node.room.Types[first])] += int64(n.Devices) * int64(n.share())
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
	held = w
	for i := range w.Roles {
		n := &w.Roles[i].Need
		if !n.open() {
			continue
		}
		types, may, more := n.DeviceTypes, []string(nil), int64(w.Roles[i].Replicas)*int64(n.Devices)*int64(n.share())
		if n.choices() == 1 {
			types = c.typeNames
		}
		for k, name := range types {
			id, known := c.TypeID(name)
			if !known {
				continue
			}
			of := VectorTypes + int(id)
			need[of] += more
			queue, resource, fits := room(w.Queue, need)
			if fits {
				may = append(may, name)
			} else if k == 0 || why.queue == "" {
				why = limit{queue, resource, need[resource]}
			}
			if !fits || apart {
				need[of] -= more // else the roles after it count it, as it may stand there
			}
		}
		switch {
		case len(may) == 0 && why.queue != "":
			return nil, why, false
		case len(may) > 0 && len(may) < len(types):
			if held == w {
				held = withReplicas(w, func(role int) int { return w.Roles[role].Replicas })
			}
			held.Roles[i].Need.DeviceType, held.Roles[i].Need.DeviceTypes = "", may
		}
	}
	return held, limit{}, true
}
