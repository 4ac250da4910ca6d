package cluster

import (
	"cmp"
	"context"
	"math/bits"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// NodeUse is which devices of one node are taken. It says nothing of whom they are taken by, so that
// everybody may read it: the map of the cluster is the same for all roles.
type NodeUse struct {
	Node string `json:"node"`
	Used []int  `json:"used" doc:"Indexes of the devices that a task has, in order."`
}

func (s *Devices) useRoutes(reg *rest.Schemas) []*rest.Route {
	return []*rest.Route{{
		Method: http.MethodGet, Path: rest.Prefix + "/devices", ID: "listDevices", Tag: "capacity",
		Summary: "Which devices of each node are in use, by tasks of all projects; a node without any is left out.",
		Query:   []rest.Param{rest.ParamRevision},
		Data: rest.Object([]string{"items", "revision"}, map[string]*huma.Schema{
			"items": rest.ListOf(rest.SchemaOf[NodeUse](reg)), "revision": rest.NumberSchema("Of what was read."),
		}),
		Handle: s.listDevices,
	}}
}

func (s *Devices) listDevices(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	placements, err := s.truth.List(ctx, api.KindPlacement, "", c.Query.Number("minRevision"))
	if err != nil {
		return nil, err
	}
	nodes, err := s.truth.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	taken := map[uint32]uint64{}
	mark := func(roles []api.RoleAssignment) {
		for _, role := range roles {
			for _, slot := range role.Slots {
				taken[slot.Node] |= slot.Devices
			}
		}
	}
	placements.Ascend("", func(o api.Object) bool {
		p := o.(*api.Placement)
		mark(p.Spec.Roles)
		if p.Spec.Evict != nil {
			mark(p.Spec.Evict.To) // already its own
		}
		return true
	})
	items := []NodeUse{}
	nodes.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		if mask := taken[n.Spec.Number]; mask != 0 {
			items = append(items, NodeUse{Node: n.Meta.Name, Used: indexes(mask)})
		}
		return true
	})
	slices.SortFunc(items, func(a, b NodeUse) int { return cmp.Compare(a.Node, b.Node) })
	return &rest.Reply{Data: map[string]any{"items": items, "revision": placements.Revision}, Revision: placements.Revision}, nil
}

// indexes are the bits that are set, from the lowest on.
func indexes(mask uint64) []int {
	out := make([]int, 0, bits.OnesCount64(mask))
	for ; mask != 0; mask &= mask - 1 {
		out = append(out, bits.TrailingZeros64(mask))
	}
	return out
}
