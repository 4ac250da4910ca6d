package train

import (
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Tasks with spares. They are elastic tasks (elastic.go) of one size whose placement has more replicas than
// the ranks need. Who stands by is of no generation:
//
//	no generation   those whose nodes share least with the others stand by
//	one is open     it says who takes part; everybody else stands by
//	a member lost   its slot goes, as an elastic task's does, and its place is vacant: a spare that is ready
//	                takes it, so that all others keep their ranks. The new slot, if any, is the next spare's
//	node at fault   likewise, but its launcher lives: it is ended once the others train without it
//	a spare lost    it is replaced; nobody else hears of it

// spareTaken is why the ranks start again with another launcher among them.
const spareTaken = "SpareTaken"

// vacate notes that a place of the open generation is empty.
func vacate(p *plan, place int, left ...int) {
	r := *p.status.Rendezvous
	r.Vacant, r.Left = append(slices.Clone(r.Vacant), place), append(slices.Clone(r.Left), left...)
	p.status.Rendezvous, p.commit = &r, true
}

// isBroken says that a place is vacant and another member is through: the ranks can't start again together, and
// only a new attempt helps.
func (s resizing) isBroken(p *plan) bool {
	return s.Reserves() && p.status.Rendezvous != nil && p.status.Failure != nil && s.Members.DifferFrom(p.status.Rendezvous) && s.Members.AnyEnded()
}

// newIn says that a member was not of an earlier generation.
func newIn(was *api.Rendezvous, m *gang.Member) bool {
	return m.Index >= was.Below[m.Role] || slices.Contains(was.Aside, m.Index)
}

// tookPlace tells that ranks go on in spares.
func (s resizing) tookPlace(was *api.Rendezvous, from fault.Text) fault.Text {
	who := ""
	for i := range s.Members {
		m := &s.Members[i]
		if !newIn(was, m) {
			continue
		}
		if who != "" {
			who += ", "
		}
		who += m.Role + "-" + itoa(m.Index)
	}
	return fault.T("%[1]s took the place of what was lost, from %[2]s on; another spare is looked for.", "备用副本 %[1]s 已接替丢失的副本，从%[3]s继续；正在安排新的备用副本。", who, from.EN, from.ZH)
}

// keepSpares starts spares, ends those that were replaced, and gives up the slots of those that ended for
// others. None of it is heard by who trains.
func (s resizing) keepSpares(p *plan, now time.Time) {
	if !s.Reserves() {
		return
	}
	next := s.Placement.Spec
	next.Roles = slices.Clone(next.Roles)
	next.Lost = lossAgain(next.Lost)
	pause := spareAgain(&s.Placement.Spec.Roles[0], s.Task.Spec.Roles[0].Placed())
	for k := range s.Spares {
		m := &s.Spares[k]
		switch {
		case m.State == "":
			p.start = append(p.start, len(s.Members)+len(s.Joining)+k)
		case !m.Ended():
			s.checkLate(p, m, len(s.Members)+len(s.Joining)+k)
			if m.Leaving && !s.Members.DifferFrom(p.status.Rendezvous) && !s.Members.Any(func(m *gang.Member) bool { return m.Lags(&p.status) }) {
				p.stop = append(p.stop, m.Name)
			}
		case m.Leaving:
			next.Lost.Avoid = append(next.Lost.Avoid, m.Number)
			substitute(&next, m, false)
			p.resize, p.commit, p.usage = &next, true, true
		case m.Exit != nil && now.Before(m.Exit.At.Add(pause)):
			p.wake = m.Exit.At.Add(pause).Sub(now)
		default:
			substitute(&next, m, m.Usable)
			p.resize, p.commit, p.usage = &next, true, true
			p.tell(true, "SpareLost", "lost-"+string(m.Name), fault.T("The spare %s-%d ended; another is looked for. The training is not touched.", "备用副本 %s-%d 已结束，正在安排新的备用副本；训练不受影响。", m.Role, m.Index))
		}
	}
}

// lossAgain is a copy to add to.
func lossAgain(old *api.Loss) *api.Loss {
	out := &api.Loss{Roles: map[string]int{}}
	if old != nil {
		out.Until, out.Avoid, out.Around, out.Of = old.Until, slices.Clone(old.Avoid), old.Around, old.Of
		maps.Copy(out.Roles, old.Roles)
	}
	return out
}

// The first spare that ends is replaced at once, each further one after twice the time.
const (
	spareFirst = time.Second
	spareMost  = 10 * time.Minute
)

// spareAgain is how long after its end a spare is replaced, by how many replicas came after the first ones.
func spareAgain(r *api.RoleAssignment, placed int) time.Duration {
	n := r.Unused() - placed
	if n <= 0 {
		return 0
	}
	return min(spareFirst<<min(n-1, 20), spareMost)
}

// spareStatus is what people see of the spares.
func spareStatus(spares gang.Members) []api.SpareStatus {
	var out []api.SpareStatus
	for i := range spares {
		m := &spares[i]
		state := api.SpareStarting
		switch {
		case m.Leaving:
			state = api.SpareLeaving
		case m.Ready() && m.Said.Warm:
			state = api.SpareWarm
		case m.Ready():
			state = api.SpareReady
		}
		out = append(out, api.SpareStatus{Index: m.Index, Node: m.Node, State: state})
	}
	return out
}
