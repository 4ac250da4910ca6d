package cluster

import (
	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/objects"
)

// PlacementHooks is the row of Placement: the planner writes placements, people read them.
func PlacementHooks() *objects.Hooks {
	return &objects.Hooks{Kind: api.KindPlacement, Access: access.Kind{Read: access.ReadOwn}}
}
