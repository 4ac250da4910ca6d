package work

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// A piece of work may be a gang: members that start when all of them are there, since each is told where the others are, and that start again together.

// alone is where processes find each other that share a machine's loopback.
const alone = "127.0.0.1"

// address is a port of a member, as the others reach it.
func (m *Member) address(port int) string {
	return net.JoinHostPort(cmp.Or(m.Said.Address, m.Known.Address, alone), strconv.Itoa(port))
}

// gathered says that everybody who is to be told of others can be: all are attached, and said where they are reached.
func gathered(members []Member) bool {
	return len(members) < 2 || !slices.ContainsFunc(members, func(m Member) bool {
		return m.Known.State != engine.StateCreated && m.Known.State != engine.StateRunning || !m.Attached || m.Said.Serve == 0 || m.Said.Port == 0
	})
}

// isWide says that the members are on several machines: they reach each other by the machines' own network.
func isWide(members []Member) bool {
	machines := map[string]bool{}
	for i := range members {
		name := "" // the server's
		if n := members[i].Node; n != nil && n.Spec.Agent != nil {
			name = n.Meta.Name
		}
		machines[name] = true
	}
	return len(machines) > 1
}

// inOrder are the members by role, as the work names them, and then by index.
func inOrder(members []Member, roles []api.Role) []*Member {
	out := make([]*Member, 0, len(members))
	for i := range members {
		out = append(out, &members[i])
	}
	place := func(m *Member) int {
		return slices.IndexFunc(roles, func(r api.Role) bool { return r.Name == m.Role })
	}
	slices.SortStableFunc(out, func(a, b *Member) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Index, b.Index)) })
	return out
}

// generationOf is what one of the members is told: a world of its own or, of a gang, who the others are.
func generationOf(members []Member, roles []api.Role, m *Member) link.Generation {
	ranks := func(m *Member) int {
		for i := range roles {
			if roles[i].Name == m.Role {
				return roles[i].RankCount()
			}
		}
		return 1
	}
	g := link.Generation{Number: int64(m.Attempt), Membership: link.Membership{World: ranks(m), Groups: 1, Table: string(m.Name), Lead: net.JoinHostPort(alone, strconv.Itoa(m.Said.Port))}}
	if len(members) < 2 {
		return g
	}
	all := inOrder(members, roles)
	g.World, g.Groups, g.Lead, g.Table = 0, len(all), all[0].address(all[0].Said.Port), string(all[0].Name)
	for i, other := range all {
		if other == m {
			g.Group, g.FirstRank = i, g.World
		}
		g.World += ranks(other)
		k := slices.IndexFunc(g.Roles, func(r link.Role) bool { return r.Name == other.Role })
		if k < 0 {
			k, g.Roles = len(g.Roles), append(g.Roles, link.Role{Name: other.Role})
		}
		r := &g.Roles[k]
		r.Ranks += ranks(other)
		if r.Replicas++; r.Replicas <= link.MaxAddresses {
			r.Addresses = append(r.Addresses, other.address(other.Said.Serve))
		}
	}
	return g
}
