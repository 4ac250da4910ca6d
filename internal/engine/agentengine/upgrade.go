package agentengine

import (
	"context"

	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// reasonUnknown is how an agent of an earlier version answers an order that it does not know.
	reasonUnknown = "UnknownOrder"
	// ReasonUpToDate is how an agent answers that runs the program already.
	ReasonUpToDate = "UpToDate"
)

// Upgrade has the agent of a node replace its program. What becomes of it is told by the node's status: the agent says so when it attaches again.
func Upgrade(ctx context.Context, e *Engine, node string, p Program) (joined.Upgrade, error) {
	u := joined.Upgrade{ID: p.ID, Version: p.Version, Digest: p.Digest, State: joined.UpgradeFetching, At: e.cfg.Clock.Now().UTC()}
	if err := e.waitReady(ctx); err != nil {
		return u, err
	}
	h, v := e.at(node)
	if h == nil || v == nil {
		return u, errAway(node)
	}
	err := e.call(ctx, h, v, kindUpgrade, p)
	switch fault.ReasonOf(err) {
	case "":
	case ReasonUpToDate:
		u.State = joined.UpgradeDone
		return u, nil
	case reasonUnknown:
		e.mu.Lock()
		version := h.said.Version
		e.mu.Unlock()
		return u, fault.New(fault.Conflict, "AgentTooOldToUpgrade", fault.T(
			"The agent of node %s is of version %s, which can't replace itself.", "节点 %s 的代理版本为 %s，尚不支持自我升级。", node, version)).
			WithHint(fault.T("Once by hand: put the servers' program in its place on that machine and restart the agent. What runs there is not touched.",
				"请手动升级一次：在该机器上替换为服务器的程序并重启代理；运行中的任务不受影响。"))
	}
	if err != nil {
		return u, err
	}
	e.mu.Lock()
	if h.now == v {
		h.said.Upgrade = &u
	}
	e.mu.Unlock()
	ring(e.change)
	return u, nil
}
