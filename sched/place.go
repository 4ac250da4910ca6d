package sched

import (
	"cmp"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/sched/room"
)

// place looks for room for a whole gang. The cluster is as before on return.
//
// The simple story: for each level from a node up to a zone, of the domains that can take the
// whole gang the one with the least room is taken, so that the big holes stay whole; only if no
// zone can, the gang is cut over zones that are near enough to each other. Inside a domain the
// same rule is applied to its parts. Zones that have the data come before others, healthy before
// degraded, nodes that failed lately last; of several device types the first that works is used.
func place(c *Cluster, w *Workload) (Assignment, bool) {
	if len(w.Roles) == 0 {
		return nil, false
	}
	for i := range w.choices() {
		if c.hopeless(w, i) {
			continue
		}
		s := &search{c: c, t: c.topology(), w: w}
		restore := s.avoid()
		ok := s.begin(i) && s.run()
		restore()
		if ok {
			return s.finish(), true
		}
	}
	return nil, false
}

// search is one gang's way through the tree.
type search struct {
	c *Cluster
	t *tree
	w *Workload
	// wants are the roles that have replicas, the most demanding first.
	wants []want
	// limited: hosts or racks bound how many may go where, beyond what nodes take.
	limited bool
	inRack  map[rackID]int // replicas of this gang, when a rack is limited or they are spread
	slots   Assignment
	taken   []taken // on the cluster, to be undone
	// piecewise: the gang is placed in several calls of into, each of which must see the others.
	piecewise bool
}

type want struct {
	role  int
	count int32 // to be placed now
	key   room.Key
	ix    *index
}

type taken struct {
	slot  api.Slot
	role  int
	stamp uint64 // of the node before
}

// begin settles types; false when a role's type is on no node or its wish makes no sense.
func (s *search) begin(choice int) bool {
	w := s.w
	s.slots = make(Assignment, len(w.Roles))
	total := 0
	for i := range w.Roles {
		r := &w.Roles[i]
		key, ok := s.c.askKey(&r.Need, choice)
		if !ok || r.Replicas < 0 {
			return false
		}
		total += r.Replicas
		if r.Replicas > 0 {
			s.wants = append(s.wants, want{role: i, count: int32(r.Replicas), key: key})
		}
	}
	slices.SortStableFunc(s.wants, func(a, b want) int {
		return cmp.Or(
			cmp.Compare(int(b.key.Devices)*int(b.key.Share), int(a.key.Devices)*int(a.key.Share)),
			cmp.Compare(b.key.CPU, a.key.CPU), cmp.Compare(b.key.Memory, a.key.Memory))
	})
	s.limited = w.Topology.MaxPerRack > 0
	s.inRack = nil
	if s.limited || w.Topology.Spread {
		s.inRack = map[rackID]int{}
	}
	for _, h := range s.c.hosts {
		s.limited = s.limited || (h.nodes > 0 && h.Processes-h.used < total)
	}
	return true
}

// ask points the wants to their indexes, up to now.
func (s *search) ask(strict bool, rule spot.Rule) {
	for i := range s.wants {
		k := s.wants[i].key
		k.Strict, k.Spot = strict, rule
		s.wants[i].ix = s.c.index(k)
	}
}

func (s *search) run() bool {
	zones := allowed(s.c, s.w)
	s.ask(false, s.w.spot())
	if len(s.w.Split) > 0 {
		return newDivision(s, zones).split()
	}
	if !s.enough(zones) {
		return false
	}
	if s.w.Survive { // never in one zone
		return s.across(zones)
	}
	if s.w.Balance && newDivision(s, zones).balance() {
		return true
	}
	for _, group := range s.groups(zones) {
		if s.choosy(group) {
			return true
		}
	}
	return s.across(zones)
}

// choosy is within, on the nodes that the gang prefers and that did not fail lately first.
func (s *search) choosy(zones []*zone) bool {
	for _, rule := range s.w.spot().Tries() {
		if s.c.lemons > 0 {
			if s.ask(true, rule); s.within(zones) {
				return true
			}
		}
		if s.ask(false, rule); s.within(zones) {
			return true
		}
	}
	return false
}

// enough is the cheap way to say no: not even all zones together take each role.
func (s *search) enough(zones []*zone) bool {
	for i := range s.wants {
		sum := int64(0)
		for _, z := range zones {
			if z.at >= 0 {
				sum += s.most(&s.wants[i], z)
			}
		}
		if sum < int64(s.wants[i].count) {
			return false
		}
	}
	return true
}

// within tries to place the gang in one domain of these zones, the lowest level first.
func (s *search) within(zones []*zone) bool {
	if len(s.wants) == 0 {
		return true
	}
	if s.w.Topology.Spread {
		return s.spreadWithin(zones)
	}
	for level := nodal; level < levels; level++ {
		for _, id := range s.candidates(level, zones) {
			if s.into([]room.Place{{Level: level, ID: id}}) {
				return true
			}
		}
	}
	return false
}

// tries bounds how many domains of a level are tried for a gang of several roles, which may each
// fit alone but not together.
const tries = 32

// candidates are the domains of a level that each role fits, the tightest first.
func (s *search) candidates(level int, zones []*zone) []int32 {
	if level == nodal {
		if len(s.wants) == 1 && !s.limited {
			return s.bestNode(zones)
		}
		if slices.ContainsFunc(s.wants, func(w want) bool { return !w.ix.AnyFits(w.count) }) {
			return nil
		}
	}
	type candidate struct {
		id     int32
		sum    int64
		around int64 // the room of what it is part of: of two equal holes the one with less beside it is taken
	}
	var list []candidate
	one := len(s.wants) == 1 && !s.limited // whatever is counted can be placed
	for _, z := range zones {
		lo, hi := s.t.inside(level, z)
	next:
		for id := lo; id < hi; id++ {
			first := s.sum(0, level, id)
			if first < int64(s.wants[0].count) || (one && len(list) > 0 && first > list[0].sum) {
				continue
			}
			around := s.roomAround(level, id)
			if one && len(list) > 0 && first == list[0].sum && around >= list[0].around {
				continue
			}
			for i := 1; i < len(s.wants); i++ {
				if s.sum(i, level, id) < int64(s.wants[i].count) {
					continue next
				}
			}
			if one {
				list = list[:0]
			}
			list = append(list, candidate{id, first, around})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.sum, b.sum), cmp.Compare(a.around, b.around))
	})
	out := make([]int32, 0, min(len(list), tries))
	for _, c := range list[:min(len(list), tries)] {
		out = append(out, c.id)
	}
	return out
}

// bestNode asks the index.
func (s *search) bestNode(zones []*zone) []int32 {
	w := &s.wants[0]
	best := int32(-1)
	for _, z := range zones {
		if z.at < 0 {
			continue
		}
		d := s.t.Levels[zonal][z.at]
		if at := w.ix.Best(d.Lo, d.Hi, w.count); best < 0 || (at >= 0 && w.ix.Better(at, best, w.count)) {
			best = at
		}
	}
	if best < 0 {
		return nil
	}
	all := s.w.Roles[w.role].Need.Devices * int(w.count)
	whole := w.ix.Fits[best] == w.count && all > 0 && all == len(s.t.nodes[best].Devices)
	if whole {
		best = s.beside(zones, best)
	}
	rack := func(at int32) int64 { return w.ix.Sum[small][s.t.Of[small][at]] }
	return []int32{s.c.Caches.Most(s.w.Reads, best, func(number uint32) int32 {
		n := s.c.nodes[number]
		if n == nil || !slices.Contains(zones, s.c.zones[n.Zone]) || !w.ix.Equal(n.at, best) || whole && rack(n.at) != rack(best) {
			return -1
		}
		return n.at
	})}
}

// roomAround is how much room of the first role there is in the domain that a domain is part of.
func (s *search) roomAround(level int, id int32) int64 {
	if level+1 >= levels {
		return 0
	}
	at := id
	if level > nodal {
		at = s.t.Levels[level][id].Lo
	}
	return s.wants[0].ix.Sum[level+1][s.t.Of[level+1][at]]
}

// beside is for who takes all devices of a node: of the nodes as good as the best the one in the tightest rack, and of those the
// one in the tightest leaf, so that larger holes stay whole. It looks at every rack: not for the many who take a node's rest.
func (s *search) beside(zones []*zone, best int32) int32 {
	const rack, leaf = small, large
	w := &s.wants[0]
	ix := w.ix
	room := func(at int32) (int64, int64) { return ix.Sum[rack][s.t.Of[rack][at]], ix.Sum[leaf][s.t.Of[leaf][at]] }
	r, l := room(best)
	for _, z := range zones {
		lo, hi := s.t.inside(rack, z)
		for id := lo; id < hi; id++ {
			sum := ix.Sum[rack][id]
			if sum < int64(w.count) || sum > r {
				continue
			}
			d := &s.t.Levels[rack][id]
			around := ix.Sum[leaf][s.t.Of[leaf][d.Lo]]
			if sum == r && around >= l {
				continue
			}
			at := ix.Best(d.Lo, d.Hi, w.count)
			if at >= 0 && ix.Equal(at, best) {
				best, r, l = at, sum, around
			}
		}
	}
	return best
}

// inside is the range of domains of a level in a zone.
func (t *tree) inside(level int, z *zone) (lo, hi int32) {
	if z.at < 0 {
		return 0, 0
	}
	return t.Inside(level, z.at)
}

// nodesOf is the range of nodes of a domain.
func (t *tree) nodesOf(p room.Place) (lo, hi int32) { return t.Nodes(p.Level, p.ID) }

// sum is how many replicas of a role a domain takes.
func (s *search) sum(i, level int, id int32) int64 {
	ix := s.wants[i].ix
	sum := ix.Room(level, id)
	if s.limited && sum >= int64(s.wants[i].count) {
		return s.limitedSum(ix, room.Place{Level: level, ID: id})
	}
	return sum
}

// into places all roles into these domains, or nothing. A role for which the others left no room
// goes first in the next try.
func (s *search) into(domains []room.Place) bool {
	if len(s.wants) == 1 {
		_, ok := s.attempt(s.wants, domains)
		return ok
	}
	order := slices.Clone(s.wants)
	for range order {
		failed, ok := s.attempt(order, domains)
		if ok {
			return true
		}
		if failed == 0 {
			return false
		}
		first := order[failed]
		copy(order[1:], order[:failed])
		order[0] = first
	}
	return false
}

// attempt places the roles in this order; if not all, nothing, and it says which failed. With more
// than one role each is taken on the cluster, so that the next sees it.
func (s *search) attempt(order []want, domains []room.Place) (failed int, ok bool) {
	mark := len(s.taken)
	for i := range order {
		w := &order[i]
		if i > 0 {
			w.ix.CatchUp(s.c.known.demand.Version())
		}
		picks, ok := s.pick(w, domains)
		if !ok {
			s.undo(mark)
			for k := range order {
				order[k].ix.CatchUp(s.c.known.demand.Version())
			}
			return i, false
		}
		s.settle(w, picks, s.piecewise || len(order) > 1)
	}
	return 0, true
}

func (s *search) pick(w *want, domains []room.Place) ([]room.Pick, bool) {
	sum := int64(0)
	for _, d := range domains {
		sum += w.ix.Room(d.Level, d.ID)
	}
	if sum < int64(w.count) {
		return nil, false
	}
	switch {
	case s.w.Topology.Spread:
		return s.spread(w, domains)
	case s.limited:
		return s.flat(w, domains)
	}
	return w.ix.Fill(&s.t.Tree, func(zone int32) bool { return s.t.zones[zone].Degraded }, domains, w.count), true
}

// settle makes slots of picks, in topology order, so that neighbouring ranks are neighbours.
func (s *search) settle(w *want, picks []room.Pick, take bool) {
	slices.SortFunc(picks, func(a, b room.Pick) int { return cmp.Compare(a.At, b.At) })
	need := &s.w.Roles[w.role].Need
	s.slots[w.role] = slices.Grow(s.slots[w.role], int(w.count))
	for _, p := range picks {
		n := s.t.nodes[p.At]
		s.slots[w.role] = n.seat(s.slots[w.role], s.c.known.demand, &w.ix.Ask, int(p.Count))
		if s.inRack != nil {
			s.inRack[s.t.rackOf(p.At)] += int(p.Count)
		}
	}
	if !take {
		return
	}
	for _, slot := range s.slots[w.role][len(s.slots[w.role])-int(w.count):] {
		n := s.c.nodes[slot.Node]
		s.taken = append(s.taken, taken{slot, w.role, s.c.known.Stamp(n.at)})
		s.c.take(slot, need, +1)
	}
}

// undo gives back what was taken since mark. A node gets its old stamp back with its old state, so
// who had looked at it before need not look again.
func (s *search) undo(mark int) {
	for len(s.taken) > mark {
		last := s.taken[len(s.taken)-1]
		s.taken = s.taken[:len(s.taken)-1]
		s.c.take(last.slot, &s.w.Roles[last.role].Need, -1)
		n := s.c.nodes[last.slot.Node]
		s.c.known.Restamp(n.at, last.stamp)
		if s.inRack != nil {
			s.inRack[s.t.rackOf(n.at)]--
		}
		s.slots[last.role] = s.slots[last.role][:len(s.slots[last.role])-1]
	}
}

func (s *search) finish() Assignment {
	out := s.slots
	s.slots = slices.Clone(out) // undo shortens these
	s.undo(0)
	return out
}

// avoid closes the nodes the gang must not use; the result opens them again.
func (s *search) avoid() (restore func()) {
	s.c.topology()
	type was struct {
		n     *node
		stamp uint64
	}
	var closed []was
	shut := func(n *node) {
		if !n.Closed {
			closed = append(closed, was{n, s.c.known.Stamp(n.at)})
			n.Closed = true
			s.c.touch(n)
		}
	}
	for _, number := range s.w.Avoid {
		if n, ok := s.c.nodes[number]; ok {
			shut(n)
		}
	}
	if s.w.Only != "" {
		for _, z := range allowed(s.c, s.w) {
			for _, n := range z.nodes {
				if n.Name != s.w.Only {
					shut(n)
				}
			}
		}
	}
	return func() {
		for _, w := range closed {
			w.n.Closed = false
			s.c.touch(w.n)
			s.c.known.Restamp(w.n.at, w.stamp)
		}
	}
}
