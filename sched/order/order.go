package order

import (
	"cmp"
	"container/heap"
	"math/bits"
)

// Rank is where somebody stands; the smaller goes first.
type Rank struct {
	Priority int  // the higher goes first
	First    bool // it had a place and was sent away from it
	Overdue  bool
	Level    int    // not looked at among the overdue
	Turn     int    // likewise
	Age      string // sorts by age
}

// Compare is negative when a goes before b.
func (a Rank) Compare(b Rank) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	if a.First != b.First {
		if a.First {
			return -1
		}
		return 1
	}
	if a.Overdue != b.Overdue {
		if a.Overdue {
			return -1
		}
		return 1
	}
	if !a.Overdue {
		if c := cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Turn, b.Turn)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Age, b.Age)
}

// Level is the size of what is left to do, in steps of two.
func Level(deviceSeconds int64) int { return bits.Len64(uint64(max(deviceSeconds, 1))) }

// Ranked is what a Shelf holds. Where is the place for the shelf's notes.
type Ranked interface {
	Rank() Rank
	Where() *Spot
}

// Spot is where something lies on its shelf.
type Spot struct {
	at   int
	side int8
	lies bool
}

// Shelf keeps who is worth trying apart from who was refused, each in order.
type Shelf[T Ranked] struct {
	piles [2]pile[T]
	ready int8 // which pile is worth trying
}

// Ready counts who is worth trying.
func (s *Shelf[T]) Ready() int { return len(s.piles[s.ready]) }

// Parked counts who was refused.
func (s *Shelf[T]) Parked() int { return len(s.piles[1-s.ready]) }

// IsReady says whether x is worth trying.
func (s *Shelf[T]) IsReady(x T) bool {
	spot := x.Where()
	return spot.lies && spot.side == s.ready
}

// Put makes x ready, wherever it was.
func (s *Shelf[T]) Put(x T) { s.move(x, s.ready) }

// Park lays x aside.
func (s *Shelf[T]) Park(x T) { s.move(x, 1-s.ready) }

func (s *Shelf[T]) move(x T, side int8) {
	s.Drop(x)
	spot := x.Where()
	spot.lies, spot.side = true, side
	heap.Push(&s.piles[side], x)
}

// Drop takes x off the shelf; it need not lie there.
func (s *Shelf[T]) Drop(x T) {
	if spot := x.Where(); spot.lies {
		heap.Remove(&s.piles[spot.side], spot.at)
		spot.lies = false
	}
}

// Fix puts x where it belongs after its rank changed.
func (s *Shelf[T]) Fix(x T) {
	if spot := x.Where(); spot.lies {
		heap.Fix(&s.piles[spot.side], spot.at)
	}
}

// Best is the first who is ready.
func (s *Shelf[T]) Best() (x T, ok bool) {
	if s.Ready() == 0 {
		return x, false
	}
	return s.piles[s.ready][0], true
}

// First is the first of all, ready or not.
func (s *Shelf[T]) First() (x T, ok bool) {
	for _, p := range s.piles {
		if len(p) > 0 && (!ok || p[0].Rank().Compare(x.Rank()) < 0) {
			x, ok = p[0], true
		}
	}
	return x, ok
}

// Unpark makes all ready. It moves the smaller pile onto the larger, so that a long pile of the
// refused costs nothing when little was tried in between.
func (s *Shelf[T]) Unpark() {
	from := 1 - s.ready
	if len(s.piles[from]) > len(s.piles[s.ready]) {
		from = s.ready
	}
	to := 1 - from
	for _, x := range s.piles[from] {
		x.Where().side = to
		heap.Push(&s.piles[to], x)
	}
	clear(s.piles[from])
	s.piles[from] = s.piles[from][:0]
	s.ready = to
}

type pile[T Ranked] []T

func (p pile[T]) Len() int           { return len(p) }
func (p pile[T]) Less(i, j int) bool { return p[i].Rank().Compare(p[j].Rank()) < 0 }
func (p pile[T]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].Where().at, p[j].Where().at = i, j
}
func (p *pile[T]) Push(x any) {
	item := x.(T)
	item.Where().at = len(*p)
	*p = append(*p, item)
}
func (p *pile[T]) Pop() any {
	old := *p
	last := old[len(old)-1]
	var none T
	old[len(old)-1] = none
	*p = old[:len(old)-1]
	return last
}
