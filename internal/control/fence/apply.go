package fence

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Given is a replica that is given up, on its node.
type Given struct {
	Node string
	Hold hold.Hold
}

// Hold makes the writes that keep the devices of those that are given up closed, and gives the nodes as they will be. Whoever gives
// them up commits the writes together with what follows from it.
func Hold(ctx context.Context, s store.Reader, list []Given, now time.Time) (ops []store.Op, nodes []*api.Node, err error) {
	for _, g := range list {
		at := slices.IndexFunc(nodes, func(n *api.Node) bool { return n.Meta.Name == g.Node })
		if at < 0 {
			o, err := s.Get(ctx, api.Key{Kind: api.KindNode, Name: g.Node}, 0)
			if fault.Is(err, fault.NotFound) {
				continue // it was deleted: there is nothing to keep closed
			}
			if err != nil {
				return nil, nil, err
			}
			at, nodes = len(nodes), append(nodes, store.Clone(o.(*api.Node)))
		}
		if n := nodes[at]; n.Status.Holds.Of(g.Hold.Replica) == nil {
			g.Hold.BootID = n.Status.BootID
			n.Status.Holds = append(slices.Clone(n.Status.Holds), g.Hold)
		}
	}
	for _, n := range nodes {
		n.Meta.UpdatedAt = now
		ops = append(ops, store.Update(n))
	}
	return ops, nodes, nil
}

// Devices are the indexes of a mask's set bits.
func Devices(mask uint64) (out []int) {
	for bit := range 64 {
		if mask&(1<<bit) != 0 {
			out = append(out, bit)
		}
	}
	return out
}
