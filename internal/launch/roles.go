package launch

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// What a rank of a task with several roles knows of each: as variables when it starts, and over its
// socket when replicas are elsewhere later on.

// roleEnviron sets FERMI_ROLE_<NAME>_*.
func roleEnviron(env *env, r link.Role) {
	name := "FERMI_ROLE_" + strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) + "_"
	hosts := make([]string, len(r.Addresses))
	for i, address := range r.Addresses {
		hosts[i], _, _ = net.SplitHostPort(address) // link has checked it; "": not known
	}
	env.set(name+"ADDRS", strings.Join(r.Addresses, ","))
	env.set(name+"HOSTS", strings.Join(hosts, ","))
	env.set(name+"REPLICAS", strconv.Itoa(r.Replicas))
	env.set(name+"RANKS", strconv.Itoa(r.Ranks))
}

// tellRoles is the leader's newest word about where the roles are: ranks that run hear of it if it
// differs from what they heard before.
func (r *ranks) tellRoles(g link.Generation) {
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
