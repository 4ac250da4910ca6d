package sched

import (
	"math"
	"slices"

	"github.com/fermi-cluster/fermi/sched/pack"
)

// known is what was worked out about nodes and is still worth something: for each wish of a
// replica that was seen lately, an index. Nodes that changed are logged; an index reads the log
// when it is asked again, so a change costs nothing to the indexes nobody asks.
type known struct {
	stamp   uint64
	log     []int32 // nodes that changed, by place in the tree
	base    uint64  // number of log[0]
	indexes map[askKey]*index
	tick    uint64
	demand  *pack.Demand
	makes   []nodesMade
	seen    bool // something arrived: before that the demand makes nothing of nodes
}

const (
	// maxIndexed bounds the nodes in all indexes together, about 32 bytes each: 512 indexes of 12,500
	// nodes, or 3,200 of 2,000. There are at least minIndexes.
	maxIndexed = 512 * 12_500
	minIndexes = 64
	maxLog     = 1 << 16
)

func maxIndexes(nodes int) int { return max(maxIndexed/max(nodes, 1), minIndexes) }

// nodesMade is how many nodes of a make came, or went, since the demand was last told: it thinks for
// a while whenever it hears of some, and there is a time when all come at once.
type nodesMade struct {
	empty pack.Room
	count int
}

// maxMakes are kept for later.
const maxMakes = 256

func (k *known) made(n *node, count int) {
	for i := range k.makes {
		m := &k.makes[i]
		if m.empty.CPU == int64(n.CPU) && m.empty.Memory == int64(n.Memory) && slices.Equal(m.empty.Types, n.room.Types) {
			m.count += count
			return
		}
	}
	if len(k.makes) == maxMakes {
		k.tell()
	}
	k.makes = append(k.makes, nodesMade{pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types}, count})
}

func (k *known) tell() {
	for _, m := range k.makes {
		if m.count != 0 {
			k.demand.Have(m.empty, m.count)
		}
	}
	k.makes = k.makes[:0]
}

func newKnown() known { return known{indexes: map[askKey]*index{}, demand: pack.NewDemand()} }

func (k *known) forget() {
	clear(k.indexes)
	k.base += uint64(len(k.log))
	k.log = k.log[:0]
}

func (k *known) changed(at int32) {
	if len(k.log) >= maxLog {
		half := copy(k.log, k.log[maxLog/2:])
		k.base += uint64(len(k.log) - half)
		k.log = k.log[:half]
	}
	k.log = append(k.log, at)
}

// index answers, for one wish: how many such replicas a node or domain takes, and which node is
// the best one for some of them.
type index struct {
	key     askKey
	ask     pack.Ask
	tree    *tree
	cursor  uint64 // how much of the log was read
	version uint64 // of the demand by which nodes were scored
	used    uint64 // tick of the last question

	fits  []int32
	score []int64
	grade []uint8 // failures
	stamp []uint64
	sum   [levels][]int64
	// histogram counts nodes by fits, those beyond in the last.
	histogram [257]int32
	winners   map[int32]*winners
}

// index finds or makes the one for a wish, and brings it up to now.
func (c *Cluster) index(key askKey) *index {
	t := c.topology()
	k := &c.known
	if k.seen {
		k.tell()
	}
	ix := k.indexes[key]
	if ix == nil {
		ix = newIndex(t, key)
		for len(k.indexes) >= maxIndexes(len(t.nodes)) {
			k.dropOldest()
		}
		k.indexes[key] = ix
	}
	k.tick++
	ix.used = k.tick
	ix.catchUp(k)
	return ix
}

// dropOldest forgets the index that was asked least recently; no two ticks are equal.
func (k *known) dropOldest() {
	var oldest *index
	for _, ix := range k.indexes {
		if oldest == nil || ix.used < oldest.used {
			oldest = ix
		}
	}
	delete(k.indexes, oldest.key)
}

func newIndex(t *tree, key askKey) *index {
	n := len(t.nodes)
	ix := &index{
		key: key, ask: key.ask(), tree: t, version: math.MaxUint64,
		fits: make([]int32, n), score: make([]int64, n), grade: make([]uint8, n), stamp: make([]uint64, n),
		winners: map[int32]*winners{},
	}
	for level := range levels {
		ix.sum[level] = make([]int64, len(t.levels[level]))
	}
	ix.histogram[0] = int32(n)
	return ix
}

func (ix *index) catchUp(k *known) {
	end := k.base + uint64(len(k.log))
	switch v := k.demand.Version(); {
	case v != ix.version:
		ix.version = v
		ix.winners = map[int32]*winners{} // cheaper to make than to mend
		for at := range ix.fits {
			ix.look(k, int32(at))
		}
	case ix.cursor < k.base:
		for at, n := range ix.tree.nodes {
			if n.stamp != ix.stamp[at] {
				ix.look(k, int32(at))
			}
		}
	default:
		for _, at := range k.log[ix.cursor-k.base:] {
			if ix.tree.nodes[at].stamp != ix.stamp[at] {
				ix.look(k, at)
			}
		}
	}
	ix.cursor = end
}

// look works out one node anew.
func (ix *index) look(k *known, at int32) {
	n := ix.tree.nodes[at]
	fits, score := int32(0), int64(math.MinInt64)
	if !n.Closed && (!ix.key.strict || n.Failures == 0) {
		fits = fitsIn(&n.room, &ix.ask)
		fits = min(fits, n.disks(ix.key.disk))
		if fits > 0 {
			score, _, _ = k.demand.Score(&n.room, &ix.ask)
		}
	}
	if change := fits - ix.fits[at]; change != 0 {
		for level := range levels {
			ix.sum[level][ix.tree.of[level][at]] += int64(change)
		}
		ix.histogram[min(ix.fits[at], 256)]--
		ix.histogram[min(fits, 256)]++
	}
	ix.fits[at], ix.score[at], ix.stamp[at] = fits, score, n.stamp
	ix.grade[at] = uint8(min(max(n.Failures, 0), 255))
	for _, w := range ix.winners {
		w.update(ix, at)
	}
}

// room is how many replicas a node or domain takes.
func (ix *index) room(level int, id int32) int64 {
	if level == nodal {
		return int64(ix.fits[id])
	}
	return ix.sum[level][id]
}

// anyFits says whether some node takes so many.
func (ix *index) anyFits(count int32) bool {
	for f := min(count, 256); f < 257; f++ {
		if ix.histogram[f] > 0 {
			return true
		}
	}
	return false
}

// best is the node of a range that should take count replicas, -1 when none can.
func (ix *index) best(lo, hi, count int32) int32 {
	if !ix.anyFits(count) {
		return -1
	}
	w := ix.winners[count]
	if w == nil {
		if len(ix.winners) >= maxWinners {
			clear(ix.winners)
		}
		w = newWinners(ix, count)
		ix.winners[count] = w
	}
	return w.query(ix, lo, hi)
}

const maxWinners = 8

// better says that node a should rather take count replicas than b: it failed less, then one
// replica goes where it packs best, and several go where they leave the least room for more.
func (ix *index) better(a, b, count int32) bool {
	if ix.grade[a] != ix.grade[b] {
		return ix.grade[a] < ix.grade[b]
	}
	if count > 1 && ix.fits[a] != ix.fits[b] {
		return ix.fits[a] < ix.fits[b]
	}
	if ix.score[a] != ix.score[b] {
		return ix.score[a] > ix.score[b]
	}
	return a < b
}

// winners is a tournament among the nodes that take count replicas: the winner of any range in
// O(log n), and a node that changed plays O(log n) games again.
type winners struct {
	count int32
	size  int32   // leaves
	won   []int32 // won[1] is the final; won[size+i] is node i or -1
}

func newWinners(ix *index, count int32) *winners {
	w := &winners{count: count, size: 1}
	for w.size < int32(len(ix.fits)) {
		w.size *= 2
	}
	w.won = make([]int32, 2*w.size)
	for i := range w.size {
		w.won[w.size+i] = w.entry(ix, i)
	}
	for i := w.size - 1; i > 0; i-- {
		w.won[i] = w.game(ix, w.won[2*i], w.won[2*i+1])
	}
	return w
}

func (w *winners) entry(ix *index, at int32) int32 {
	if at < int32(len(ix.fits)) && ix.fits[at] >= w.count {
		return at
	}
	return -1
}

func (w *winners) game(ix *index, a, b int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0 || ix.better(a, b, w.count):
		return a
	}
	return b
}

func (w *winners) update(ix *index, at int32) {
	i := w.size + at
	w.won[i] = w.entry(ix, at)
	for i /= 2; i > 0; i /= 2 {
		w.won[i] = w.game(ix, w.won[2*i], w.won[2*i+1])
	}
}

func (w *winners) query(ix *index, lo, hi int32) int32 {
	best := int32(-1)
	for lo, hi = lo+w.size, hi+w.size; lo < hi; lo, hi = lo/2, hi/2 {
		if lo&1 == 1 {
			best = w.game(ix, best, w.won[lo])
			lo++
		}
		if hi&1 == 1 {
			hi--
			best = w.game(ix, best, w.won[hi])
		}
	}
	return best
}
