package fair

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Queue is the configuration of one queue.
type Queue struct {
	Name   string
	Parent string // "": a top-level queue
	Weight int64  // 0 is 1
	// Guarantee is what the queue can always get back; nil is nothing of its own. Guarantees of
	// children come out of their parent's, if it declares one.
	Guarantee []int64
	// Limit is never exceeded, the children's use included; nil, and entries below 0, are no limit.
	Limit  []int64
	Paused bool
}

// Tree is the queues and what they use. Not safe for concurrent use: it has one owner.
type Tree struct {
	root     *node
	byName   map[string]*node
	total    []int64
	halfLife time.Duration
}

type node struct {
	Queue
	parent   *node
	children []*node // by name
	set      bool    // configured, not only used
	usage    []int64
	coming   []int64   // will be charged when others have gone
	going    []int64   // charged, and asked to go
	recent   []float64 // fading average of usage
	at       time.Time // when recent was brought up to date
	ready    int       // what could be served below here
}

// New is an empty tree. A queue that was never set has weight 1 and neither guarantee nor limit. A
// half-life of 0 forgets at once: only what runs now counts.
func New(halfLife time.Duration) *Tree {
	t := &Tree{halfLife: halfLife}
	t.root = &node{}
	t.byName = map[string]*node{"": t.root}
	return t
}

// SetTotal says how much there is; shares are fractions of it.
func (t *Tree) SetTotal(total []int64) { t.total = slices.Clone(total) }

// Set replaces the whole configuration, or refuses it and changes nothing. What is in use stays
// charged: a queue that is gone but still used goes on as one that was never set. Guarantees are not
// held against what there is: nodes come and go.
func (t *Tree) Set(queues []Queue) error {
	if err := Check(queues, nil); err != nil {
		return err
	}
	old := t.byName
	t.root = &node{Queue: t.root.Queue}
	t.byName = map[string]*node{"": t.root}
	for _, q := range queues {
		q.Weight = max(q.Weight, 1)
		q.Guarantee, q.Limit = slices.Clone(q.Guarantee), slices.Clone(q.Limit)
		t.byName[q.Name] = &node{Queue: q, set: true}
	}
	for _, name := range sortedNames(t.byName) {
		if n := t.byName[name]; n != t.root {
			n.parent = t.byName[n.Parent]
			n.parent.children = append(n.parent.children, n)
		}
	}
	for _, name := range sortedNames(old) {
		was := old[name]
		own := was.own()
		n := t.node(name)
		for up := n; up != nil; up = up.parent {
			up.usage, up.coming, up.going = add(up.usage, own.usage, +1), add(up.coming, own.coming, +1), add(up.going, own.going, +1)
			up.ready += own.ready
		}
		n.recent, n.at = was.recent, was.at
	}
	return nil
}

// own is what is noted for the queue itself, its children's left out.
func (n *node) own() node {
	own := node{usage: slices.Clone(n.usage), coming: slices.Clone(n.coming), going: slices.Clone(n.going), ready: n.ready}
	for _, child := range n.children {
		own.usage, own.coming, own.going = add(own.usage, child.usage, -1), add(own.coming, child.coming, -1), add(own.going, child.going, -1)
		own.ready -= child.ready
	}
	return own
}

// node finds a queue, or makes one below the root.
func (t *Tree) node(name string) *node {
	n, ok := t.byName[name]
	if !ok {
		n = &node{Queue: Queue{Name: name, Weight: 1}, parent: t.root}
		t.byName[name] = n
		at, _ := slices.BinarySearchFunc(t.root.children, n, byName)
		t.root.children = slices.Insert(t.root.children, at, n)
	}
	return n
}

func byName(a, b *node) int { return cmp.Compare(a.Name, b.Name) }

// SetPaused stops or opens one queue.
func (t *Tree) SetPaused(queue string, paused bool) { t.node(queue).Paused = paused }

// Paused says whether a queue or one above it is paused, and which.
func (t *Tree) Paused(queue string) (string, bool) {
	for n := t.node(queue); n != nil; n = n.parent {
		if n.Paused {
			return n.Name, true
		}
	}
	return "", false
}

// Charge adds what a workload takes to its queue and all above it.
func (t *Tree) Charge(now time.Time, queue string, v []int64) { t.move(now, queue, v, +1) }

// Refund takes away what Charge added; the caller gives back exactly what it charged.
func (t *Tree) Refund(now time.Time, queue string, v []int64) { t.move(now, queue, v, -1) }

func (t *Tree) move(now time.Time, queue string, v []int64, sign int64) {
	for n := t.node(queue); n != nil; n = n.parent {
		n.fade(t.halfLife, now)
		n.usage = add(n.usage, v, sign)
	}
}

// Try moves usage as Charge and Refund do, without a time: for what is undone before anything else.
func (t *Tree) Try(queue string, v []int64, sign int64) {
	for n := t.node(queue); n != nil; n = n.parent {
		n.usage = add(n.usage, v, sign)
	}
}

// Coming notes (+1) what will be charged once others have gone, and takes the note back (-1):
// until then limits and guarantees count it as if it were.
func (t *Tree) Coming(queue string, v []int64, sign int64) {
	for n := t.node(queue); n != nil; n = n.parent {
		n.coming = add(n.coming, v, sign)
	}
}

// Going notes what was asked to go: limits still count it, nobody reclaims it twice.
func (t *Tree) Going(queue string, v []int64, sign int64) {
	for n := t.node(queue); n != nil; n = n.parent {
		n.going = add(n.going, v, sign)
	}
}

// fade brings the average up to now. A clock that goes back changes nothing.
func (n *node) fade(halfLife time.Duration, now time.Time) {
	dt := now.Sub(n.at)
	if halfLife <= 0 || dt <= 0 {
		return
	}
	keep := 0.0
	if !n.at.IsZero() {
		keep = math.Exp2(-float64(dt) / float64(halfLife))
	}
	for len(n.recent) < len(n.usage) {
		n.recent = append(n.recent, 0)
	}
	for i, u := range n.usage {
		n.recent[i] = n.recent[i]*keep + float64(u)*(1-keep)
	}
	n.at = now
}

// Usage is what a queue and those below it use now.
func (t *Tree) Usage(queue string) []int64 { return slices.Clone(t.node(queue).usage) }

// Room says whether v stays within every limit above it; if not, whose limit and of which resource.
func (t *Tree) Room(queue string, v []int64) (limited string, resource int, ok bool) {
	return t.room(queue, v, func(n *node, i int) int64 { return get(n.usage, i) + get(n.coming, i) })
}

// RoomEver leaves out what is used: v alone is held against the limits.
func (t *Tree) RoomEver(queue string, v []int64) (limited string, resource int, ok bool) {
	return t.room(queue, v, func(*node, int) int64 { return 0 })
}

// RoomNow leaves out what is coming: it is for those that were noted as coming themselves, whose
// turn does not depend on the others' victims having gone.
func (t *Tree) RoomNow(queue string, v []int64) bool {
	_, _, ok := t.room(queue, v, func(n *node, i int) int64 { return get(n.usage, i) })
	return ok
}

func (t *Tree) room(queue string, v []int64, used func(n *node, resource int) int64) (limited string, resource int, ok bool) {
	for n := t.node(queue); n != nil; n = n.parent {
		for i, want := range v {
			if want > 0 && i < len(n.Limit) && n.Limit[i] >= 0 && used(n, i)+want > n.Limit[i] {
				return n.Name, i, false
			}
		}
	}
	return "", 0, true
}

// Limit is what counts against a queue's limit of a resource, and that limit; below 0 is none.
func (t *Tree) Limit(queue string, resource int) (used, limit int64) {
	n := t.node(queue)
	limit = -1
	if resource < len(n.Limit) {
		limit = n.Limit[resource]
	}
	return get(n.usage, resource) + get(n.coming, resource), limit
}

// TryLimit sets one limit for a look at what would be; the result sets it back.
func (t *Tree) TryLimit(queue string, resource int, to int64) (back func()) {
	n := t.node(queue)
	if resource >= len(n.Limit) {
		return func() {}
	}
	was := n.Limit[resource]
	n.Limit[resource] = to
	return func() { n.Limit[resource] = was }
}

// Ready counts what could be served in a queue: +1 when something comes, -1 when it goes.
func (t *Tree) Ready(queue string, change int) {
	for n := t.node(queue); n != nil; n = n.parent {
		n.ready += change
	}
}

// Next is the queue to serve: down from the root, at each level to the child with the best claim.
func (t *Tree) Next(now time.Time) (string, bool) {
	n := t.root
	for {
		var best *node
		own := n.ready
		for _, child := range n.children {
			own -= child.ready
			if child.ready > 0 && !child.Paused && servable(child) && (best == nil || t.before(child, best, now)) {
				best = child
			}
		}
		if own > 0 { // its own before its children's: they share what it leaves
			return n.Name, true
		}
		if best == nil {
			return "", false
		}
		n = best
	}
}

// servable says that something below n is ready and not behind a paused queue.
func servable(n *node) bool {
	own := n.ready
	for _, child := range n.children {
		own -= child.ready
		if child.ready > 0 && !child.Paused && servable(child) {
			return true
		}
	}
	return own > 0
}

func (t *Tree) before(a, b *node, now time.Time) bool {
	if x, y := a.deficit(), b.deficit(); x != y {
		return x
	}
	if c := cmp.Compare(t.share(a, now)/float64(a.Weight), t.share(b, now)/float64(b.Weight)); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// Share is a queue's dominant share now plus that of its recent past, before its weight.
func (t *Tree) Share(now time.Time, queue string) float64 { return t.share(t.node(queue), now) }

func (t *Tree) share(n *node, now time.Time) float64 {
	n.fade(t.halfLife, now)
	var current, recent float64
	for i, all := range t.total {
		if all <= 0 {
			continue
		}
		current = max(current, float64(get(n.usage, i))/float64(all))
		if i < len(n.recent) {
			recent = max(recent, n.recent[i]/float64(all))
		}
	}
	return current + recent
}

// deficit says that a queue has a guarantee and uses less than it of everything guaranteed.
func (n *node) deficit() bool {
	declared := false
	for i, g := range n.Guarantee {
		if g > 0 {
			declared = true
			if get(n.usage, i) >= g {
				return false
			}
		}
	}
	return declared
}

// Reclaims says whether a workload of queue that needs v may take back from one that runs in the
// other queue: below the queue where the two paths part, the taker's side stays within its
// guarantee and the giver's side is above its own.
func (t *Tree) Reclaims(queue, other string, v []int64) bool {
	mine, theirs, ok := t.part(queue, other)
	return ok && mine.within(v) && theirs.over(v)
}

// Borrows says whether, seen from queue, the other's side uses so much more than its guarantee of what v
// asks for, and of what it gives, that it still has its guarantee after giving: only that may be taken
// by priority across queues, so that nobody is taken from who could then reclaim it. What is given
// counts even if v asks for none of it: a task of cores alone must not take devices that are guaranteed.
func (t *Tree) Borrows(queue, other string, v, gives []int64) bool {
	_, theirs, ok := t.part(queue, other)
	if !ok {
		return false
	}
	for i := range max(len(v), len(gives)) {
		if get(v, i) <= 0 && get(gives, i) <= 0 {
			continue
		}
		if g := get(theirs.Guarantee, i); g > 0 && get(theirs.usage, i)-get(theirs.going, i)-get(gives, i) < g {
			return false
		}
	}
	return true
}

// Guarded says that, seen from queue, something is guaranteed to the other's side: else Borrows is true of
// all that runs there.
func (t *Tree) Guarded(queue, other string) bool {
	_, theirs, ok := t.part(queue, other)
	return !ok || slices.ContainsFunc(theirs.Guarantee, func(g int64) bool { return g > 0 })
}

// part finds where two paths part: the two children of the lowest common ancestor. A queue above
// or equal to the other has none.
func (t *Tree) part(a, b string) (*node, *node, bool) {
	x, y := t.node(a), t.node(b)
	dx, dy := x.depth(), y.depth()
	if dx > dy {
		x = x.above(dx - dy)
	} else {
		y = y.above(dy - dx)
	}
	for x != y {
		if x.parent == y.parent {
			return x, y, true
		}
		x, y = x.parent, y.parent
	}
	return nil, nil, false
}

// depth is how many queues are above one.
func (n *node) depth() (d int) {
	for ; n.parent != nil; n = n.parent {
		d++
	}
	return d
}

// above is the queue so many above one.
func (n *node) above(count int) *node {
	for ; count > 0; count-- {
		n = n.parent
	}
	return n
}

// within says that the guarantee covers what is used and v, of everything it names; it must name
// something v asks for.
func (n *node) within(v []int64) bool {
	named := false
	for i, want := range v {
		if g := get(n.Guarantee, i); want > 0 && g > 0 {
			named = true
			if get(n.usage, i)+get(n.coming, i)+want > g {
				return false
			}
		}
	}
	return named
}

// over says that more is used than guaranteed of something v asks for; with nothing guaranteed of
// it, any use is more.
func (n *node) over(v []int64) bool {
	named := false
	for i, want := range v {
		if g := get(n.Guarantee, i); want > 0 && g > 0 {
			named = true
			if get(n.usage, i)-get(n.going, i) > g {
				return true
			}
		}
	}
	return !named
}

func get(v []int64, i int) int64 {
	if i < len(v) {
		return v[i]
	}
	return 0
}

func add(to, v []int64, sign int64) []int64 {
	for len(to) < len(v) {
		to = append(to, 0)
	}
	for i, x := range v {
		to[i] += x * sign
	}
	return to
}

func sortedNames(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
