package sched

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Cluster is the model: nodes, zones, and who stands where. Not safe for concurrent use: it has
// one owner. Hold and Release are each other's inverse.
type Cluster struct {
	nodes map[uint32]*node
	zones map[string]*zone
	order []*zone // healthy first, then by name
	hosts map[string]*host
	holds map[string]*hold
	// freed grows whenever something that was refused could now fit.
	freed uint64
}

type zone struct {
	Zone
	nodes []*node // by number
}

type node struct {
	Node
	types       []string // folded Devices
	cpu         api.MilliCPU
	memory      api.Bytes
	disk        api.Bytes
	freeDevices uint64
}

type host struct {
	Host
	used int
}

type hold struct {
	roles []Role
	at    Assignment
}

// NewCluster is an empty one.
func NewCluster() *Cluster {
	return &Cluster{nodes: map[uint32]*node{}, zones: map[string]*zone{}, hosts: map[string]*host{}, holds: map[string]*hold{}}
}

// SetZone adds or changes a zone. A node may name a zone that was never set; it is healthy.
func (c *Cluster) SetZone(z Zone) {
	c.zone(z.Name).Zone = z
	c.sortZones()
	c.freed++
}

// SetHost adds or changes a host.
func (c *Cluster) SetHost(h Host) {
	if old, ok := c.hosts[h.Name]; ok {
		old.Host = h
	} else {
		c.hosts[h.Name] = &host{Host: h}
	}
	c.freed++
}

func (c *Cluster) zone(name string) *zone {
	z, ok := c.zones[name]
	if !ok {
		z = &zone{Zone: Zone{Name: name}}
		c.zones[name] = z
		c.order = append(c.order, z)
		c.sortZones()
	}
	return z
}

func (c *Cluster) sortZones() {
	slices.SortFunc(c.order, func(a, b *zone) int {
		if a.Degraded != b.Degraded {
			if a.Degraded {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// SetNode adds or changes a node; what stands on it stays. Shrinking a node below what stands on
// it leaves it over-full: nothing new fits until enough has gone.
func (c *Cluster) SetNode(n Node) error {
	if len(n.Devices) > 64 {
		return fmt.Errorf("node %s has %d devices; a placement's mask has room for 64", n.Name, len(n.Devices))
	}
	old, exists := c.nodes[n.Number]
	if exists && old.Zone != n.Zone {
		return fmt.Errorf("node %s moved from zone %s to %s; remove it first", n.Name, old.Zone, n.Zone)
	}
	fresh := &node{Node: n, cpu: n.CPU, memory: n.Memory, disk: n.Disk, freeDevices: lowMask(len(n.Devices))}
	for _, t := range n.Devices {
		fresh.types = append(fresh.types, fold(t))
	}
	z := c.zone(n.Zone)
	if !exists {
		c.nodes[n.Number] = fresh
		at, _ := slices.BinarySearchFunc(z.nodes, n.Number, func(a *node, b uint32) int { return cmp.Compare(a.Number, b) })
		z.nodes = slices.Insert(z.nodes, at, fresh)
		c.freed++
		return nil
	}
	fresh.cpu -= old.CPU - old.cpu
	fresh.memory -= old.Memory - old.memory
	fresh.disk -= old.Disk - old.disk
	fresh.freeDevices &^= lowMask(len(old.Devices)) &^ old.freeDevices
	*old = *fresh
	c.freed++
	return nil
}

// RemoveNode forgets a node on which nothing stands.
func (c *Cluster) RemoveNode(number uint32) error {
	n, ok := c.nodes[number]
	if !ok {
		return nil
	}
	if n.cpu != n.CPU || n.memory != n.Memory || n.freeDevices != lowMask(len(n.Devices)) {
		return fmt.Errorf("node %s still holds work", n.Name)
	}
	delete(c.nodes, number)
	z := c.zones[n.Zone]
	z.nodes = slices.DeleteFunc(z.nodes, func(m *node) bool { return m == n })
	return nil
}

// Hold puts a gang where it stands. It refuses to give a device twice, and to use an unknown
// node; cores and memory may be over-full, because what runs, runs.
func (c *Cluster) Hold(id string, roles []Role, at Assignment) error {
	if _, ok := c.holds[id]; ok {
		return fmt.Errorf("%s is held already", id)
	}
	if err := c.check(id, roles, at); err != nil {
		return err
	}
	c.move(roles, at, +1)
	c.holds[id] = &hold{roles: roles, at: at}
	return nil
}

func (c *Cluster) check(id string, roles []Role, at Assignment) error {
	if len(roles) != len(at) {
		return fmt.Errorf("%s: %d roles, %d assigned", id, len(roles), len(at))
	}
	taken := map[uint32]uint64{}
	for i, slots := range at {
		for _, s := range slots {
			n, ok := c.nodes[s.Node]
			if !ok {
				return fmt.Errorf("%s: role %s stands on unknown node %d", id, roles[i].Name, s.Node)
			}
			if s.Devices&^n.freeDevices != 0 || s.Devices&taken[s.Node] != 0 {
				return fmt.Errorf("%s: a device of node %s is taken already", id, n.Name)
			}
			taken[s.Node] |= s.Devices
		}
	}
	return nil
}

// Release takes a gang away; unknown is fine.
func (c *Cluster) Release(id string) {
	h, ok := c.holds[id]
	if !ok {
		return
	}
	delete(c.holds, id)
	c.move(h.roles, h.at, -1)
	c.freed++
}

// Held says where a gang stands.
func (c *Cluster) Held(id string) (Assignment, bool) {
	h, ok := c.holds[id]
	if !ok {
		return nil, false
	}
	return h.at, true
}

func (c *Cluster) move(roles []Role, at Assignment, sign int) {
	for i, slots := range at {
		for _, s := range slots {
			c.take(s, roles[i].Need, sign)
		}
	}
}

// take moves one replica onto (+1) or off (-1) its slot.
func (c *Cluster) take(s api.Slot, need Need, sign int) {
	n := c.nodes[s.Node]
	n.cpu -= need.CPU * api.MilliCPU(sign)
	n.memory -= need.Memory * api.Bytes(sign)
	n.disk -= need.Disk * api.Bytes(sign)
	if sign > 0 {
		n.freeDevices &^= s.Devices
	} else {
		n.freeDevices |= s.Devices
	}
	if h := c.hosts[n.Host]; h != nil {
		h.used += sign
	}
}

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

// fit says whether one more replica fits and which devices it would take: the lowest free ones.
func (c *Cluster) fit(n *node, need Need) (uint64, misfit) {
	if n.Closed {
		return 0, misfitClosed
	}
	mask, why := n.devicesFor(need)
	if why != fits {
		return 0, why
	}
	if need.CPU > n.CPU || need.Memory > n.Memory || (n.Disk > 0 && need.Disk > n.Disk) {
		return 0, misfitSize
	}
	if need.CPU > n.cpu || need.Memory > n.memory || (n.Disk > 0 && need.Disk > n.disk) {
		return 0, misfitFull
	}
	if h := c.hosts[n.Host]; h != nil && h.used >= h.Processes {
		return 0, misfitHost
	}
	return mask, fits
}

func (n *node) devicesFor(need Need) (uint64, misfit) {
	if need.Devices == 0 {
		return 0, fits
	}
	want, best := fold(need.DeviceType), misfitType
	for i, t := range n.types {
		if (want != "" && t != want) || slices.Contains(n.types[:i], t) {
			continue // another type, or this one was tried
		}
		all := n.typeMask(t)
		if bits.OnesCount64(all) < need.Devices {
			continue
		}
		if mask, ok := lowest(all&n.freeDevices, need.Devices); ok {
			return mask, fits
		}
		best = misfitDevices
	}
	return 0, best
}

func (n *node) typeMask(folded string) uint64 {
	var mask uint64
	for i, t := range n.types {
		if t == folded {
			mask |= 1 << i
		}
	}
	return mask
}

// lowest picks the count lowest bits of free.
func lowest(free uint64, count int) (uint64, bool) {
	var mask uint64
	for ; count > 0; count-- {
		if free == 0 {
			return 0, false
		}
		bit := free & -free
		mask |= bit
		free &^= bit
	}
	return mask, true
}

func lowMask(n int) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}
