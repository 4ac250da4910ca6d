// Package joined has what nodes and tokens say of machines that joined with an agent.
//
// Place: vocabulary, below api/v1. Promise: plain data. Enemies: judgement.
package joined

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Use is that of a token which lets one machine join; its label LabelZone names the zone.
const (
	Use       = "join"
	LabelZone = "zone"
)

// IsSpot says by the labels of a machine that it may be taken away at short notice: spot=true.
func IsSpot(labels map[string]string) bool { return labels["spot"] == "true" }

// Spec is of a node's spec. Spot is also said of machines that others look after.
type Spec struct {
	Agent *Agent `json:"agent,omitempty" doc:"Set on a machine that joined with fermi agent; absent: a server starts what runs there."`
	Spot  bool   `json:"spot,omitempty" doc:"It may be taken away at short notice."`
}

// Agent is the machine that joined as a node. It is written when it joins.
type Agent struct {
	// ID is in the agent's certificate; one of another id is refused.
	ID        string            `json:"id" doc:"Of this joining; it ends with the node."`
	MachineID string            `json:"machineId,omitempty" doc:"The system's own, to tell cloned disks."`
	Labels    map[string]string `json:"labels,omitempty" doc:"That its agent was started with; rack and leaf are its place in the network."`
}

// Status is of a node's status.
type Status struct {
	Agent *AgentStatus `json:"agent,omitempty" doc:"What the agent of a machine that joined says of itself."`
}

// AgentVersion is the agent's; "": a server starts what runs there.
func (s *Status) AgentVersion() string {
	if s.Agent == nil {
		return ""
	}
	return s.Agent.Version
}

// AgentStatus is what an agent says of itself.
type AgentStatus struct {
	Forward   string   `json:"forward,omitempty" doc:"Where gateways reach the replicas of services on it: host:port; none while nobody listens there."`
	Version   string   `json:"version,omitempty"`
	Address   string   `json:"address,omitempty" doc:"Where other machines reach this one."`
	Addresses []string `json:"addresses,omitempty" doc:"All its own IPv4 addresses on its interfaces, at most 32."`
	Tunnel    *Tunnel  `json:"tunnel,omitempty" doc:"How others reach it encrypted; absent: it can't."`
	// Upgrade is written by the agent, also over its own end.
	Upgrade *Upgrade `json:"upgrade,omitempty" doc:"The last upgrade that was asked for; absent: none was."`
}

// Tunnel is an agent's WireGuard.
type Tunnel struct {
	Key  string `json:"key" doc:"Its public key."`
	Port int    `json:"port" doc:"UDP, at the address."`
}

// UpgradeState is how far an upgrade is.
type UpgradeState string

// The states. An agent that does not come up with the new program goes on with its own: failed.
const (
	UpgradeFetching UpgradeState = "fetching"
	UpgradeTrying   UpgradeState = "trying"
	UpgradeDone     UpgradeState = "done"
	UpgradeFailed   UpgradeState = "failed"
)

// Upgrade is the replacement of an agent's program by the servers' own.
type Upgrade struct {
	ID      string       `json:"id" doc:"Of this asking."`
	Version string       `json:"version" doc:"Of the servers' program."`
	Digest  string       `json:"digest" doc:"SHA-256 of the servers' program."`
	State   UpgradeState `json:"state" doc:"fetching, trying, done, or failed (the agent goes on with the program that it had)."`
	Message fault.Text   `json:"message,omitzero" doc:"Why it failed."`
	At      time.Time    `json:"at" doc:"When it came to this state, by the machine's clock."`
}

// Over says that nothing more comes of it.
func (u *Upgrade) Over() bool { return u.State == UpgradeDone || u.State == UpgradeFailed }
