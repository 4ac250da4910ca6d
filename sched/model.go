package sched

import (
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/sched/cost"
	"github.com/fermi-cluster/fermi/sched/room"
)

// Node is one machine as the planner sees it.
type Node struct {
	Number  uint32
	Name    string
	Zone    string
	Rack    string // "" is a rack of its own
	Leaf    string
	CPU     api.MilliCPU
	Memory  api.Bytes
	Disk    api.Bytes // 0: not counted
	Devices []string  // type of each device, by index; at most 64
	// Islands names the fast link each device hangs on, by index; nil is one island.
	Islands []string
	Sort
	// Host names the machine whose processes a virtual node's replicas really are; "" counts none.
	Host string
	// Closed keeps new work away: cordoned or not ready.
	Closed bool
	// ClosedDevices keeps new work away from single devices.
	ClosedDevices uint64
	// Failures counts recent ones; such a node is used when no other does.
	Failures int
}

// Sort is what sort of machine a node is.
type Sort struct {
	WholeOnly bool // its devices are given whole, because nothing holds a process to a part of one
	Spot      bool // it may be taken away at short notice
}

// Zone is what the planner knows of an availability zone.
type Zone struct {
	Name     string
	Region   string
	Degraded bool
	// Latency is the round trip to other zones, by name. Where a pair is in neither zone's table,
	// zones of one region count as near and others as far.
	Latency map[string]time.Duration
	// Bandwidth is that of links to other zones in bytes a second, by name; see DefaultBandwidth.
	Bandwidth map[string]int64
	// Cost is its prices and its carbon over the day; nil is unknown.
	Cost *cost.Zone
}

// Host is a machine that runs the processes of virtual nodes.
type Host struct {
	Name      string
	Processes int // capacity
}

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
	Spot  spot.Rule // one for all roles
}

// share is Share with its default.
func (n *Need) share() uint16 {
	if n.Share == 0 || n.Share > WholeDevice {
		return WholeDevice
	}
	return n.Share
}

// choices is how many types are named in order of preference; 1 when any will do.
func (n *Need) choices() int { return max(len(n.DeviceTypes), 1) }

// choice is the i-th preferred type, the last when there are fewer; "" is any.
func (n *Need) choice(i int) string {
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

// Workload is a gang: all of its roles at once or nothing.
type Workload struct {
	ID       string // sorts by age
	Queue    string
	Priority int
	Roles    []Role
	Allow    []string // zones; empty is all
	Deny     []string

	User, Name string // who asked, and what its repetitions share: expected times are learned by these
	Submitted  time.Time
	Expected   time.Duration // 0: unknown
	Deadline   time.Time     // zero: none
	// Defer lets it wait for the cheapest or the cleanest hours, see Window; it needs Expected.
	Defer api.Deferral
	Wish

	// Displaced says that it stood and an operator emptied its node: it goes before all others of its priority in its queue.
	Displaced bool

	Preemptible    bool
	LastCheckpoint time.Time
	RestartCost    time.Duration

	Topology Topology
	// Split fixes replicas by zone; they are dealt to the zones in order of name, roles in order.
	Split map[string]int
	// MaxLatency bounds the round trip between any two zones of the gang; 0 is what synchronous
	// training bears, see latencyOf.
	MaxLatency time.Duration
	// OneRegion keeps all zones of the gang in one region.
	OneRegion bool
	// Survive lets the gang stand only so that the loss of any one zone leaves what keeps says of
	// each role. Such a gang has a fixed size.
	Survive bool
	Nodes
	// Data is what the gang reads; other zones than its own have to fetch it first.
	Data []Datum
}

// Running is a gang that stands.
type Running struct {
	Workload *Workload
	At       Assignment
	Since    time.Time
}

// Replicas counts the gang.
func (w *Workload) Replicas() int {
	n := 0
	for i := range w.Roles {
		n += w.Roles[i].Replicas
	}
	return n
}

// choices is the most of its roles.
func (w *Workload) choices() int {
	n := 1
	for i := range w.Roles {
		n = max(n, w.Roles[i].Need.choices())
	}
	return n
}

// Assignment has one slot a replica, by role in the workload's order.
type Assignment [][]api.Slot

// shape is the wish without queue and priority: equal shapes fit or fail together.
func (w *Workload) shape() string {
	b := make([]byte, 0, 128)
	number := func(n int64, end byte) { b = append(strconv.AppendInt(b, n, 10), end) }
	for i := range w.Roles {
		r := &w.Roles[i]
		number(int64(r.Replicas), '*')
		number(int64(r.Min), '-')
		number(int64(r.Max), ':')
		number(int64(r.Need.CPU), '/')
		number(int64(r.Need.Memory), '/')
		number(int64(r.Need.Disk), '/')
		number(int64(r.Need.Devices), '.')
		number(int64(r.Need.share()), ' ')
		b = append(b, r.Need.Spot...)
		for k := range r.Need.choices() {
			b = append(append(b, room.Fold(r.Need.choice(k))...), '|')
		}
		b = append(b, ';')
	}
	texts := func(mark byte, list []string) {
		for _, s := range list {
			b = strconv.AppendQuote(append(b, mark), s)
		}
	}
	texts('+', w.Allow)
	texts('-', w.Deny)
	for _, z := range sortedKeys(w.Split) {
		texts('s', []string{z})
		number(int64(w.Split[z]), ' ')
	}
	for _, d := range w.Data {
		number(int64(d.Bytes), 'd')
		texts('@', d.Zones)
	}
	for _, n := range w.Avoid {
		number(int64(n), '!')
	}
	if w.Only != "" {
		texts('=', []string{w.Only})
	}
	if w.OneRegion || w.Survive {
		b = strconv.AppendBool(append(b, 'r'), w.OneRegion)
		b = strconv.AppendBool(b, w.Survive)
	}
	if w.Topology != (Topology{}) || w.MaxLatency != 0 {
		b = strconv.AppendBool(append(b, 't'), w.Topology.Spread)
		number(int64(w.Topology.MaxPerRack), ' ')
		number(int64(w.MaxLatency), ' ')
	}
	return string(b)
}

// Wish is what counts for a workload beside having room.
type Wish struct {
	StartBy time.Time // no hours are waited for beyond this; zero: none
	// Weigh says what counts between zones that have room. The zero value is the price alone.
	Weigh cost.Weigh
	hours *Window // set when they have come
}

// Nodes are which of the nodes a gang may use at all.
type Nodes struct {
	Avoid []uint32 // none of these
	Only  string   // no other than this; "": any
}

// shuns says that a node is none that the gang may use, whatever is free there.
func (w *Workload) shuns(n *node) bool {
	return w.Only != "" && n.Name != w.Only || slices.Contains(w.Avoid, n.Number) || w.spot().Bars(n.Spot)
}

// spot is its rule on nodes that may be taken away.
func (w *Workload) spot() spot.Rule {
	if len(w.Roles) == 0 {
		return ""
	}
	return w.Roles[0].Need.Spot
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
