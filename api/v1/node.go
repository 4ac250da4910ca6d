package v1

import (
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Node is a machine in a zone.
type Node struct {
	Meta   Meta       `json:"metadata"`
	Spec   NodeSpec   `json:"spec"`
	Status NodeStatus `json:"status,omitzero"`
}

// Kind is Node.
func (*Node) Kind() Kind { return KindNode }

// GetMeta is the metadata.
func (n *Node) GetMeta() *Meta { return &n.Meta }

// NodeSpec is what the node is.
type NodeSpec struct {
	// Number is the node's short name in placements; unique, never reused.
	Number          uint32             `json:"number"`
	Zone            string             `json:"zone"`
	Rack            string             `json:"rack,omitempty"`
	Leaf            string             `json:"leaf,omitempty"`
	Cordoned        bool               `json:"cordoned,omitempty"`
	CordonedDevices []int              `json:"cordonedDevices,omitempty" doc:"Devices, by index, that take no new work."`
	Drain           bool               `json:"drain,omitempty" doc:"What runs on the cordoned node or devices leaves and is placed elsewhere."`
	DeviceOrders    []card.DeviceOrder `json:"deviceOrders,omitempty" doc:"What operators want of single devices: drills, tests, returns; the newest of each."`
	CPU             MilliCPU           `json:"cpu"`
	Memory          Bytes              `json:"memory"`
	Disk            Bytes              `json:"disk,omitempty"`
	// Devices are the accelerators; at most 64, a placement's mask is over this order.
	Devices []Device `json:"devices,omitempty"`
	Virtual bool     `json:"virtual,omitempty" doc:"Nominal: no machine of its own stands behind it."`
	joined.Spec
	Lost bool `json:"lost,omitempty" doc:"An operator said that the machine is gone: what ran on it is given up, and its devices hold nothing any more. Uncordon takes it back."`
}

// Device is one accelerator.
type Device struct {
	Index   int    `json:"index"`
	UUID    string `json:"uuid,omitempty"`
	Bus     string `json:"bus,omitempty" doc:"Its PCI address."`
	Vendor  string `json:"vendor,omitempty"`
	Type    string `json:"type" doc:"A100, V100, H800, Ascend 910 …"`
	Memory  Bytes  `json:"memory,omitempty"`
	Island  string `json:"island,omitempty" doc:"Devices of one island share a fast link."`
	Virtual bool   `json:"virtual,omitempty"` // no hardware stands behind it
}

// NodeStatus is what was seen.
type NodeStatus struct {
	Ready   bool       `json:"ready"`
	Reason  string     `json:"reason,omitempty"`
	Message fault.Text `json:"message,omitzero"`
	BootID  string     `json:"bootId,omitempty"`
	OS      string     `json:"os,omitempty"`
	Limits  string     `json:"limits,omitempty"`  // how they are enforced: cgroup-v2, cgroup-v1, or none with the reason in Message
	Tenancy string     `json:"tenancy,omitempty"` // whether projects are kept apart on this node
	joined.Status
	Launchers []LauncherVersion `json:"launchers,omitempty" doc:"Launchers of other versions than the server's that still run here; each stays as it is until its replica ends."`
	Others    *OtherUse         `json:"others,omitempty" doc:"What work that is not Fermi's uses there: the planner counts it as used."`
	// Devices and Failures are written by control/card alone.
	Devices  []card.DeviceHealth `json:"devices,omitempty" doc:"Devices that are, or were, not well: why they are closed, and what they had."`
	Failures int                 `json:"failures,omitempty" doc:"Faults of its devices within the last day; the planner prefers nodes without."`
	// Holds keep devices closed. They are written by who gives a replica up, in the same write, and taken away by control/fence.
	Holds hold.List `json:"holds,omitempty" doc:"Replicas that were given up without proof that they have ended; their devices stay closed until there is one."`
}

// OtherUse is what work that is not Fermi's uses of a node, such as other pods of its cluster.
type OtherUse struct {
	CPU     MilliCPU `json:"cpu,omitempty"`
	Memory  Bytes    `json:"memory,omitempty"`
	Devices []int    `json:"devices,omitempty" doc:"Devices, by index, that can't be had because of it."`
}

// LauncherVersion counts the launchers of one version.
type LauncherVersion struct {
	Version string `json:"version,omitempty" doc:"Empty: from before launchers told their version."`
	Count   int    `json:"count"`
}
