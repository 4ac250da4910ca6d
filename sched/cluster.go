package sched

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cache"
	"github.com/fermi-cluster/fermi/sched/gang"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// Cluster is the model: nodes, zones, and who stands where. Not safe for concurrent use: it has
// one owner. Hold and Release are each other's inverse.
type Cluster struct {
	nodes map[uint32]*node
	zones atlas
	order []*zone // healthy first, then by name
	hosts map[string]*host
	holds map[string]*hold
	// freed grows whenever something that was refused could now fit.
	freed  uint64
	market market

	gang.Types
	Caches cache.Book
	total  Vector
	lemons int // nodes with failures
	bounds bounds

	tree  *tree // nodes in topology order; nil after nodes came, went or moved
	known known // what was worked out about nodes
}

type zone struct {
	Zone
	nodes []*node // by number
	at    int     // in the tree
}

type node struct {
	Node
	room pack.Room // what is left; a closed device has nothing left
	disk api.Bytes
	// used is the thousandths taken of each device. It may be longer than Devices, when the node
	// lost devices on which something still stands.
	used    []uint16
	islands []uint8 // by device
	host    *host   // nil: none
	at      int32   // in the tree
}

type host struct {
	Host
	used  int
	nodes int
}

type hold struct {
	roles []Role
	at    Assignment
}

// market is what is known of prices: rates grows whenever those of a zone, or its carbon, change; they differ
// where they are not the same everywhere; now is the last turn's time, because they change with the hour.
type market struct {
	rates  uint64
	differ bool
	now    time.Time
}

// NewCluster is an empty one.
func NewCluster() *Cluster {
	c := &Cluster{
		nodes: map[uint32]*node{}, zones: atlas{}, hosts: map[string]*host{}, holds: map[string]*hold{},
	}
	c.known.begin(c)
	return c
}

// SetZone adds or changes a zone. A node may name a zone that was never set; it is healthy.
func (c *Cluster) SetZone(z Zone) {
	old := c.zone(z.Name)
	if old.Region != z.Region {
		c.tree = nil
	}
	if !old.Cost.SameRates(z.Cost) {
		c.market.rates++
	}
	z.Latency, z.Bandwidth = maps.Clone(z.Latency), maps.Clone(z.Bandwidth)
	old.Zone = z
	c.sortZones()
	c.market.differ = differ(c.order)
	c.freed++
}

// RemoveZone forgets a zone; one that still has nodes goes on as one that was never set.
func (c *Cluster) RemoveZone(name string) {
	z, ok := c.zones[name]
	if !ok {
		return
	}
	if len(z.nodes) > 0 {
		c.SetZone(Zone{Name: name})
		return
	}
	delete(c.zones, name)
	c.order = slices.DeleteFunc(c.order, func(other *zone) bool { return other == z })
	c.market.differ = differ(c.order)
	c.tree = nil
}

// SetHost adds or changes a host.
func (c *Cluster) SetHost(h Host) {
	c.host(h.Name).Host = h
	c.freed++
}

// host finds or makes one; one that was never set has no limit.
func (c *Cluster) host(name string) *host {
	h, ok := c.hosts[name]
	if !ok {
		h = &host{Host: Host{Name: name, Processes: maxProcesses}}
		c.hosts[name] = h
	}
	return h
}

const maxProcesses = 1 << 40

func (c *Cluster) zone(name string) *zone {
	z, ok := c.zones[name]
	if !ok {
		z = &zone{Zone: Zone{Name: name}}
		c.zones[name] = z
		c.order = append(c.order, z)
		c.sortZones()
		c.tree = nil
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

// maxTypes bounds the table of device types: their ids are small numbers.
const maxTypes = 4096

// SetNode adds or changes a node; what stands on it stays. Shrinking a node below what stands on
// it leaves it over-full: nothing new fits until enough has gone.
func (c *Cluster) SetNode(n Node) error {
	if len(n.Devices) > 64 {
		return fmt.Errorf("node %s has %d devices; a placement's mask has room for 64", n.Name, len(n.Devices))
	}
	if len(c.TypeNames())+len(n.Devices) > maxTypes {
		return fmt.Errorf("node %s: there are %d types of devices already", n.Name, len(c.TypeNames()))
	}
	old, exists := c.nodes[n.Number]
	if exists && old.Zone != n.Zone {
		return fmt.Errorf("node %s moved from zone %s to %s; remove it first", n.Name, old.Zone, n.Zone)
	}
	fresh := c.fresh(n)
	c.count(fresh, +1)
	c.freed++
	if !exists {
		c.bounds.Add(&fresh.room, +1)
		z := c.zone(n.Zone)
		c.nodes[n.Number] = fresh
		at, _ := slices.BinarySearchFunc(z.nodes, n.Number, func(a *node, b uint32) int { return cmp.Compare(a.Number, b) })
		z.nodes = slices.Insert(z.nodes, at, fresh)
		c.tree = nil
		return nil
	}
	c.replace(old, fresh)
	return nil
}

func (c *Cluster) fresh(n Node) *node {
	n.Devices, n.Islands = slices.Clone(n.Devices), slices.Clone(n.Islands)
	fresh := &node{Node: n, room: pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), WholeOnly: n.WholeOnly}, disk: n.Disk}
	for i, t := range n.Devices {
		fresh.room.Types = append(fresh.room.Types, c.Intern(t))
		island := uint8(0)
		if i < len(n.Islands) {
			island = uint8(slices.Index(n.Islands, n.Islands[i]))
		}
		fresh.islands = append(fresh.islands, island)
	}
	fresh.used = make([]uint16, len(n.Devices))
	fresh.room.Free = make([]uint16, len(n.Devices))
	fresh.refresh(lowMask(len(n.Devices)))
	if n.Host != "" {
		fresh.host = c.host(n.Host)
	}
	return fresh
}

// replace puts fresh where old was; what stands on old stays.
func (c *Cluster) replace(old, fresh *node) {
	c.count(old, -1)
	if old.CPU != fresh.CPU || old.Memory != fresh.Memory || old.Disk != fresh.Disk || old.WholeOnly != fresh.WholeOnly || !slices.Equal(old.room.Types, fresh.room.Types) {
		c.bounds.holds = nil
	}
	if old.Rack != fresh.Rack || old.Leaf != fresh.Leaf {
		c.tree = nil
	}
	fresh.room.CPU -= int64(old.CPU) - old.room.CPU
	fresh.room.Memory -= int64(old.Memory) - old.room.Memory
	fresh.disk -= old.Disk - old.disk
	for i, used := range old.used {
		if i < len(fresh.used) {
			fresh.used[i] = used
		} else {
			fresh.used = append(fresh.used, used)
		}
	}
	fresh.refresh(lowMask(len(fresh.Devices)))
	if old.host != nil {
		old.host.used -= int(old.room.Standing)
	}
	if fresh.host != nil {
		fresh.host.used += int(old.room.Standing)
	}
	fresh.room.Standing = old.room.Standing
	c.bounds.Add(&old.room, -1)
	c.bounds.Add(&fresh.room, +1)
	fresh.at = old.at
	*old = *fresh
	c.touch(old)
}

// refresh works out what is left of the devices in mask.
func (n *node) refresh(mask uint64) {
	mask &= lowMask(len(n.room.Free))
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		n.room.Free[i] = WholeDevice - n.used[i]
		if n.ClosedDevices>>i&1 != 0 {
			n.room.Free[i] = 0
		}
	}
}

// RemoveNode forgets a node on which nothing stands.
func (c *Cluster) RemoveNode(number uint32) error {
	n, ok := c.nodes[number]
	if !ok {
		return nil
	}
	if n.room.Standing > 0 {
		return fmt.Errorf("node %s still holds work", n.Name)
	}
	delete(c.nodes, number)
	z := c.zones[n.Zone]
	z.nodes = slices.DeleteFunc(z.nodes, func(m *node) bool { return m == n })
	c.count(n, -1)
	c.bounds.Add(&n.room, -1)
	c.tree = nil
	return nil
}

// Hold puts a gang where it stands. It refuses to give a device beyond its capacity, and to use an
// unknown node; cores and memory may be over-full, because what runs, runs.
func (c *Cluster) Hold(id string, roles []Role, at Assignment) error {
	if _, ok := c.holds[id]; ok {
		return fmt.Errorf("%s is held already", id)
	}
	if len(roles) != len(at) {
		return fmt.Errorf("%s: %d roles, %d assigned", id, len(roles), len(at))
	}
	for i, slots := range at {
		for k, s := range slots {
			if err := c.check(s, &roles[i]); err != nil {
				c.move(roles, at[:i], -1)
				c.moveRole(&roles[i], slots[:k], -1)
				return fmt.Errorf("%s: %w", id, err)
			}
			c.take(s, &roles[i].Need, +1)
		}
	}
	c.holds[id] = &hold{roles: roles, at: at}
	c.known.flows(id, c.holds[id], true)
	return nil
}

func (c *Cluster) check(s api.Slot, role *Role) error {
	n, ok := c.nodes[s.Node]
	if !ok {
		return fmt.Errorf("role %s stands on unknown node %d", role.Name, s.Node)
	}
	if s.Devices&^lowMask(len(n.Devices)) != 0 {
		return fmt.Errorf("node %s has %d devices", n.Name, len(n.Devices))
	}
	share := role.Need.Part()
	for mask := s.Devices; mask != 0; mask &= mask - 1 {
		if n.used[bits.TrailingZeros64(mask)]+share > WholeDevice {
			return fmt.Errorf("a device of node %s is taken already", n.Name)
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
	c.known.flows(id, h, false)
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
		c.moveRole(&roles[i], slots, sign)
	}
}

func (c *Cluster) moveRole(role *Role, slots []api.Slot, sign int) {
	for _, s := range slots {
		c.take(s, &role.Need, sign)
	}
}

// take moves one replica onto (+1) or off (-1) its slot.
func (c *Cluster) take(s api.Slot, need *Need, sign int) {
	n := c.nodes[s.Node]
	c.bounds.AddSizes(&n.room, -1)
	n.room.CPU -= int64(need.CPU) * int64(sign)
	n.room.Memory -= int64(need.Memory) * int64(sign)
	c.bounds.AddSizes(&n.room, +1)
	n.disk -= need.Disk * api.Bytes(sign)
	share := need.Part()
	for mask := s.Devices; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		if sign > 0 {
			n.used[i] += share
		} else {
			n.used[i] -= share
		}
	}
	for mask := s.Devices & lowMask(len(n.room.Free)); mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		c.bounds.AddDevice(n.room.Types[i], n.room.Free[i], -1)
		n.refresh(1 << i)
		c.bounds.AddDevice(n.room.Types[i], n.room.Free[i], +1)
	}
	n.room.Standing += int64(sign)
	if n.host != nil {
		n.host.used += sign
	}
	c.touch(n)
}

// touch says that a node changed.
func (c *Cluster) touch(n *node) {
	if c.tree != nil { // else all are new to a new one
		c.known.Touch(n.at)
	}
}

func lowMask(n int) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}
