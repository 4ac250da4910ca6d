package order

import "container/heap"

// Heaped is what a Heap holds: it knows who goes first, and keeps where it lies, -1 when it does not.
type Heaped[T any] interface {
	Before(other T) bool
	Lies() *int
}

// Heap has the first of many on top. The zero value is empty.
type Heap[T Heaped[T]] struct{ items heaped[T] }

// Len counts.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top is the first; there must be one.
func (h *Heap[T]) Top() T { return h.items[0] }

// All are in no order; they are not to be changed.
func (h *Heap[T]) All() []T { return h.items }

// Push puts one in.
func (h *Heap[T]) Push(x T) { heap.Push(&h.items, x) }

// Remove takes one out that lies there.
func (h *Heap[T]) Remove(x T) { heap.Remove(&h.items, *x.Lies()) }

// Fix puts one where it belongs after it has changed.
func (h *Heap[T]) Fix(x T) { heap.Fix(&h.items, *x.Lies()) }

type heaped[T Heaped[T]] []T

func (h heaped[T]) Len() int           { return len(h) }
func (h heaped[T]) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h heaped[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Lies(), *h[j].Lies() = i, j
}
func (h *heaped[T]) Push(x any) {
	item := x.(T)
	*item.Lies() = len(*h)
	*h = append(*h, item)
}
func (h *heaped[T]) Pop() any {
	old := *h
	last := old[len(old)-1]
	var none T
	old[len(old)-1] = none
	*h = old[:len(old)-1]
	*last.Lies() = -1
	return last
}
