package order

import (
	"iter"
	"slices"
)

// Places keep many by the numbers of the places where they are, so that those at one are found without a look at the
// others. The zero value is empty.
type Places[T comparable] struct{ at map[uint32][]T }

// Put puts one in, at each of its places; what they are given with is not looked at.
func (p *Places[T]) Put(x T, at iter.Seq2[uint32, int]) {
	if p.at == nil {
		p.at = map[uint32][]T{}
	}
	for n := range at {
		p.at[n] = append(p.at[n], x)
	}
}

// Take takes one out that is at these places.
func (p *Places[T]) Take(x T, at iter.Seq2[uint32, int]) {
	for n := range at {
		all := p.at[n]
		last := len(all) - 1
		all[slices.Index(all, x)] = all[last]
		var none T
		all[last] = none
		if p.at[n] = all[:last]; last == 0 {
			delete(p.at, n)
		}
	}
}

// At are those at a place, in no order that means anything. One that came twice is there twice.
func (p *Places[T]) At(n uint32) []T { return p.at[n] }
