package server

import api "github.com/fermi-cluster/fermi/api/v1"

// placementHooks is the row of Placement: the planner writes placements, people read them.
func placementHooks() *hooks {
	return &hooks{kind: api.KindPlacement, access: kindAccess{read: readOwn}}
}
