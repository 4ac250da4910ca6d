package room

import (
	"math"

	"github.com/fermi-cluster/fermi/sched/order"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// Layout is the nodes in the order of the topology.
type Layout struct {
	// Of is, by level, the domain of each node; Domains is how many a level has.
	Of      [][]int32
	Domains []int
	// Room is what is left on a node.
	Room func(at int32) *pack.Room
}

// Space is the nodes, and what was worked out about them. Not safe for concurrent use: it has one owner.
type Space[K comparable] struct {
	Indexes map[K]*Index[K]
	// ask is what one replica of a wish takes. judge is how many of them a node takes, how good it is for
	// the first, and a grade by which nodes are compared before that, where less is better.
	ask   func(key *K) pack.Ask
	judge func(key *K, ask *pack.Ask, at int32) (fits int32, score int64, grade uint8)

	layout Layout
	gists  []gist
	stamp  uint64
	log    []int32 // nodes that changed
	base   uint64  // number of log[0]
	tick   uint64
	spare  *Index[K]
	look[K]
}

// look is one at what would be: the nodes that are changed for it, where the log and the ticks were when it began, and
// the indexes that were asked since. The others never hear of it.
type look[K comparable] struct {
	tried        []tried
	trying       int
	began, first uint64
	asked        []*Index[K]
}

// noScore is that of a node that takes none.
const noScore = int64(math.MinInt64)

const (
	// maxIndexed bounds the nodes in all indexes together, about 32 bytes each: 512 indexes of 12,500
	// nodes, or 3,200 of 2,000. There are at least minIndexes.
	maxIndexed = 512 * 12_500
	minIndexes = 64
	maxLog     = 1 << 16
)

// gist is what most wishes are refused by: the untouched devices of a node, of all types together, and
// what is left of the freest.
type gist struct {
	stamp  uint64
	whole  int16
	freest uint16
}

func (g *gist) refuses(a *pack.Ask) bool {
	return a.Devices > 0 && (g.freest < a.Share || a.Share == pack.Whole && int(g.whole) < a.Devices)
}

// tried is a node that is changed for a look at what would be, and its stamp before.
type tried struct {
	at    int32
	stamp uint64
}

// NewSpace is an empty one.
func NewSpace[K comparable](ask func(key *K) pack.Ask, judge func(key *K, ask *pack.Ask, at int32) (fits int32, score int64, grade uint8)) Space[K] {
	return Space[K]{Indexes: map[K]*Index[K]{}, ask: ask, judge: judge}
}

// Lay tells of the nodes, when they came, went or moved.
func (s *Space[K]) Lay(l Layout) {
	s.Forget()
	s.spare, s.layout = nil, l
	s.gists = make([]gist, len(l.Of[0]))
	for at := range s.gists {
		s.stamp++
		s.Restamp(int32(at), s.stamp)
	}
}

// Forget drops all that was worked out.
func (s *Space[K]) Forget() {
	clear(s.Indexes)
	s.base += uint64(len(s.log))
	s.log, s.asked = s.log[:0], nil
}

// Touch says that a node changed.
func (s *Space[K]) Touch(at int32) {
	if s.trying > 0 {
		s.tried = append(s.tried, tried{at, s.gists[at].stamp})
	}
	s.stamp++
	s.Restamp(at, s.stamp)
	if len(s.log) >= maxLog {
		half := copy(s.log, s.log[maxLog/2:])
		s.base += uint64(len(s.log) - half)
		s.log = s.log[:half]
	}
	s.log = append(s.log, at)
}

// Stamp of a node: with the same it is as it was.
func (s *Space[K]) Stamp(at int32) uint64 { return s.gists[at].stamp }

// Restamp gives a node that is as it was its old stamp back.
func (s *Space[K]) Restamp(at int32, stamp uint64) {
	g := gist{stamp: stamp}
	for _, free := range s.layout.Room(at).Free {
		g.freest = max(g.freest, free)
		if free == pack.Whole {
			g.whole++
		}
	}
	s.gists[at] = g
}

// Begin a look at what would be; End it, with what Begin said, when all is as it was.
func (s *Space[K]) Begin() (mark int) {
	if s.trying == 0 {
		s.began, s.first = s.base+uint64(len(s.log)), s.tick
	}
	s.trying++
	return len(s.tried)
}

// End gives nodes their old stamps back.
func (s *Space[K]) End(mark int) {
	for len(s.tried) > mark {
		last := s.tried[len(s.tried)-1]
		s.tried = s.tried[:len(s.tried)-1]
		s.Restamp(last.at, last.stamp)
	}
	if s.trying--; s.trying > 0 {
		return
	}
	if s.began >= s.base { // the log still has all of it
		for _, ix := range s.asked {
			ix.CatchUp(ix.version)
			ix.cursor = s.began
		}
		s.log = s.log[:s.began-s.base]
	}
	clear(s.asked)
	s.asked = s.asked[:0]
}

// Index finds or makes the one for a wish, and brings it up to now. Scores are of a version: with
// another one all are judged again.
func (s *Space[K]) Index(key K, version uint64) *Index[K] {
	ix := s.Indexes[key]
	if ix == nil {
		for len(s.Indexes) >= max(maxIndexed/max(len(s.gists), 1), minIndexes) {
			s.dropOldest()
		}
		ix = s.newIndex(key)
		s.Indexes[key] = ix
	}
	if s.trying > 0 && ix.used <= s.first {
		s.asked = append(s.asked, ix)
	}
	s.tick++
	ix.used = s.tick
	ix.CatchUp(version)
	return ix
}

// dropOldest forgets the index that was asked least recently; no two ticks are equal.
func (s *Space[K]) dropOldest() {
	var oldest *Index[K]
	for _, ix := range s.Indexes {
		if oldest == nil || ix.used < oldest.used {
			oldest = ix
		}
	}
	delete(s.Indexes, oldest.Key)
	s.spare = oldest
}

// newIndex makes one, out of the one that was dropped last where there is one.
func (s *Space[K]) newIndex(key K) *Index[K] {
	n, ix := len(s.gists), s.spare
	if s.spare = nil; ix == nil {
		ix = &Index[K]{space: s, Fits: make([]int32, n), Score: make([]int64, n), grade: make([]uint8, n), stamp: make([]uint64, n)}
		for _, domains := range s.layout.Domains {
			ix.Sum = append(ix.Sum, make([]int64, domains))
		}
	}
	clear(ix.Fits)
	for i := range ix.Score {
		ix.Score[i] = noScore
	}
	for _, sums := range ix.Sum {
		clear(sums)
	}
	ix.Key, ix.Ask, ix.version, ix.winners = key, s.ask(&key), math.MaxUint64, map[int32]*order.Tournament{}
	ix.histogram = [257]int32{0: int32(n)}
	return ix
}
