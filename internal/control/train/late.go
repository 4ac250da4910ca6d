package train

import (
	"fmt"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Who comes after the first generation (a spare's successor, a replacement, a newcomer of an elastic task) is looked at
// before it takes part: its devices, versions and room. Connections are not measured again. Nobody waits for it: until it
// has answered it is not ready. One that is unfit is named in Rendezvous.Left, and is ended without ever having had a rank.

// checkLate has one that came late be checked, and refuses it if it is unfit; at is its place among everybody.
func (s resizing) checkLate(p *plan, m *gang.Member, at int) {
	switch {
	case m.Leaving:
	case m.Unchecked && m.Attached && m.Said.Port != 0 && m.Said.Prepared:
		p.late = append(p.late, at)
	case m.Unfit && p.status.Rendezvous != nil:
		r := *p.status.Rendezvous
		r.Left = append(slices.Clone(r.Left), m.Index)
		p.status.Rendezvous, p.commit = &r, true
		why := m.Found[0].Message
		p.tell(true, "Unfit", "unfit-"+string(m.Name), fault.Text{
			EN: fmt.Sprintf("%s-%d is not used: %s", m.Role, m.Index, why.EN), ZH: fmt.Sprintf("不使用副本 %s-%d：%s", m.Role, m.Index, why.ZH),
		})
	case len(m.Found) > 0 && m.Said.Preflight.Round == s.LateRound(m):
		for i, f := range m.Found {
			p.tell(true, "Preflight", fmt.Sprintf("late-%s-%d", m.Name, i), f.Message)
		}
	}
}

// turnAway gives up the slot of an unfit newcomer that has ended. Where a replacement is waited for another is looked for,
// on another node; where the task only grew the slot is kept for a while, so that it does not grow there again at once.
func (s resizing) turnAway(p *plan, next *api.PlacementSpec, m *gang.Member, now time.Time) {
	if lost := next.Lost; lost != nil && now.Before(lost.Until) {
		next.Lost = lossAgain(lost)
		next.Lost.Avoid = append(next.Lost.Avoid, m.Number)
		substitute(next, m, false)
	} else if left := s.pauseAfter(m, now); left > 0 {
		p.wake = left
		return
	} else {
		drop(next.Roles, m)
	}
	p.resize, p.commit, p.usage = next, true, true
}

// pauseAfter is how long the slot of one that ended is kept from now on.
func (s resizing) pauseAfter(m *gang.Member, now time.Time) time.Duration {
	for i := range s.Placement.Spec.Roles {
		if r := &s.Placement.Spec.Roles[i]; r.Role == m.Role && m.Exit != nil {
			return max(m.Exit.At.Add(spareAgain(r, len(r.Slots)-1)).Sub(now), 0)
		}
	}
	return 0
}
