package fair

import "slices"

// View is how a queue stands.
type View struct {
	Queue
	Children []string
	Usage    []int64 // with all below it
	// Share is the largest part it uses of any one resource, and Dominant which; -1 is none.
	Share    float64
	Dominant int
	// Fair is the part of the cluster it may count on while those that want something now do: its
	// parent's, divided by weight among siblings that use something or wait, and no less than its
	// guarantee.
	Fair float64
}

// Names are all queues that were set or used.
func (t *Tree) Names() []string { return sortedNames(t.byName)[1:] } // without the root, which sorts first

// View shows one queue; ok is false when it was neither set nor used. waits says whether anybody
// waits in a queue itself.
func (t *Tree) View(queue string, waits func(queue string) bool) (v View, ok bool) {
	n, ok := t.byName[queue]
	if !ok || n == t.root {
		return View{}, false
	}
	v = View{Queue: n.Queue, Usage: slices.Clone(n.usage), Fair: t.fairOf(n, waits)}
	v.Share, v.Dominant = t.dominant(n.usage)
	for _, child := range n.children {
		v.Children = append(v.Children, child.Name)
	}
	return v, true
}

// dominant is the largest part of any resource that amounts make up, and of which.
func (t *Tree) dominant(amounts []int64) (share float64, resource int) {
	resource = -1
	for i, all := range t.total {
		if x := get(amounts, i); all > 0 && x > 0 && float64(x)/float64(all) > share {
			share, resource = float64(x)/float64(all), i
		}
	}
	return share, resource
}

func (t *Tree) fairOf(n *node, waits func(string) bool) float64 {
	if n.parent == nil {
		return 1
	}
	sum := n.Weight
	for _, other := range n.parent.children {
		if other != n && wants(other, waits) {
			sum += other.Weight
		}
	}
	sure, _ := t.dominant(n.Guarantee)
	return max(t.fairOf(n.parent, waits)*float64(n.Weight)/float64(sum), sure)
}

// wants says that something of a queue or below it runs or waits.
func wants(n *node, waits func(string) bool) bool {
	return slices.ContainsFunc(n.usage, func(x int64) bool { return x > 0 }) || waits(n.Name) ||
		slices.ContainsFunc(n.children, func(child *node) bool { return wants(child, waits) })
}
