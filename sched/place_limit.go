package sched

import (
	"cmp"
	"slices"

	"github.com/fermi-cluster/fermi/sched/room"
)

// rackID names a rack: in some zones they are the small domains, in others the large ones.
type rackID struct {
	level int
	id    int32
}

func (t *tree) rackOf(at int32) rackID {
	level, id := t.Rack(at)
	return rackID{level, id}
}

// limits is how many more replicas may go where, beyond what the nodes take, while one role is
// being divided.
type limits struct {
	s     *search
	rack  map[rackID]int
	hosts map[*host]int
}

func (s *search) limits() *limits {
	return &limits{s, map[rackID]int{}, map[*host]int{}}
}

// left bounds room, which is a node's.
func (l *limits) left(at int32, room int64) int64 {
	if most := l.s.w.Topology.MaxPerRack; most > 0 {
		r := l.s.t.rackOf(at)
		room = min(room, int64(most-l.s.inRack[r]-l.rack[r]))
	}
	if h := l.s.t.nodes[at].host; h != nil {
		room = min(room, int64(h.Processes-h.used-l.hosts[h]))
	}
	return max(room, 0)
}

func (l *limits) use(at int32, count int) {
	if l.s.w.Topology.MaxPerRack > 0 {
		l.rack[l.s.t.rackOf(at)] += count
	}
	if h := l.s.t.nodes[at].host; h != nil {
		l.hosts[h] += count
	}
}

// limitedSum is how many replicas a domain takes when racks and hosts bound them. Where both do at
// once it may say too many; the attempt then finds out.
func (s *search) limitedSum(ix *index, p room.Place) int64 {
	lo, hi := s.t.nodesOf(p)
	byRack, byHost := int64(0), int64(0)
	var inHost map[*host]int64
	for at := lo; at < hi; {
		rack, sum := s.t.rackOf(at), int64(0)
		for ; at < hi && s.t.rackOf(at) == rack; at++ {
			fits := int64(ix.Fits[at])
			sum += fits
			if h := s.t.nodes[at].host; h != nil && fits > 0 {
				if inHost == nil {
					inHost = map[*host]int64{}
				}
				inHost[h] += fits
			} else {
				byHost += fits
			}
		}
		if most := s.w.Topology.MaxPerRack; most > 0 {
			sum = min(sum, max(int64(most-s.inRack[rack]), 0))
		}
		byRack += sum
	}
	for h, sum := range inHost {
		byHost += min(sum, max(int64(h.Processes-h.used), 0))
	}
	return min(byRack, byHost)
}

// flat divides a role over all nodes of the domains under limits: the roomiest first until one
// holds the rest.
func (s *search) flat(w *want, domains []room.Place) ([]room.Pick, bool) {
	list := w.ix.Parts(0)
	l := s.limits()
	for _, d := range domains {
		bad := d.Level == zonal && s.t.zones[d.ID].Degraded
		lo, hi := s.t.nodesOf(d)
		for at := lo; at < hi; at++ {
			if sum := l.left(at, int64(w.ix.Fits[at])); sum > 0 {
				list.List = append(list.List, room.Part{Place: room.Place{Level: nodal, ID: at}, Sum: sum, Bad: bad})
			}
		}
	}
	list.Order()
	var picks []room.Pick
	left := w.count
	for left > 0 && len(list.List) > 0 {
		top := &list.List[0]
		sum := l.left(top.ID, top.Sum)
		switch {
		case sum == 0:
			list.Pop()
		case sum >= int64(left):
			for i := range list.List {
				list.List[i].Sum = l.left(list.List[i].ID, list.List[i].Sum)
			}
			return append(picks, room.Pick{At: list.Tightest(int64(left)).ID, Count: left}), true
		default:
			picks = append(picks, room.Pick{At: top.ID, Count: int32(sum)})
			l.use(top.ID, int(sum))
			left -= int32(sum)
			list.Pop()
		}
	}
	return nil, false
}

// spreadWithin tries the zones one by one; first the one where the fullest rack gets the least.
func (s *search) spreadWithin(zones []*zone) bool {
	type candidate struct {
		z    *zone
		most int64
		sum  int64
	}
	var list []candidate
	for _, z := range zones {
		if z.at >= 0 && s.enough([]*zone{z}) {
			w := &s.wants[0]
			list = append(list, candidate{z, s.evenest(w, z), w.ix.Sum[zonal][z.at]})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(b.sum, a.sum))
	})
	for _, c := range list {
		if s.into([]room.Place{{Level: zonal, ID: int32(c.z.at)}}) {
			return true
		}
	}
	return false
}

// evenest is the fewest replicas a rack of the zone can be bounded to with all of a role placed,
// which it has room for.
func (s *search) evenest(w *want, z *zone) int64 {
	level := s.t.RackLevel(z.at)
	lo, hi := s.t.inside(level, z)
	low, high := int64(1), int64(w.count)
	for low < high {
		mid := (low + high) / 2
		sum := int64(0)
		for id := lo; id < hi; id++ {
			sum += min(w.ix.Sum[level][id], mid)
		}
		if sum >= int64(w.count) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// spreadRack is one rack while a role is spread.
type spreadRack struct {
	id     rackID
	lo, hi int32
	used   int   // replicas of the gang
	left   int64 // room
}

// spread deals the replicas out one by one: to the rack with the fewest, there to the node with
// the fewest.
func (s *search) spread(w *want, domains []room.Place) ([]room.Pick, bool) {
	racks := s.racksOf(w, domains)
	l := s.limits()
	on := map[int32]int32{}
	var order []int32
	for left := w.count; left > 0; {
		rack := fewest(racks)
		if rack == nil {
			return nil, false
		}
		at := s.emptiest(w, l, rack, on)
		if at < 0 {
			rack.left = 0
			continue
		}
		if on[at] == 0 {
			order = append(order, at)
		}
		on[at]++
		l.use(at, 1)
		rack.used++
		rack.left--
		left--
	}
	picks := make([]room.Pick, 0, len(order))
	for _, at := range order {
		picks = append(picks, room.Pick{At: at, Count: on[at]})
	}
	return picks, true
}

func (s *search) racksOf(w *want, domains []room.Place) []spreadRack {
	var racks []spreadRack
	for _, d := range domains {
		lo, hi := s.t.nodesOf(d)
		for at := lo; at < hi; {
			id := s.t.rackOf(at)
			r := spreadRack{id: id, lo: at, used: s.inRack[id]}
			for ; at < hi && s.t.rackOf(at) == id; at++ {
				r.left += int64(w.ix.Fits[at])
			}
			r.hi = at
			racks = append(racks, r)
		}
	}
	return racks
}

func fewest(racks []spreadRack) *spreadRack {
	var best *spreadRack
	for i := range racks {
		r := &racks[i]
		if r.left > 0 && (best == nil || r.used < best.used || (r.used == best.used && r.left > best.left)) {
			best = r
		}
	}
	return best
}

// emptiest is the node of a rack with the fewest replicas of the role that takes one more.
func (s *search) emptiest(w *want, l *limits, rack *spreadRack, on map[int32]int32) int32 {
	best := int32(-1)
	for at := rack.lo; at < rack.hi; at++ {
		if l.left(at, int64(w.ix.Fits[at]-on[at])) == 0 {
			continue
		}
		if best < 0 || on[at] < on[best] || (on[at] == on[best] && w.ix.Better(at, best, 1)) {
			best = at
		}
	}
	return best
}
