package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TellRoles is the leader's newest word about where the roles are: ranks that run hear of it if it
// differs from what they heard before.
func (r *Set) TellRoles(g link.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.Number < r.now.Number || g.RoleTable == r.said.RoleTable {
		return
	}
	r.said.RoleTable = g.RoleTable
	r.roles = map[string]word.Role{}
	for _, role := range g.Roles {
		r.roles[role.Name] = word.Role{Ranks: role.Ranks, Replicas: role.Replicas, Addresses: slices.Clone(role.Addresses)}
	}
	if g.Number == r.now.Number { // those of an earlier one are about to end
		roles := r.roles
		for c := range r.conns {
			c.post(func(out *rankOutbox) { out.roles = roles })
		}
	}
	r.report()
}
