package gang

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// Admit tells members from newcomers, who stay aside until all of them are ready (growing never stops who trains), and from
// spares. Those to avoid get a vacant seat only where nobody else can.
func (g *Gang) Admit(avoid func(m *Member) bool) {
	if g.Reserves() {
		g.enlist(avoid)
		return
	}
	r := g.Task.Status.Rendezvous
	if r == nil || r.Below == nil {
		return
	}
	newcomer := func(m Member) bool { return m.Leaving || m.Index >= r.Below[m.Role] }
	for i := range g.Members {
		m := &g.Members[i]
		if m.Leaving = slices.Contains(r.Left, m.Index); newcomer(*m) {
			g.inspect(m)
		}
	}
	aside := func(m Member) bool { return m.Leaving }
	if slices.ContainsFunc(g.Members, func(m Member) bool {
		switch {
		case m.Leaving:
			return false // it comes to nothing, and nobody waits for that
		case newcomer(m):
			return !m.Ready()
		}
		return m.Ended() || m.Said.Generation < int64(g.Task.Status.Generation) // too late, or too early
	}) {
		aside = newcomer
	}
	for _, m := range g.Members {
		if aside(m) {
			g.Joining = append(g.Joining, m)
		}
	}
	g.Members = slices.DeleteFunc(g.Members, aside)
}

// enlist tells members from spares.
func (g *Gang) enlist(avoid func(m *Member) bool) {
	r := g.Task.Status.Rendezvous
	if r == nil {
		g.setAside(len(g.Members) - g.Task.Spec.Roles[0].Replicas)
		return
	}
	all := g.Members
	g.Members, g.Seats, g.Vacant = nil, map[int]int{}, slices.Sorted(slices.Values(r.Vacant))
	for _, m := range all {
		m.Leaving = slices.Contains(r.Left, m.Index)
		m.Spare = m.Leaving || m.Index >= r.Below[m.Role] || slices.Contains(r.Aside, m.Index)
		if m.Spare {
			g.inspect(&m)
			g.Spares = append(g.Spares, m)
		} else {
			g.Members = append(g.Members, m)
		}
	}
	for _, seat := range r.Stead {
		g.Seats[seat.Index] = seat.Place
	}
	g.takeSeats(avoid)
}

// setAside has n of the replicas stand by: first those whose nodes take no work, then those with the fewest
// others beside them, so that a node is lost with members or with spares.
func (g *Gang) setAside(n int) {
	if n <= 0 {
		return
	}
	beside := map[uint32]int{}
	for i := range g.Members {
		beside[g.Members[i].Number]++
	}
	order := slices.Clone(g.Members)
	slices.SortFunc(order, func(a, b Member) int {
		if a.Usable != b.Usable && b.Usable {
			return -1
		} else if a.Usable != b.Usable {
			return 1
		}
		return cmp.Or(cmp.Compare(beside[a.Number], beside[b.Number]), cmp.Compare(b.Number, a.Number), cmp.Compare(b.Index, a.Index))
	})
	aside := map[int]bool{}
	for _, m := range order[:n] {
		aside[m.Index] = true
	}
	all := g.Members
	g.Members = nil
	for _, m := range all {
		if m.Spare = aside[m.Index]; m.Spare {
			g.Spares = append(g.Spares, m)
		} else {
			g.Members = append(g.Members, m)
		}
	}
}

// takeSeats puts spares that are ready into vacant seats. One on a node at fault is no help; one that is to be avoided is
// taken where there is no other.
func (g *Gang) takeSeats(avoid func(m *Member) bool) {
	fault := map[uint32]bool{}
	for i := range g.Spares {
		fault[g.Spares[i].Number] = fault[g.Spares[i].Number] || g.Spares[i].Leaving
	}
	if len(g.Vacant) > 0 {
		slices.SortStableFunc(g.Spares, func(a, b Member) int {
			return cmp.Compare(one(avoid(&a)), one(avoid(&b)))
		})
	}
	g.Spares = slices.DeleteFunc(g.Spares, func(m Member) bool {
		if len(g.Vacant) == 0 || !m.Ready() || fault[m.Number] {
			return false
		}
		m.Spare = false
		g.Seats[m.Index], g.Vacant = g.Vacant[0], g.Vacant[1:]
		g.Members = append(g.Members, m)
		return true
	})
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// SetReserve notes in a generation that is opened who is not of it.
func (g *Gang) SetReserve(r *api.Rendezvous) {
	for i := range g.Members {
		if place, ok := g.Seats[g.Members[i].Index]; ok {
			r.Stead = append(r.Stead, api.Seat{Index: g.Members[i].Index, Place: place})
		}
	}
	for i := range g.Spares {
		m := &g.Spares[i]
		if m.Index < r.Below[m.Role] {
			r.Aside = append(r.Aside, m.Index)
		}
		if m.Leaving {
			r.Left = append(r.Left, m.Index)
		}
	}
	for i := range g.Joining {
		if g.Joining[i].Leaving {
			r.Left = append(r.Left, g.Joining[i].Index)
		}
	}
}

// RollCall is the gang with its spares among the members, as the preflight sees it. Those that ended are
// replaced and not waited for.
func (g *Gang) RollCall() Gang {
	out := *g
	if len(g.Spares) == 0 {
		return out
	}
	out.Members = slices.Concat(g.Members, slices.DeleteFunc(slices.Clone(g.Spares), func(m Member) bool { return m.Ended() }))
	out.Spares = nil
	out.Rank()
	return out
}

// Settled says that everything that a smaller task gives up has ended.
func (g *Gang) Settled() bool {
	return !g.Surplus.Any(func(m *Member) bool { return m.State != "" && !m.Ended() })
}

// inspect judges one that has no rank yet by what its launcher said.
func (t *Terms) inspect(m *Member) {
	st := t.Task.Status.Preflight
	if st == nil || st.FinishedAt == nil || m.Said.Facts == nil || t.Task.Spec.PreflightMode() == api.PreflightOff {
		return
	}
	if m.Unchecked = m.Said.Preflight == nil; m.Unchecked {
		return
	}
	one := t.Judged(m)
	one.Answer = m.Said.Preflight
	common := st.Versions
	if one.Group != "" { // those were of another world, or another image
		common = nil
	}
	m.Found = preflight.Late(one, common)
	m.Unfit = slices.ContainsFunc(m.Found, func(f api.PreflightFinding) bool {
		return f.Field == "device" || t.Task.Spec.PreflightMode() == api.PreflightRequire
	})
}

// Judged is the member as the judge sees it.
func (t *Terms) Judged(m *Member) preflight.Member {
	out := preflight.Member{Name: m.Role + "-" + strconv.Itoa(m.Index), Node: m.Node, Zone: m.Zone, Machine: m.Machine, Facts: m.Said.Facts}
	for i := range t.Task.Spec.Roles {
		if r := &t.Task.Spec.Roles[i]; r.Name == m.Role {
			out.Disk, out.Memory = int64(r.Resources.EphemeralDisk), int64(r.Resources.SharedMemory)
			switch {
			case r.Alone():
				out.Group = r.Name
			case r.Image != "": // what is in it is its own
				out.Group = r.Image
			}
		}
	}
	return out
}

// LateRound names the check of one replica.
func (t *Terms) LateRound(m *Member) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", t.Task.Meta.ID, m.Name))
	return hex.EncodeToString(sum[:16])
}
