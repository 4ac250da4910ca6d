package train

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// Who comes after the first generation (a spare's successor, a replacement, a newcomer of an elastic task) is looked at
// before it takes part: its devices, versions and room. Connections are not measured again. Nobody waits for it: until it
// has answered it is not ready. One that is unfit is named in Rendezvous.Left, and is ended without ever having had a rank.

// inspect judges one that has no rank yet by what its launcher said.
func (s *seen) inspect(m *member) {
	st := s.task.Status.Preflight
	if st == nil || st.FinishedAt == nil || m.said.Facts == nil || s.task.Spec.PreflightMode() == api.PreflightOff {
		return
	}
	if m.unchecked = m.said.Preflight == nil; m.unchecked {
		return
	}
	one := s.judged(m)
	one.Answer = m.said.Preflight
	common := st.Versions
	if one.Group != "" { // those were of another world, or another image
		common = nil
	}
	m.found = preflight.Late(one, common)
	m.unfit = slices.ContainsFunc(m.found, func(f api.PreflightFinding) bool {
		return f.Field == "device" || s.task.Spec.PreflightMode() == api.PreflightRequire
	})
}

// lateRound names the check of one replica.
func (s *seen) lateRound(m *member) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", s.task.Meta.ID, m.name))
	return hex.EncodeToString(sum[:16])
}

// look has one that came late be checked, and refuses it if it is unfit; at is its place among everybody.
func (s *seen) look(p *plan, m *member, at int) {
	switch {
	case m.leaving:
	case m.unchecked && m.attached && m.said.Port != 0 && m.said.Prepared:
		p.late = append(p.late, at)
	case m.unfit && p.status.Rendezvous != nil:
		r := *p.status.Rendezvous
		r.Left = append(slices.Clone(r.Left), m.index)
		p.status.Rendezvous, p.commit = &r, true
		why := m.found[0].Message
		p.tell(true, "Unfit", "unfit-"+string(m.name), fault.Text{
			EN: fmt.Sprintf("%s-%d is not used: %s", m.role, m.index, why.EN), ZH: fmt.Sprintf("不使用副本 %s-%d：%s", m.role, m.index, why.ZH),
		})
	case len(m.found) > 0 && m.said.Preflight.Round == s.lateRound(m):
		for i, f := range m.found {
			p.tell(true, "Preflight", fmt.Sprintf("late-%s-%d", m.name, i), f.Message)
		}
	}
}

// turnAway gives up the slot of an unfit newcomer that has ended. Where a replacement is waited for another is looked for,
// on another node; where the task only grew the slot is kept for a while, so that it does not grow there again at once.
func (s *seen) turnAway(p *plan, next *api.PlacementSpec, m *member, now time.Time) {
	if lost := next.Lost; lost != nil && now.Before(lost.Until) {
		m.usable = false
		next.Lost = lossAgain(lost)
		next.Lost.Avoid = append(next.Lost.Avoid, m.number)
		s.substitute(next, m)
	} else if left := s.pauseAfter(m, now); left > 0 {
		p.wake = left
		return
	} else {
		drop(next.Roles, m)
	}
	p.resize, p.commit, p.usage = next, true, true
}

// pauseAfter is how long the slot of one that ended is kept from now on.
func (s *seen) pauseAfter(m *member, now time.Time) time.Duration {
	for i := range s.placement.Spec.Roles {
		if r := &s.placement.Spec.Roles[i]; r.Role == m.role && m.exit != nil {
			return max(m.exit.At.Add(spareAgain(r, len(r.Slots)-1)).Sub(now), 0)
		}
	}
	return 0
}

// askLate orders the checks of those that came late.
func (c *Controller) askLate(s seen, list []int, status api.TrainingTaskStatus) error {
	all := s.everybody()
	for _, i := range list {
		m := &all[i]
		err := c.order(m, link.Generation{
			Number: int64(status.Generation) + 1, World: max(m.ranks, 1), Lead: m.at(m.said.Port),
			Preflight: &preflight.Round{ID: s.lateRound(m)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
