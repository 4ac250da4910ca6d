// Package gang is what a gang asks for: roles of equal replicas, what each takes, how they stand, and what they read.
//
// Place: layer 2, below sched. Promise: two spellings of a device type are one. Enemies: a default that is applied in one place only.
package gang

import api "github.com/fermi-cluster/fermi/api/v1"

// WholeDevice is a device's capacity in thousandths.
const WholeDevice = 1000

// Need is what one replica takes.
type Need struct {
	CPU        api.MilliCPU
	Memory     api.Bytes
	Disk       api.Bytes
	DeviceType string // "" is any one type
	// DeviceTypes are types in order of preference; when set, DeviceType is not read.
	DeviceTypes []string
	Devices     int
	// Share is thousandths taken of each device; 0 is whole. Less than whole goes with one device.
	Share uint16
}

// Part is Share with its default.
func (n *Need) Part() uint16 {
	if n.Share == 0 || n.Share > WholeDevice {
		return WholeDevice
	}
	return n.Share
}

// Choices is how many types are named in order of preference; 1 when any will do.
func (n *Need) Choices() int { return max(len(n.DeviceTypes), 1) }

// Choice is the i-th preferred type, the last when there are fewer; "" is any.
func (n *Need) Choice(i int) string {
	if len(n.DeviceTypes) == 0 {
		return n.DeviceType
	}
	return n.DeviceTypes[min(i, len(n.DeviceTypes)-1)]
}

// Role is a number of equal replicas.
type Role struct {
	Name     string
	Replicas int
	// Min and Max bound an elastic role; 0 is Replicas.
	Min, Max int
	Need     Need
}

// Topology is how a gang stands in the failure domains of a zone. The zero value packs: as low in
// the tree island, node, rack, leaf, zone, region as there is room.
type Topology struct {
	Spread     bool // over racks, then over nodes, as evenly as there is room
	MaxPerRack int  // at most so many replicas a rack; 0 is no limit
}

// Open says that a role may stand on more than one type. A limit of a type holds for such a one, too: it is held to the types that the
// limits leave room for before a place is looked for, and is counted by those that it got.
func (n *Need) Open() bool { return n.Devices > 0 && (n.Choices() > 1 || n.Choice(0) == "") }

// Datum is something a gang reads: how much, and which zones have all of it.
type Datum struct {
	Bytes api.Bytes
	Zones []string
}
