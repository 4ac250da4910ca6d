package hosts

import (
	"context"
	"io"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/app/agent/program"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
)

// handOut gives agents the program of this server, if that is the one they were told of.
func handOut(digest string) (io.Reader, error) {
	own, err := program.Running()
	if err != nil {
		return nil, err
	}
	if own.Digest != digest {
		return nil, fault.New(fault.NotFound, "OtherProgram", fault.T("This server runs another program.", "该服务器运行的是另一个程序。"))
	}
	return own.Reader(), nil
}

// Upgrade has the agent of a node replace its program by that of this server, which leads.
func (h *Hosts) Upgrade(ctx context.Context, node string) (joined.Upgrade, error) {
	e := h.engine.Load()
	if e == nil {
		return joined.Upgrade{}, errNotLeading
	}
	own, err := program.Running()
	if err != nil {
		return joined.Upgrade{}, err
	}
	return agentengine.Upgrade(ctx, e, node, agentengine.Program{ID: id.Default.Random(12), Version: h.cfg.Version, Platform: program.Platform, Digest: own.Digest, Size: own.Size})
}

// upgraded writes down how an upgrade ended, unless the node says so already.
func (h *Hosts) upgraded(name string, u joined.Upgrade) {
	o, err := h.cfg.Store.Get(context.Background(), api.Key{Kind: api.KindNode, Name: name}, 0)
	if err != nil {
		return
	}
	node := o.(*api.Node)
	if a := node.Status.Agent; a != nil && a.Upgrade != nil && a.Upgrade.ID == u.ID && a.Upgrade.Over() {
		return
	}
	ev := history.Event{
		Time: u.At, Kind: api.KindNode, Name: node.Meta.Name, ID: node.Meta.ID, Type: "Normal", Reason: "AgentUpgraded", Dedup: node.Meta.ID + "/upgrade-" + u.ID,
		Message: fault.T("Its agent runs version %s now.", "其代理已升级到版本 %s。", u.Version),
	}
	if u.State == joined.UpgradeFailed {
		ev.Type, ev.Reason = "Warning", "AgentUpgradeFailed"
		ev.Message = fault.T("Its agent goes on with the program that it had, not with version %[1]s: ", "其代理未能升级到版本 %[1]s，继续使用原有程序：", u.Version)
		ev.Message.EN += u.Message.EN
		ev.Message.ZH += u.Message.ZH
	}
	if err := h.cfg.Events.AddEvents(context.Background(), ev); err != nil {
		h.cfg.Log.Warn("an event was not written", "error", err)
	}
}
