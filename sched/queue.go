package sched

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Queues holds who waits. Not safe for concurrent use: it has one owner.
type Queues struct {
	paused  map[string]bool
	waiting map[string]*entry
	classes map[string]*class
	perName map[string]int // waiting by queue
}

// class is all waiting workloads of one queue, priority and shape, oldest first. If the head
// does not fit, none of the others does.
type class struct {
	key      string
	queue    string
	priority int
	shape    string
	entries  entryHeap
	// triedAt is the cluster's freed count when the head was last refused; 0: never.
	triedAt uint64
}

type entry struct {
	w     *Workload
	class *class
	gone  bool // left the queue; dropped when it reaches the top
}

// NewQueues is an empty one. A queue that was never set is open.
func NewQueues() *Queues {
	return &Queues{paused: map[string]bool{}, waiting: map[string]*entry{}, classes: map[string]*class{}, perName: map[string]int{}}
}

// SetPaused stops or opens a queue.
func (q *Queues) SetPaused(queue string, paused bool) { q.paused[queue] = paused }

// Add lets a workload wait; one that waits already is replaced.
func (q *Queues) Add(w *Workload) {
	q.Remove(w.ID)
	key := fmt.Sprintf("%s|%d|%s", w.Queue, w.Priority, w.shape())
	c, ok := q.classes[key]
	if !ok {
		c = &class{key: key, queue: w.Queue, priority: w.Priority, shape: w.shape()}
		q.classes[key] = c
	}
	e := &entry{w: w, class: c}
	q.waiting[w.ID] = e
	q.perName[w.Queue]++
	heap.Push(&c.entries, e)
}

// Remove takes a workload out; unknown is fine.
func (q *Queues) Remove(id string) {
	e, ok := q.waiting[id]
	if !ok {
		return
	}
	delete(q.waiting, id)
	q.perName[e.w.Queue]--
	e.gone = true
	if e.class.head() == nil {
		delete(q.classes, e.class.key)
	}
}

// Len counts who waits.
func (q *Queues) Len() int { return len(q.waiting) }

// Waiting counts who waits in one queue.
func (q *Queues) Waiting(queue string) int { return q.perName[queue] }

// Get finds a waiting workload.
func (q *Queues) Get(id string) (*Workload, bool) {
	e, ok := q.waiting[id]
	if !ok {
		return nil, false
	}
	return e.w, true
}

// candidates are the classes worth trying, by priority and age of their heads.
func (q *Queues) candidates(freed uint64) []*class {
	var out []*class
	for _, c := range q.classes {
		if !q.paused[c.queue] && (c.triedAt == 0 || c.triedAt < freed) && c.head() != nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, before)
	return out
}

func before(a, b *class) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.head().ID, b.head().ID))
}

// head is the oldest who still waits, nil when none does.
func (c *class) head() *Workload {
	for len(c.entries) > 0 {
		if !c.entries[0].gone {
			return c.entries[0].w
		}
		heap.Pop(&c.entries)
	}
	return nil
}

type entryHeap []*entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return h[i].w.ID < h[j].w.ID }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entryHeap) Push(x any)        { *h = append(*h, x.(*entry)) }
func (h *entryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
