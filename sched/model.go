package sched

import (
	"fmt"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Node is one machine as the planner sees it.
type Node struct {
	Number  uint32
	Name    string
	Zone    string
	Rack    string
	Leaf    string
	CPU     api.MilliCPU
	Memory  api.Bytes
	Disk    api.Bytes // 0: not counted
	Devices []string  // type of each device, by index; at most 64
	// Host names the machine whose processes a virtual node's replicas really are; "" counts none.
	Host string
	// Closed keeps new work away: cordoned or not ready.
	Closed bool
}

// Zone is what the planner knows of an availability zone.
type Zone struct {
	Name     string
	Region   string
	Degraded bool
}

// Host is a machine that runs the processes of virtual nodes.
type Host struct {
	Name      string
	Processes int // capacity
}

// Need is what one replica takes.
type Need struct {
	CPU        api.MilliCPU
	Memory     api.Bytes
	Disk       api.Bytes
	DeviceType string // "" is any one type
	Devices    int
}

// Role is a number of equal replicas.
type Role struct {
	Name     string
	Replicas int
	Need     Need
}

// Workload is a gang: all of its roles at once or nothing.
type Workload struct {
	ID       string // sorts by age
	Queue    string
	Priority int
	Roles    []Role
	Allow    []string // zones; empty is all
	Deny     []string
}

// Replicas counts the gang.
func (w *Workload) Replicas() int {
	n := 0
	for _, r := range w.Roles {
		n += r.Replicas
	}
	return n
}

// Assignment has one slot a replica, by role in the workload's order.
type Assignment [][]api.Slot

// shape is the wish without queue and priority: equal shapes fit or fail together.
func (w *Workload) shape() string {
	var b strings.Builder
	for _, r := range w.Roles {
		fmt.Fprintf(&b, "%d*%d/%d/%d/%s/%d;", r.Replicas, r.Need.CPU, r.Need.Memory, r.Need.Disk, fold(r.Need.DeviceType), r.Need.Devices)
	}
	fmt.Fprintf(&b, "+%q-%q", w.Allow, w.Deny)
	return b.String()
}

// fold makes device types comparable: "Ascend 910", "ascend-910" and "ASCEND910" are one.
func fold(deviceType string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-' || r == '_':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, deviceType)
}
