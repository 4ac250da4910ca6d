package cluster

import (
	"context"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Upgrading is a Live that upgrades agents.
type Upgrading interface {
	// UpgradeNode has the agent of a node replace its program by the servers' own.
	UpgradeNode(ctx context.Context, node string) (joined.Upgrade, error)
}

// upgradeRoute is how agents get the program of the servers.
func (s *Joins) upgradeRoute(reg *rest.Schemas) *rest.Route {
	row := api.MustInfo(api.KindNode)
	return &rest.Route{
		Method: http.MethodPost, Path: rest.Prefix + "/nodes/{name}/upgrade", ID: "upgradeNode", Tag: row.Plural, Kind: row.Kind, Verb: "upgrade",
		Summary: "Have the agent of a machine that joined replace its program by the servers' own. What runs there is not touched; what becomes of it is in status.agent.upgrade, under the id of the answer.",
		Data:    rest.SchemaOf[joined.Upgrade](reg), Handle: s.upgrade,
	}
}

func (s *Joins) upgrade(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	row, name := api.MustInfo(api.KindNode), c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	o, err := s.Truth.Find(ctx, api.Key{Kind: row.Kind, Name: name}, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Missing(row, name)
	}
	if err != nil {
		return nil, err
	}
	node := o.(*api.Node)
	c.Note.Before(node)
	if err := s.Judge.MayWrite(ctx, c.Who, node); err != nil {
		return nil, err
	}
	if node.Spec.Agent == nil {
		return nil, fault.New(fault.Conflict, "NotJoined", fault.T("%s did not join: what starts work there is a server, or a cluster's own.", "%s 不是加入的节点：其任务由服务器或所在集群启动。", name)).
			WithHint(fault.T("Only machines that run `fermi agent` are upgraded this way.", "只有运行 `fermi agent` 的机器可以这样升级。"))
	}
	upgrading, ok := s.Live.(Upgrading)
	if !ok {
		return nil, refuse.NoPlanner
	}
	up, err := upgrading.UpgradeNode(ctx, name)
	if err != nil {
		return nil, err
	}
	if up.Over() {
		c.Note.Skip = true
	} else {
		next := store.Clone(node)
		if next.Status.Agent == nil {
			next.Status.Agent = &joined.AgentStatus{}
		}
		next.Status.Agent.Upgrade = &up
		c.Note.After(next)
		c.Tell(node, "AgentUpgrade", fault.T("Its agent was asked to upgrade to version %s.", "已请求其代理升级到版本 %s。", up.Version))
	}
	return &rest.Reply{Data: up}, nil
}
