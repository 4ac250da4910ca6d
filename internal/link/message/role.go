package message

import (
	"fmt"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// MaxAddresses is how many replicas of a role others are told of; the rest they may ask the first for.
const MaxAddresses = 1024

// maxRoles is how many roles a task has.
const maxRoles = 16

// Role is what every rank of a task with several roles knows of one of them.
type Role struct {
	Name      string
	Ranks     int // in all its replicas
	Replicas  int
	Addresses []string // host:port of the first MaxAddresses, in rank order; "": not known
}

func roleMessages(roles []Role) []*linkpb.RoleTable {
	var out []*linkpb.RoleTable
	for _, r := range roles {
		out = append(out, &linkpb.RoleTable{Name: r.Name, Ranks: int32(r.Ranks), Replicas: int32(r.Replicas), Addresses: r.Addresses})
	}
	return out
}

func rolesOf(roles []*linkpb.RoleTable) []Role {
	var out []Role
	for _, r := range roles {
		out = append(out, Role{Name: r.GetName(), Ranks: int(r.GetRanks()), Replicas: int(r.GetReplicas()), Addresses: r.GetAddresses()})
	}
	return out
}

// checkRoles is the launcher's check: they become its ranks' environment.
func checkRoles(roles []*linkpb.RoleTable) error {
	if len(roles) > maxRoles {
		return fmt.Errorf("go with %d roles", len(roles))
	}
	for _, r := range roles {
		switch {
		case !api.IsName(r.GetName()) || len(r.GetName()) > maxTable:
			return fmt.Errorf("go with a role that has no name")
		case r.GetReplicas() < 1 || r.GetReplicas() > MaxWorld || r.GetRanks() < r.GetReplicas() || r.GetRanks() > MaxWorld:
			return fmt.Errorf("go with a role of %d ranks in %d replicas", r.GetRanks(), r.GetReplicas())
		case len(r.GetAddresses()) > MaxAddresses:
			return fmt.Errorf("go with %d addresses of a role", len(r.GetAddresses()))
		}
		for _, address := range r.GetAddresses() {
			if address != "" && (len(address) > maxLeadText || checkAddress(address) != nil) {
				return fmt.Errorf("go with a role's address that is none")
			}
		}
	}
	return nil
}
