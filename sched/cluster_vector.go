package sched

import (
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/room"
)

// Vector is an amount of everything that is shared: 0 milli-cores, 1 bytes of memory, 2
// thousandths of devices of all types, 3+k thousandths of devices of type k. One that is shorter
// has nothing of the rest.
type Vector []int64

// Where things are in a Vector.
const (
	VectorCPU     = advice.CPU
	VectorMemory  = advice.Memory
	VectorDevices = advice.Devices
	VectorTypes   = advice.Types // the first type
)

// add grows v as needed and adds sign times amount at i.
func (v Vector) add(i int, amount int64) Vector {
	for len(v) <= i {
		v = append(v, 0)
	}
	v[i] += amount
	return v
}

// TypeID is the number of a device type that some node has or had; ok is false when none did.
func (c *Cluster) TypeID(name string) (id uint16, ok bool) {
	if id, ok = c.typeIDs[name]; !ok { // not as nodes write it
		id, ok = c.typeIDs[room.Fold(name)]
	}
	return id, ok
}

// TypeName is a type as the first node that had it wrote it.
func (c *Cluster) TypeName(id uint16) string { return c.typeNames[id] }

func (c *Cluster) internType(name string) uint16 {
	if id, ok := c.TypeID(name); ok {
		return id
	}
	id := uint16(len(c.typeNames))
	c.typeIDs[name], c.typeIDs[room.Fold(name)] = id, id
	c.typeNames = append(c.typeNames, name)
	return id
}

// Total is what all nodes have, closed ones included. The caller may keep it.
func (c *Cluster) Total() Vector {
	out := make(Vector, VectorTypes+len(c.typeNames))
	copy(out, c.total)
	return out
}

// count adds (+1) a node to what is counted over all nodes, or takes it away (-1).
func (c *Cluster) count(n *node, sign int64) {
	if n.Failures > 0 {
		c.lemons += int(sign)
	}
	if n.host != nil {
		n.host.nodes += int(sign)
	}
	c.known.made(n, int(sign))
	c.total = c.total.add(VectorCPU, sign*int64(n.CPU)).add(VectorMemory, sign*int64(n.Memory))
	for _, t := range n.Devices {
		c.total = c.total.add(VectorDevices, sign*WholeDevice).add(VectorTypes+int(c.internType(t)), sign*WholeDevice)
	}
}

// Need is what a workload takes in all. A type is counted when it is the only one asked for.
func (c *Cluster) Need(w *Workload) Vector {
	v := make(Vector, VectorTypes+len(c.typeNames))
	for i := range w.Roles {
		n, times := &w.Roles[i].Need, int64(w.Roles[i].Replicas)
		v[VectorCPU] += times * int64(n.CPU)
		v[VectorMemory] += times * int64(n.Memory)
		devices := times * int64(n.Devices) * int64(n.share())
		v[VectorDevices] += devices
		if n.choices() == 1 && n.choice(0) != "" {
			if id, ok := c.TypeID(n.choice(0)); ok {
				v[VectorTypes+int(id)] += devices
			}
		}
	}
	return v
}
