package object

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// describeAgent says which agent a machine that joined has, and how its last upgrade went.
func describeAgent(s *call.Session, d *show.Sheet, n *api.Node) {
	a := n.Status.Agent
	if a == nil {
		return
	}
	d.Add("Agent", "代理", a.Version+" @ "+a.Address)
	u := a.Upgrade
	if u == nil {
		return
	}
	line := map[joined.UpgradeState]fault.Text{
		joined.UpgradeFetching: fault.T("fetching version %s", "正在获取版本 %s", u.Version),
		joined.UpgradeTrying:   fault.T("trying version %s", "正在试运行版本 %s", u.Version),
		joined.UpgradeDone:     fault.T("to version %s", "已升级到版本 %s", u.Version),
		joined.UpgradeFailed:   fault.T("to version %s failed: ", "升级到版本 %s 失败：", u.Version),
	}[u.State].In(s.Lang)
	if u.State == joined.UpgradeFailed {
		line += u.Message.In(s.Lang)
	}
	d.Add("Upgrade", "升级", line+" ("+when(s, &u.At)+")")
}
