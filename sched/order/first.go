package order

import (
	"iter"
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
