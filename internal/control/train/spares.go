package train

import (
	"cmp"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
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

// reserves says that the task has spares, or could have.
func (s *seen) reserves() bool { return s.task.Spec.Spares() > 0 }

// enlist tells members from spares.
func (s *seen) enlist() {
	r := s.task.Status.Rendezvous
	if r == nil {
		s.setAside(len(s.members) - s.task.Spec.Roles[0].Replicas)
		return
	}
	all := s.members
	s.members, s.seats, s.vacant = nil, map[int]int{}, slices.Sorted(slices.Values(r.Vacant))
	for _, m := range all {
		m.leaving = slices.Contains(r.Left, m.index)
		m.spare = m.leaving || m.index >= r.Below[m.role] || slices.Contains(r.Aside, m.index)
		if m.spare {
			s.inspect(&m)
			s.spares = append(s.spares, m)
		} else {
			s.members = append(s.members, m)
		}
	}
	for _, seat := range r.Stead {
		s.seats[seat.Index] = seat.Place
	}
	s.takePlaces()
}

// setAside has n of the replicas stand by: first those whose nodes take no work, then those with the fewest
// others beside them, so that a node is lost with members or with spares.
func (s *seen) setAside(n int) {
	if n <= 0 {
		return
	}
	beside := map[uint32]int{}
	for i := range s.members {
		beside[s.members[i].number]++
	}
	order := slices.Clone(s.members)
	slices.SortFunc(order, func(a, b member) int {
		if a.usable != b.usable && b.usable {
			return -1
		} else if a.usable != b.usable {
			return 1
		}
		return cmp.Or(cmp.Compare(beside[a.number], beside[b.number]), cmp.Compare(b.number, a.number), cmp.Compare(b.index, a.index))
	})
	aside := map[int]bool{}
	for _, m := range order[:n] {
		aside[m.index] = true
	}
	all := s.members
	s.members = nil
	for _, m := range all {
		if m.spare = aside[m.index]; m.spare {
			s.spares = append(s.spares, m)
		} else {
			s.members = append(s.members, m)
		}
	}
}

// ready says that a spare could start ranks at once.
func (m *member) ready() bool {
	return !m.leaving && !m.unchecked && !m.unfit && m.attached && !m.ended() && m.said.Port != 0 && m.said.Prepared
}

// takePlaces puts spares that are ready into vacant places. One on a node at fault is no help; one where two faults were
// is taken where there is no other.
func (s *seen) takePlaces() {
	fault := map[uint32]bool{}
	for i := range s.spares {
		fault[s.spares[i].number] = fault[s.spares[i].number] || s.spares[i].leaving
	}
	if len(s.vacant) > 0 {
		slices.SortStableFunc(s.spares, func(a, b member) int {
			return cmp.Compare(one(inside(&s.task.Status, &a)), one(inside(&s.task.Status, &b)))
		})
	}
	s.spares = slices.DeleteFunc(s.spares, func(m member) bool {
		if len(s.vacant) == 0 || !m.ready() || fault[m.number] {
			return false
		}
		m.spare = false
		s.seats[m.index], s.vacant = s.vacant[0], s.vacant[1:]
		s.members = append(s.members, m)
		return true
	})
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// seated is an order of members in which those that took another's place have it, and the others keep theirs.
func (s *seen) seated(order []int) (places []int) {
	places = make([]int, len(order)+len(s.vacant))
	const empty, vacant = -1, -2
	for i := range places {
		places[i] = empty
		if slices.Contains(s.vacant, i) {
			places[i] = vacant
		}
	}
	var rest []int
	for _, i := range order {
		if at, ok := s.seats[s.members[i].index]; ok && at < len(places) && places[at] == empty {
			places[at] = i
		} else {
			rest = append(rest, i)
		}
	}
	for at := range places {
		if places[at] == empty && len(rest) > 0 {
			places[at], rest = rest[0], rest[1:]
		}
	}
	return places
}

// reserve notes in a generation that is opened who is not of it.
func (s *seen) reserve(r *api.Rendezvous) {
	for i := range s.members {
		if place, ok := s.seats[s.members[i].index]; ok {
			r.Stead = append(r.Stead, api.Seat{Index: s.members[i].index, Place: place})
		}
	}
	for i := range s.spares {
		m := &s.spares[i]
		if m.index < r.Below[m.role] {
			r.Aside = append(r.Aside, m.index)
		}
		if m.leaving {
			r.Left = append(r.Left, m.index)
		}
	}
	for i := range s.joining {
		if s.joining[i].leaving {
			r.Left = append(r.Left, s.joining[i].index)
		}
	}
}

// vacate notes that a place of the open generation is empty.
func vacate(p *plan, place int, left ...int) {
	r := *p.status.Rendezvous
	r.Vacant, r.Left = append(slices.Clone(r.Vacant), place), append(slices.Clone(r.Left), left...)
	p.status.Rendezvous, p.commit = &r, true
}

// rollCall is the task with its spares among the members, as the preflight sees it. Those that ended are
// replaced and not waited for.
func (s *seen) rollCall() seen {
	out := *s
	if len(s.spares) == 0 {
		return out
	}
	out.members = slices.Concat(s.members, slices.DeleteFunc(slices.Clone(s.spares), func(m member) bool { return m.ended() }))
	out.spares = nil
	out.table()
	return out
}

// coming says that somebody may still take a place that is vacant.
func (s *seen) coming() bool {
	return slices.ContainsFunc(s.joining, func(m member) bool { return !m.leaving }) || slices.ContainsFunc(s.spares, func(m member) bool { return !m.ended() && !m.leaving })
}

// broken says that a place is vacant and another member is through: the ranks can't start again together, and
// only a new attempt helps.
func (s *seen) broken(p *plan) bool {
	return s.reserves() && p.status.Rendezvous != nil && p.status.Failure != nil && s.changed(p) && s.anyEnded()
}

// relieve has a spare take the place of a member whose node is at fault.
func (s *seen) relieve(p *plan, now time.Time, recent []time.Time, fail *api.ReplicaFailure) bool {
	if !s.reserves() || fail.Action != string(diagnose.Swap) || swapping(p) {
		return false
	}
	guilty := slices.IndexFunc(s.members, func(m member) bool { return string(m.name) == fail.Replica })
	if guilty < 0 || !slices.ContainsFunc(s.spares, func(m member) bool { return m.ready() && m.number != s.members[guilty].number }) {
		return false
	}
	vacate(p, s.members[guilty].place, s.members[guilty].index)
	p.status.Restarts = append(recent, now)
	p.tell(true, "NodeAtFault", "swap-"+itoa(p.status.Generation), nodeAtFault(fail))
	p.tellPlace(s.troubled(p, now))
	return true
}

// newIn says that a member was not of an earlier generation.
func newIn(was *api.Rendezvous, m *member) bool {
	return m.index >= was.Below[m.role] || slices.Contains(was.Aside, m.index)
}

// tookPlace tells that ranks go on in spares.
func (s *seen) tookPlace(was *api.Rendezvous, from int64) fault.Text {
	who := ""
	for i := range s.members {
		m := &s.members[i]
		if !newIn(was, m) {
			continue
		}
		if who != "" {
			who += ", "
		}
		who += m.role + "-" + itoa(m.index)
	}
	return fault.T("%s took the place of what was lost, from step %d on; another spare is looked for.", "备用副本 %s 已接替丢失的副本，从第 %d 步继续；正在安排新的备用副本。", who, from)
}

// keepSpares starts spares, ends those that were replaced, and gives up the slots of those that ended for
// others. None of it is heard by who trains.
func (s *seen) keepSpares(p *plan, now time.Time) {
	if !s.reserves() {
		return
	}
	next := s.placement.Spec
	next.Roles = slices.Clone(next.Roles)
	next.Lost = lossAgain(next.Lost)
	pause := spareAgain(&s.placement.Spec.Roles[0], s.task.Spec.Roles[0].Placed())
	for k := range s.spares {
		m := &s.spares[k]
		switch {
		case m.state == "":
			p.start = append(p.start, len(s.members)+len(s.joining)+k)
		case !m.ended():
			s.look(p, m, len(s.members)+len(s.joining)+k)
			if m.leaving && !s.changed(p) && !slices.ContainsFunc(s.members, func(m member) bool { return m.lags(&p.status) }) {
				p.stop = append(p.stop, m.name)
			}
		case m.leaving:
			m.usable = false
			next.Lost.Avoid = append(next.Lost.Avoid, m.number)
			s.substitute(&next, m)
			p.resize, p.commit, p.usage = &next, true, true
		case m.exit != nil && now.Before(m.exit.At.Add(pause)):
			p.wake = m.exit.At.Add(pause).Sub(now)
		default:
			s.substitute(&next, m)
			p.resize, p.commit, p.usage = &next, true, true
			p.tell(true, "SpareLost", "lost-"+string(m.name), fault.T("The spare %s-%d ended; another is looked for. The training is not touched.", "备用副本 %s-%d 已结束，正在安排新的备用副本；训练不受影响。", m.role, m.index))
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
func (s *seen) spareStatus() []api.SpareStatus {
	var out []api.SpareStatus
	for i := range s.spares {
		m := &s.spares[i]
		state := api.SpareStarting
		switch {
		case m.leaving:
			state = api.SpareLeaving
		case m.ready() && m.said.Warm:
			state = api.SpareWarm
		case m.ready():
			state = api.SpareReady
		}
		out = append(out, api.SpareStatus{Index: m.index, Node: m.node, State: state})
	}
	return out
}
