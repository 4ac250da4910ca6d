package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/sched/deal"
	"github.com/fermi-cluster/fermi/sched/room"
)

// keeps is how many replicas of a role the loss of a zone has to leave: its least size where that
// is smaller than what it asks for, else half of what it asks for, and one at least.
func keeps(r *Role) int {
	if least := atLeast(r); least < r.Replicas {
		return least
	}
	return max(r.Replicas/2, 1)
}

// survivors says it to people.
func survivors(w *Workload) string {
	var parts []string
	for i := range w.Roles {
		parts = append(parts, fmt.Sprintf("%d × %s", keeps(&w.Roles[i]), w.Roles[i].Name))
	}
	return strings.Join(parts, " + ")
}

// perZone is how many replicas of a role may stand in one zone; -1 is no limit.
func (s *search) perZone(role int) int64 {
	if !s.w.Survive {
		return -1
	}
	r := &s.w.Roles[role]
	return int64(r.Replicas - keeps(r))
}

// most is how many replicas of a role a zone may take.
func (s *search) most(w *want, z *zone) int64 {
	sum := w.ix.Sum[zonal][z.at]
	if limit := s.perZone(w.role); limit >= 0 {
		return min(sum, limit)
	}
	return sum
}

// tooMany says that one zone, which is to get the present wants, may not have so many.
func (s *search) tooMany() bool {
	return slices.ContainsFunc(s.wants, func(w want) bool {
		limit := s.perZone(w.role)
		return limit >= 0 && int64(w.count) > limit
	})
}

// apart deals the gang over these zones as evenly as there is room, none of them with more of a role
// than may be lost. It places all of it or nothing.
func (s *search) apart(set []room.Place) bool {
	all := slices.Clone(s.wants)
	s.piecewise = true
	defer func() { s.piecewise = false }()
	zones := make([]*zone, len(set))
	for i, p := range set {
		zones[i] = s.t.zones[p.ID]
	}
	shares := make([][]int32, len(all)) // of each want, by zone
	for i := range all {
		rooms := make([]int64, len(zones))
		for k, z := range zones {
			rooms[k] = s.most(&all[i], z)
		}
		shares[i] = deal.Evenly(all[i].count, rooms)
	}
	for k, z := range zones {
		s.wants = s.wants[:0:0]
		for i, w := range all {
			if w.count = shares[i][k]; w.count > 0 {
				s.wants = append(s.wants, w)
			}
		}
		if !s.choosy([]*zone{z}) {
			s.undo(0)
			s.wants = all
			s.ask(false, s.w.spot())
			return false
		}
	}
	return true
}
