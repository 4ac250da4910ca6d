package sched

import "github.com/fermi-cluster/fermi/sched/advice"

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

// Total is what all nodes have, closed ones included. The caller may keep it.
func (c *Cluster) Total() Vector {
	out := make(Vector, VectorTypes+len(c.TypeNames()))
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
		c.total = c.total.add(VectorDevices, sign*WholeDevice).add(VectorTypes+int(c.Intern(t)), sign*WholeDevice)
	}
}

// Need is what a workload takes in all. A type is counted when it is the only one asked for.
func (c *Cluster) Need(w *Workload) Vector {
	v := make(Vector, VectorTypes+len(c.TypeNames()))
	for i := range w.Roles {
		n, times := &w.Roles[i].Need, int64(w.Roles[i].Replicas)
		v[VectorCPU] += times * int64(n.CPU)
		v[VectorMemory] += times * int64(n.Memory)
		devices := times * int64(n.Devices) * int64(n.Part())
		v[VectorDevices] += devices
		if n.Choices() == 1 && n.Choice(0) != "" {
			if id, ok := c.TypeID(n.Choice(0)); ok {
				v[VectorTypes+int(id)] += devices
			}
		}
	}
	return v
}
