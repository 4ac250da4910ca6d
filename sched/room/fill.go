package room

import (
	"cmp"

	"github.com/fermi-cluster/fermi/sched/domain"
)

// Place names a domain, or at level domain.Nodal a node.
type Place struct {
	Level int
	ID    int32
}

// Pick is a number of replicas on one node.
type Pick struct{ At, Count int32 }

// Fill divides replicas, for which there is room, over domains: if one part takes all that are left, the tightest such
// part gets them; else the roomiest part is filled up and the rest goes on. So as few parts as a
// greedy hand can manage are used at every level. bad says which zones are degraded: they come last.
func (ix *Index[K]) Fill(t *domain.Tree, bad func(zone int32) bool, domains []Place, count int32) []Pick {
	f := filler[K]{ix: ix, t: t}
	f.over(domains, bad, count)
	return f.picks
}

type filler[K comparable] struct {
	ix    *Index[K]
	t     *domain.Tree
	picks []Pick
}

func (f *filler[K]) over(domains []Place, bad func(zone int32) bool, left int32) {
	if len(domains) == 1 {
		f.fill(domains[0], left)
		return
	}
	parts := f.ix.Parts(len(domains))
	for _, d := range domains {
		f.add(parts, Part{Place: d, Bad: d.Level == domain.Zonal && bad(d.ID)})
	}
	f.share(parts, left)
}

// fill puts left replicas, which fit, into a domain.
func (f *filler[K]) fill(p Place, left int32) {
	if p.Level == domain.Nodal {
		f.picks = append(f.picks, Pick{p.ID, left})
		return
	}
	d := &f.t.Levels[p.Level][p.ID]
	if int64(left) == f.ix.Sum[p.Level][p.ID] { // all of it
		for at := d.Lo; at < d.Hi; at++ {
			if f.ix.Fits[at] > 0 {
				f.picks = append(f.picks, Pick{at, f.ix.Fits[at]})
			}
		}
		return
	}
	parts := f.ix.Parts(int(d.KidHi - d.KidLo))
	for id := d.KidLo; id < d.KidHi; id++ {
		f.add(parts, Part{Place: Place{p.Level - 1, id}})
	}
	f.share(parts, left)
}

func (f *filler[K]) add(to *Parts[K], p Part) {
	if p.Sum = f.ix.Room(p.Level, p.ID); p.Sum > 0 {
		to.List = append(to.List, p)
	}
}

// share takes parts from the roomiest down until one holds the rest.
func (f *filler[K]) share(parts *Parts[K], left int32) {
	parts.Order()
	for left > 0 {
		top := parts.List[0]
		if top.Sum >= int64(left) {
			f.fill(parts.Tightest(int64(left)).Place, left)
			return
		}
		f.fill(top.Place, int32(top.Sum))
		left -= int32(top.Sum)
		parts.Pop()
	}
}

// Part is a domain with its room.
type Part struct {
	Place
	Sum int64
	Bad bool // a degraded zone
}

// Parts is a heap with the first to be filled on top, once it is in Order.
type Parts[K comparable] struct {
	List []Part
	ix   *Index[K]
}

// Parts is an empty heap with room for some.
func (ix *Index[K]) Parts(most int) *Parts[K] { return &Parts[K]{make([]Part, 0, most), ix} }

// before: healthy first, then the roomier, then the node that failed less or packs better.
func (l *Parts[K]) before(p, q *Part) bool {
	if p.Bad != q.Bad {
		return q.Bad
	}
	return cmp.Or(cmp.Compare(q.Sum, p.Sum), l.quality(p, q)) < 0
}

// quality compares parts of equal room.
func (l *Parts[K]) quality(p, q *Part) int {
	if p.Level == domain.Nodal && p.ID != q.ID {
		if l.ix.Better(p.ID, q.ID, 1) {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.ID, q.ID)
}

// Tightest is the part with the least room that still holds left; the top does.
func (l *Parts[K]) Tightest(left int64) Part {
	best := &l.List[0]
	for i := range l.List {
		p := &l.List[i]
		if p.Sum < left || p.Bad != l.List[0].Bad {
			continue
		}
		if p.Sum < best.Sum || (p.Sum == best.Sum && l.quality(p, best) < 0) {
			best = p
		}
	}
	return *best
}

// Order makes a heap of what is in the list.
func (l *Parts[K]) Order() {
	for i := len(l.List)/2 - 1; i >= 0; i-- {
		l.down(i)
	}
}

// Pop takes the top away.
func (l *Parts[K]) Pop() {
	last := len(l.List) - 1
	l.List[0] = l.List[last]
	l.List = l.List[:last]
	l.down(0)
}

func (l *Parts[K]) down(i int) {
	for {
		kid := 2*i + 1
		if kid >= len(l.List) {
			return
		}
		if kid+1 < len(l.List) && l.before(&l.List[kid+1], &l.List[kid]) {
			kid++
		}
		if !l.before(&l.List[kid], &l.List[i]) {
			return
		}
		l.List[i], l.List[kid] = l.List[kid], l.List[i]
		i = kid
	}
}
