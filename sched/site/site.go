// Package site is what the planner is told of a cluster: its nodes, its zones and the machines behind virtual nodes.
//
// Place: layer 2, below sched. Promise: data alone; what is absent says nothing. Enemies: a second idea of what a node has.
package site

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/cost"
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
	// Bandwidth is that of links to other zones in bytes a second, by name; see distance.DefaultBandwidth.
	Bandwidth map[string]int64
	// Cost is its prices and its carbon over the day; nil is unknown.
	Cost *cost.Zone
}

// Host is a machine that runs the processes of virtual nodes.
type Host struct {
	Name      string
	Processes int // capacity
}
