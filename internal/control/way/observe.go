package way

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Reader has the zones.
type Reader interface {
	Get(ctx context.Context, key api.Key, atLeast int64) (api.Object, error)
}

// Between are the ways of a gang on these nodes, by node; nil where nothing is said of them. An Unavailable error says what can't be encrypted for now.
func Between(ctx context.Context, from Reader, nodes []*api.Node) (map[string]engine.Way, error) {
	zones := map[string]*way.Roads{}
	for _, n := range nodes {
		if n == nil || zones[n.Spec.Zone] != nil {
			continue
		}
		o, err := from.Get(ctx, api.Key{Kind: api.KindZone, Name: n.Spec.Zone}, 0)
		switch {
		case fault.Is(err, fault.NotFound): // it was deleted under its nodes
			zones[n.Spec.Zone] = &way.Roads{}
		case err != nil:
			return nil, err
		default:
			zones[n.Spec.Zone] = &o.(*api.Zone).Spec.Roads
		}
	}
	return plan(zones, nodes)
}
