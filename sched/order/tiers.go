package order

import (
	"cmp"
	"iter"
	"slices"
)

// Tiered is what Tiers hold: it keeps where it lies.
type Tiered interface{ Lies() *int }

// Tiers keep many apart by their priority, so that those below one are found without a look at the others. The zero
// value is empty.
type Tiers[T Tiered] struct{ list []tier[T] }

type tier[T Tiered] struct {
	priority int
	items    []T
}

func (t *Tiers[T]) find(priority int) (at int, ok bool) {
	return slices.BinarySearchFunc(t.list, priority, func(x tier[T], p int) int { return cmp.Compare(x.priority, p) })
}

// Put puts one in.
func (t *Tiers[T]) Put(x T, priority int) {
	at, ok := t.find(priority)
	if !ok {
		t.list = slices.Insert(t.list, at, tier[T]{priority: priority})
	}
	in := &t.list[at]
	*x.Lies() = len(in.items)
	in.items = append(in.items, x)
}

// Take takes one out that lies there.
func (t *Tiers[T]) Take(x T, priority int) {
	at, _ := t.find(priority)
	in := &t.list[at]
	k, last := *x.Lies(), len(in.items)-1
	in.items[k] = in.items[last]
	*in.items[k].Lies() = k
	var none T
	in.items[last] = none
	if in.items = in.items[:last]; last == 0 {
		t.list = slices.Delete(t.list, at, at+1)
	}
}

// UpTo are those of at most this priority, the lowest first.
func (t *Tiers[T]) UpTo(priority int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range t.list {
			if t.list[i].priority > priority {
				return
			}
			for _, x := range t.list[i].items {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// Count says how many those are.
func (t *Tiers[T]) Count(priority int) (n int) {
	for i := range t.list {
		if t.list[i].priority <= priority {
			n += len(t.list[i].items)
		}
	}
	return n
}
