package deal

import (
	"cmp"
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
)

// Share is what a zone may have of a gang, and what it gets.
type Share struct {
	Zone  int // whose it is: the caller's number
	Span  where.Span
	Room  int // for such replicas, whatever the gang asks for
	Rank  int // the lower the more preferred
	Ill   bool
	Count int // as it was dealt

	step int
}

// Less lets a share that turned out too large have less, each time by more; false: it must have so many.
func (x *Share) Less() bool {
	x.step = max(1, 2*x.step)
	x.Span.Most = max(x.Span.Least, x.Count-x.step)
	return x.Count > x.Span.Least
}

// Shares divide a gang. Each has its least. The rest goes to the preferred first, each as much as it takes, or, even, one by
// one to the one with most room left.
type Shares struct {
	List []Share // in the order in which replicas are dealt
	Even bool
	Rank []int // of List, the preferred first
}

func newShares(list []Share, even bool) *Shares {
	d := &Shares{List: list, Even: even}
	for i := range list {
		d.Rank = append(d.Rank, i)
	}
	slices.SortStableFunc(d.Rank, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[a].Rank, list[b].Rank), cmp.Compare(list[b].Room, list[a].Room))
	})
	return d
}

// Split chooses of the zones of a split all that must have some, and of the others those that may stand beside them; false:
// two that must have some may not.
func Split(list []Share, even bool, apart func(a, b Share) bool) (*Shares, bool) {
	taken := make([]bool, len(list))
	for _, must := range []bool{true, false} {
		for i, x := range list {
			if x.Span.Least > 0 != must {
				continue
			}
			far := false
			for k, o := range list {
				far = far || taken[k] && apart(o, x)
			}
			if taken[i] = !far; far && must {
				return nil, false
			}
		}
	}
	return newShares(kept(list, taken), even), true
}

// Balance chooses zones with most room that may stand beside each other and take so many, healthy ones alone where they are enough.
func Balance(list []Share, total int, apart func(a, b Share) bool) (*Shares, bool) {
	roomy := make([]int, len(list))
	for i := range roomy {
		roomy[i] = i
	}
	slices.SortStableFunc(roomy, func(a, b int) int { return cmp.Compare(list[b].Room, list[a].Room) })
	for _, ill := range []bool{false, true} {
		taken, sum := make([]bool, len(list)), 0
		for _, i := range roomy {
			far := list[i].Ill && !ill
			for k, o := range list {
				far = far || taken[k] && apart(o, list[i])
			}
			if !far {
				taken[i] = true
				sum += list[i].Room
			}
		}
		if sum >= total {
			return newShares(kept(list, taken), true), true
		}
	}
	return nil, false
}

func kept(list []Share, taken []bool) (out []Share) {
	for i, x := range list {
		if taken[i] {
			out = append(out, x)
		}
	}
	return out
}

// Deal says how many each gets; false: they do not take all.
func (d *Shares) Deal(total int) bool {
	rest := total
	for i := range d.List {
		x := &d.List[i]
		if x.Count = x.Span.Least; x.most() < x.Count {
			return false
		}
		rest -= x.Count
	}
	for rest > 0 {
		best := -1
		for _, i := range d.Rank {
			x := &d.List[i]
			if x.Count < x.most() && (best < 0 || d.Even && x.Room-x.Count > d.List[best].Room-d.List[best].Count) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		x, n := &d.List[best], 1
		if !d.Even {
			n = min(rest, x.most()-x.Count)
		}
		x.Count += n
		rest -= n
	}
	return rest == 0
}

func (x *Share) most() int { return min(x.Span.Most, x.Room) }

// Lack says where a split finds too little room for so many replicas; nothing where room is not what it lacks.
func Lack(split where.Split, total int, room func(zone string) int) api.Text {
	all := 0
	for _, zone := range slices.Sorted(maps.Keys(split)) {
		span, has := split[zone], room(zone)
		if has < span.Least {
			return api.T("Zone %s is to have %d, and has room for %d.", "可用区 %s 至少需放 %d 个，目前可放 %d 个。", zone, span.Least, has)
		}
		all += min(has, span.Most)
	}
	if all < total {
		return api.T("Within its bounds these zones have room for %d of %d.", "在指定范围内这些可用区可放 %d 个，共需 %d 个。", all, total)
	}
	return api.Text{}
}

// Evenly divides replicas of a role over zones that together have room: those with little room first, each its part of what is left.
func Evenly(count int32, rooms []int64) []int32 {
	order := make([]int, len(rooms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rooms[a], rooms[b]) })
	out := make([]int32, len(rooms))
	left := int64(count)
	for n, i := range order {
		parts := int64(len(order) - n)
		take := min((left+parts-1)/parts, rooms[i])
		out[i] = int32(take)
		left -= take
	}
	return out
}

// Take takes the next count replicas from those that are left of each role, roles in order, and says how many of each.
func Take(left []int, count int) []int {
	out := make([]int, len(left))
	for i := range left {
		out[i] = min(left[i], count)
		left[i] -= out[i]
		count -= out[i]
	}
	return out
}
