package kinds

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// moveEnvironment has the home of an environment go elsewhere.
var moveEnvironment = server.WorkVerb{
	Word: "move", Begins: true,
	Summary: "Move the home of an environment to another node or zone: it is stopped, its home is saved as a snapshot, filled there, and started there; the old home is deleted when the new one is whole.",
	Reason:  "MoveRequested", Event: fault.T("A move of its home was asked for.", "已请求迁移主目录。"),
	Asks: []rest.Param{
		{Name: "node", Doc: "The node where its home shall be; its zone follows."},
		{Name: "zone", Doc: "The zone where its home shall be, on whichever node has room."},
		{Name: "withoutLayer", Form: rest.FormBool, Doc: "What was installed over its image stays behind, and is lost."},
	},
	Wish: func(ctx context.Context, find *truth.Truth, c *rest.Call, o api.Work) (said fault.Text, changed bool, err error) {
		to, err := whereTo(ctx, find, c.Query.Text("node"), c.Query.Text("zone"))
		m := devenv.Moves{Of: o.(*devenv.DevEnvironment)}
		if err == nil {
			err = m.May(to)
		}
		if err != nil {
			return said, false, err
		}
		m.Ask(to, c.Query.Yes("withoutLayer"))
		return fault.T("The environment is being moved; its old home stays until the new one is whole", "环境正在迁移，新主目录完整之前保留原主目录"), true, nil
	},
}

// whereTo reads where a home shall go.
func whereTo(ctx context.Context, find *truth.Truth, node, zone string) (to devenv.HomeTo, err error) {
	switch {
	case node == "" && zone == "":
		return to, refuse.Invalid("node", fault.T("Say where: a node, or a zone.", "请指定目标节点或可用区。"))
	case node == "":
		_, err = find.Refer(ctx, api.Key{Kind: api.KindZone, Name: zone}, "zone")
		return devenv.HomeTo{Zone: zone}, err
	}
	o, err := find.Refer(ctx, api.Key{Kind: api.KindNode, Name: node}, "node")
	if err != nil {
		return to, err
	}
	n := o.(*api.Node)
	if zone != "" && zone != n.Spec.Zone {
		return to, refuse.Invalid("zone", fault.T("Node %s is in zone %s.", "节点 %s 位于可用区 %s。", node, n.Spec.Zone))
	}
	return devenv.HomeTo{Node: node, Zone: n.Spec.Zone}, nil
}
