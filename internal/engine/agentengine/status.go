package agentengine

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Why a node of an agent takes no new work.
const (
	ReasonSilent  = "AgentSilent"
	ReasonSkew    = "ClockSkew"
	ReasonRefused = "AgentRefuses"
)

// rivalFor is how long a second agent of the same identity is told of, and one that was not taken; it knocks again before that.
const rivalFor = time.Minute

// status is the node as it is to be shown; kept is how it is stored. false: nothing is to be said yet. For holders of the lock.
func (h *host) status(kept api.Node, now time.Time) (api.Node, bool) {
	if kept.Spec.Agent == nil {
		return api.Node{}, false
	}
	n := h.node
	if n.Meta.Name == "" { // it was not heard since we lead
		n = kept
	} else {
		n.Meta, n.Spec.Zone, n.Spec.Agent = kept.Meta, kept.Spec.Zone, kept.Spec.Agent
		n.Spec.Rack, n.Spec.Leaf, n.Spec.Spot = kept.Spec.Agent.Labels["rack"], kept.Spec.Agent.Labels["leaf"], joined.IsSpot(kept.Spec.Agent.Labels)
		agent := joined.AgentStatus{Version: h.said.Version, Address: h.said.Address}
		agent.Upgrade = h.said.Upgrade
		if n.Status.Agent != nil {
			agent.Forward, agent.Tunnel, agent.Addresses = n.Status.Agent.Forward, n.Status.Agent.Tunnel, n.Status.Agent.Addresses
		}
		n.Status.Agent = &agent
	}
	away := now.Sub(h.heard) >= Silent
	switch {
	case h.refused != nil:
		n.Status.Ready, n.Status.Reason, n.Status.Message = false, ReasonRefused, h.refused.Message
	case h.turned != nil && h.now == nil && now.Sub(h.turnedAt) < rivalFor:
		n.Status.Ready, n.Status.Reason = false, h.turned.Reason
		n.Status.Message = fault.Text{EN: join(h.turned.Message.EN, " ", h.turned.Hint.EN), ZH: h.turned.Message.ZH + h.turned.Hint.ZH}
	case away:
		n.Status.Ready, n.Status.Reason = false, ReasonSilent
		n.Status.Message = fault.T(
			"Its agent is not heard. What runs there goes on; it takes no new work. Is the machine on, and does `fermi agent` run? If the machine is gone, say so: fermi node lost %s.",
			"其代理失去联系。已运行的任务不受影响，但不接收新任务。请检查机器是否开机、fermi agent 是否在运行；若该机器已不在，请执行：fermi node lost %s。", kept.Meta.Name)
	case h.now == nil: // for a moment nothing changes
		n.Status.Ready, n.Status.Reason, n.Status.Message = kept.Status.Ready, kept.Status.Reason, kept.Status.Message
	case h.skew > skewMost || h.skew < -skewMost:
		n.Status.Ready, n.Status.Reason = false, ReasonSkew
		n.Status.Message = fault.T(
			"Its clock is off by %s; what runs there goes on, and it takes no new work until the clock is right. Is a time service such as chrony running?",
			"其时钟偏差 %s；已运行的任务不受影响，但在校准时钟之前不接收新任务。请检查 chrony 等时间同步服务是否在运行。", h.skew.Round(time.Second))
	}
	if h.rival != "" && now.Sub(h.rivalAt) < rivalFor {
		also := fault.T("Another agent at %s says that it is this node and is turned away: was a disk cloned?", "位于 %s 的另一个代理也自称该节点，已被拒绝：是否克隆了磁盘？", h.rival)
		n.Status.Message = fault.Text{EN: join(n.Status.Message.EN, " ", also.EN), ZH: n.Status.Message.ZH + also.ZH}
	}
	return n, true
}

func join(a, between, b string) string {
	if a == "" {
		return b
	}
	return a + between + b
}
