package order

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// First are the least of many, in order, with one look at each.
func First[T any](all iter.Seq[T], most int, compare func(a, b T) int) []T {
	var out []T
	for x := range all {
		if len(out) == most && (most == 0 || compare(x, out[most-1]) >= 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, x, compare)
		out = slices.Insert(out, at, x)
		out = out[:min(len(out), most)]
	}
	return out
}

// sampled is of how many one is looked at for a guess at the bound of the least.
const sampled = 16

// Least are at most so many of the least, in order: a guess keeps it from sorting the others. It changes all.
func Least[T any](all []T, most int, compare func(a, b T) int) []T {
	if len(all) > 4*most && most >= sampled {
		sample := make([]T, 0, len(all)/sampled+1)
		for i := 0; i < len(all); i += sampled {
			sample = append(sample, all[i])
		}
		slices.SortFunc(sample, compare)
		bound := sample[2*most/sampled]
		at := 0 // those up to the bound come first
		for i := range all {
			if compare(all[i], bound) <= 0 {
				all[at], all[i] = all[i], all[at]
				at++
			}
		}
		if at >= most {
			all = all[:at]
		}
	}
	slices.SortFunc(all, compare)
	return all[:min(len(all), most)]
}

// Cheaper are the sets of things with these costs that cost less than a bound, or as much and are fewer, as masks and the
// cheapest first.
func Cheaper(costs []int64, bound int64, count int) []uint {
	type option struct {
		mask  uint
		cost  int64
		count int
	}
	var options []option
	for mask := uint(1); mask < 1<<len(costs); mask++ {
		o := option{mask: mask, count: bits.OnesCount(mask)}
		for m := mask; m != 0; m &= m - 1 {
			o.cost += costs[bits.TrailingZeros(m)]
		}
		if cmp.Or(cmp.Compare(o.cost, bound), cmp.Compare(o.count, count)) < 0 {
			options = append(options, o)
		}
	}
	slices.SortFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.count, b.count), cmp.Compare(a.mask, b.mask))
	})
	masks := make([]uint, len(options))
	for i, o := range options {
		masks[i] = o.mask
	}
	return masks
}
