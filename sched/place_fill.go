package sched

import "cmp"

// filler divides replicas over domains: if one part takes all that are left, the tightest such
// part gets them; else the roomiest part is filled up and the rest goes on. So as few parts as a
// greedy hand can manage are used at every level.
type filler struct {
	ix    *index
	t     *tree
	picks []pick
}

// part is a domain with its room.
type part struct {
	place1
	sum int64
	bad bool // a degraded zone
}

func (f *filler) over(domains []place1, left int32) {
	if len(domains) == 1 {
		f.fill(domains[0], left)
		return
	}
	parts := make(parts, 0, len(domains))
	for _, d := range domains {
		bad := d.level == zonal && f.t.zones[d.id].Degraded
		parts = f.add(parts, part{place1: d, bad: bad})
	}
	f.share(parts, left)
}

// fill puts left replicas, which fit, into a domain.
func (f *filler) fill(p place1, left int32) {
	if p.level == nodal {
		f.picks = append(f.picks, pick{p.id, left})
		return
	}
	d := &f.t.Levels[p.level][p.id]
	if int64(left) == f.ix.Sum[p.level][p.id] { // all of it
		for at := d.Lo; at < d.Hi; at++ {
			if f.ix.Fits[at] > 0 {
				f.picks = append(f.picks, pick{at, f.ix.Fits[at]})
			}
		}
		return
	}
	parts := make(parts, 0, d.KidHi-d.KidLo)
	for id := d.KidLo; id < d.KidHi; id++ {
		parts = f.add(parts, part{place1: place1{p.level - 1, id}})
	}
	f.share(parts, left)
}

func (f *filler) add(list parts, p part) parts {
	if p.sum = f.ix.Room(p.level, p.id); p.sum > 0 {
		list = append(list, p)
	}
	return list
}

// share takes parts from the roomiest down until one holds the rest.
func (f *filler) share(list parts, left int32) {
	list.heapify(f.ix)
	for left > 0 {
		top := list[0]
		if top.sum >= int64(left) {
			f.fill(list.tightest(f.ix, int64(left)).place1, left)
			return
		}
		f.fill(top.place1, int32(top.sum))
		left -= int32(top.sum)
		list = list.pop(f.ix)
	}
}

// parts is a heap with the first to be filled on top.
type parts []part

// before: healthy first, then the roomier, then the node that failed less or packs better.
func (p *part) before(q *part, ix *index) bool {
	if p.bad != q.bad {
		return q.bad
	}
	return cmp.Or(cmp.Compare(q.sum, p.sum), p.quality(q, ix)) < 0
}

// quality compares parts of equal room.
func (p *part) quality(q *part, ix *index) int {
	if p.level == nodal && p.id != q.id {
		if ix.Better(p.id, q.id, 1) {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.id, q.id)
}

// tightest is the part with the least room that still holds left; the top does.
func (l parts) tightest(ix *index, left int64) part {
	best := &l[0]
	for i := range l {
		p := &l[i]
		if p.sum < left || p.bad != l[0].bad {
			continue
		}
		if p.sum < best.sum || (p.sum == best.sum && p.quality(best, ix) < 0) {
			best = p
		}
	}
	return *best
}

func (l parts) heapify(ix *index) {
	for i := len(l)/2 - 1; i >= 0; i-- {
		l.down(i, ix)
	}
}

func (l parts) pop(ix *index) parts {
	last := len(l) - 1
	l[0] = l[last]
	l = l[:last]
	l.down(0, ix)
	return l
}

func (l parts) down(i int, ix *index) {
	for {
		kid := 2*i + 1
		if kid >= len(l) {
			return
		}
		if kid+1 < len(l) && l[kid+1].before(&l[kid], ix) {
			kid++
		}
		if !l[kid].before(&l[i], ix) {
			return
		}
		l[i], l[kid] = l[kid], l[i]
		i = kid
	}
}
