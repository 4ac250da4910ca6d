package room

import (
	"github.com/fermi-cluster/fermi/sched/order"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// Index answers, for one wish: how many such replicas a node or domain takes, and which node is
// the best one for some of them.
type Index[K comparable] struct {
	Key K
	Ask pack.Ask
	// Fits and Score are by node, Sum by level and domain.
	Fits  []int32
	Score []int64
	Sum   [][]int64

	space   *Space[K]
	cursor  uint64 // how much of the log was read
	version uint64 // by which nodes were scored
	used    uint64 // tick of the last question
	grade   []uint8
	stamp   []uint64
	// histogram counts nodes by fits, those beyond in the last.
	histogram [257]int32
	winners   map[int32]*order.Tournament
}

// CatchUp brings it up to now.
func (ix *Index[K]) CatchUp(version uint64) {
	s := ix.space
	end := s.base + uint64(len(s.log))
	switch {
	case version != ix.version:
		ix.version = version
		ix.winners = map[int32]*order.Tournament{} // cheaper to make than to mend
		for at := range ix.Fits {
			if g := &s.gists[at]; ix.Fits[at] == 0 && g.refuses(&ix.Ask) {
				ix.stamp[at] = g.stamp
			} else {
				ix.look(int32(at))
			}
		}
	case ix.cursor < s.base || end-ix.cursor > uint64(len(ix.Fits)):
		for at := range ix.Fits {
			if s.gists[at].stamp != ix.stamp[at] {
				ix.look(int32(at))
			}
		}
	default:
		for _, at := range s.log[ix.cursor-s.base:] {
			if s.gists[at].stamp != ix.stamp[at] {
				ix.look(at)
			}
		}
	}
	ix.cursor = end
}

// look works out one node anew.
func (ix *Index[K]) look(at int32) {
	s := ix.space
	fits, score, grade := int32(0), noScore, ix.grade[at]
	if !s.gists[at].refuses(&ix.Ask) {
		fits, score, grade = s.judge(&ix.Key, &ix.Ask, at)
	} else if ix.Fits[at] == 0 {
		ix.stamp[at] = s.gists[at].stamp
		return
	}
	if change := fits - ix.Fits[at]; change != 0 {
		for level, of := range s.layout.Of {
			ix.Sum[level][of[at]] += int64(change)
		}
		ix.histogram[min(ix.Fits[at], 256)]--
		ix.histogram[min(fits, 256)]++
	}
	ix.Fits[at], ix.Score[at], ix.grade[at], ix.stamp[at] = fits, score, grade, s.gists[at].stamp
	for _, w := range ix.winners {
		w.Update(at)
	}
}

// Room is how many replicas a domain takes, or a node, which is of level -1.
func (ix *Index[K]) Room(level int, id int32) int64 {
	if level < 0 {
		return int64(ix.Fits[id])
	}
	return ix.Sum[level][id]
}

// AnyFits says whether some node takes so many.
func (ix *Index[K]) AnyFits(count int32) bool {
	for f := min(count, 256); f < 257; f++ {
		if ix.histogram[f] > 0 {
			return true
		}
	}
	return false
}

const (
	// maxWinners is for how many counts winners are kept; of fewFit nodes that fit, each is looked at.
	maxWinners, fewFit = 8, 64
)

// Best is the node of a range that should take count replicas, -1 when none can.
func (ix *Index[K]) Best(lo, hi, count int32) int32 {
	if !ix.AnyFits(count) {
		return -1
	}
	w := ix.winners[count]
	if w == nil && len(ix.Fits)-int(ix.histogram[0]) <= fewFit {
		best := int32(-1)
		for at := lo; at < hi; at++ {
			if ix.Fits[at] >= count && (best < 0 || ix.Better(at, best, count)) {
				best = at
			}
		}
		return best
	}
	if w == nil {
		if len(ix.winners) >= maxWinners {
			clear(ix.winners)
		}
		w = order.NewTournament(len(ix.Fits), func(at int32) bool { return ix.Fits[at] >= count }, func(a, b int32) bool { return ix.Better(a, b, count) })
		ix.winners[count] = w
	}
	return w.Best(lo, hi)
}

// Better says that node a should rather take count replicas than b: its grade is less, then one
// replica goes where it packs best, and several go where they leave the least room for more.
func (ix *Index[K]) Better(a, b, count int32) bool {
	if ix.grade[a] != ix.grade[b] {
		return ix.grade[a] < ix.grade[b]
	}
	if count > 1 && ix.Fits[a] != ix.Fits[b] {
		return ix.Fits[a] < ix.Fits[b]
	}
	if ix.Score[a] != ix.Score[b] {
		return ix.Score[a] > ix.Score[b]
	}
	return a < b
}

// Equal says that two nodes that fit are as good as each other for one replica.
func (ix *Index[K]) Equal(a, b int32) bool {
	return ix.grade[a] == ix.grade[b] && ix.Fits[a] == ix.Fits[b] && ix.Score[a] == ix.Score[b]
}
