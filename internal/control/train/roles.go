package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
)

// A task's members are in parts that start again together: all roles with the task, and each role
// with restart: role by itself. A part is judged as if it were a task of its own: seen with its own
// members, while its attempt, generation and rendezvous stand in the status in place of the task's.

// parts are the task's, the one of the roles that restart with it first.
func (s *seen) parts() []*seen {
	if len(s.task.Status.Roles) == 0 {
		return []*seen{s}
	}
	list := make([]*seen, 1+len(s.task.Status.Roles))
	for k := range list {
		part := *s
		part.whole, part.role = s, k
		part.members, part.at, part.world = nil, nil, 0
		list[k] = &part
	}
	for i := range s.members {
		m := s.members[i]
		k := 1 + slices.IndexFunc(s.task.Status.Roles, func(r api.RoleStatus) bool { return r.Name == m.role })
		list[k].members, list[k].at = append(list[k].members, m), append(list[k].at, i)
		list[k].world += m.ranks
	}
	return list
}

// main is the part of the roles that restart with the task.
func (s *seen) main() *seen { return s.parts()[0] }

// all is the whole task of a part.
func (s *seen) all() *seen {
	if s.whole != nil {
		return s.whole
	}
	return s
}

// as lets turn judge the part: the plan's status is the part's while it does, and the members it
// names are the task's afterwards.
func (s *seen) as(p *plan, turn func()) {
	if s.whole == nil {
		turn()
		return
	}
	start, ahead := len(p.start), len(p.goAhead)
	if s.role > 0 {
		p.part = s.task.Status.Roles[s.role-1].Name + "-"
		exchange(&p.status, s.role-1)
		defer func() {
			exchange(&p.status, s.role-1)
			p.part = ""
		}()
	}
	turn()
	for _, list := range [][]int{p.start[start:], p.goAhead[ahead:]} {
		for n := range list {
			list[n] = s.at[list[n]]
		}
	}
}

// exchange puts a role's place in the task's, and again: back.
func exchange(status *api.TrainingTaskStatus, i int) {
	r := &status.Roles[i]
	status.Attempt, r.Attempt = r.Attempt, status.Attempt
	status.Generation, r.Generation = r.Generation, status.Generation
	status.Rendezvous, r.Rendezvous = r.Rendezvous, status.Rendezvous
}

// earliest is the part whose failure came first of itself; nil, nil: none failed.
func earliest(parts []*seen, p *plan, find func(part *seen) *api.ReplicaFailure) (guilty *seen, first *api.ReplicaFailure) {
	for _, part := range parts {
		var f *api.ReplicaFailure
		part.as(p, func() { f = find(part) })
		if f != nil && (first == nil || earlier(f, first)) {
			guilty, first = part, f
		}
	}
	return guilty, first
}

// renewRoles begins another attempt of the roles that restart by themselves: the task itself does.
func (s *seen) renewRoles(p *plan) {
	for _, role := range s.task.Spec.Roles {
		if !role.Alone() {
			continue
		}
		r := p.status.Role(role.Name)
		if r == nil {
			p.status.Roles = append(p.status.Roles, api.RoleStatus{Name: role.Name})
			r = &p.status.Roles[len(p.status.Roles)-1]
		}
		r.Attempt++
		r.Rendezvous = nil
	}
}

// generations names what is open in all parts.
func generations(status *api.TrainingTaskStatus) string {
	text := itoa(status.Generation)
	for i := range status.Roles {
		text += "-" + itoa(status.Roles[i].Generation)
	}
	return text
}

// meet says that every launcher has told where its ranks may be reached. A task of one role has
// nobody who asks.
func (s *seen) meet() bool {
	return len(s.task.Spec.Roles) < 2 || !slices.ContainsFunc(s.members, func(m member) bool { return m.said.Serve == 0 && !m.ended() })
}

// addresses is what every rank is told about the roles, and its hash.
func (s *seen) addresses() (roles []link.Role, hash string) {
	if len(s.task.Spec.Roles) < 2 {
		return nil, ""
	}
	at := map[string]int{}
	for _, i := range s.order {
		m := &s.members[i]
		k, ok := at[m.role]
		if !ok {
			k = len(roles)
			at[m.role], roles = k, append(roles, link.Role{Name: m.role})
		}
		r := &roles[k]
		r.Ranks += m.ranks
		if r.Replicas++; r.Replicas > link.MaxAddresses {
			continue
		}
		address := ""
		if m.said.Serve != 0 {
			address = m.at(m.said.Serve)
		}
		r.Addresses = append(r.Addresses, address)
	}
	h := sha256.New()
	for i := range roles {
		fmt.Fprintln(h, roles[i])
	}
	return roles, hex.EncodeToString(h.Sum(nil)[:16])
}
