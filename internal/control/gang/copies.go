package gang

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/link"
)

// A peer's memory (spec.checkpoint.peer). Every launcher's states are also with another launcher, on another node. When a
// launcher is lost, another takes its seat in the same attempt, with the same ranks, and is told who has their statel.

// Where says who holds a step of the ranks first to first+ranks-1, among those that are attached: the one
// question that a restore asks of memory. A member's own ranks are among them.
func (l Members) Where(step int64, first, ranks int) (list []link.Source) {
	for i := range l {
		m := &l[i]
		if !m.Attached || m.Said.PeerPort == 0 {
			continue
		}
		for _, c := range m.Said.Copies {
			low, high := max(first, c.First), min(first+ranks, c.First+c.Ranks)
			if low < high && slices.Contains(c.Steps, step) {
				list = append(list, link.Source{First: low, Ranks: high - low, Address: m.peerAddress()})
			}
		}
	}
	return list
}

// newestOf is the newest step among the copies that is so; 0: none.
func (l Members) newestOf(so func(step int64) bool) (best int64) {
	asked := map[int64]bool{}
	for i := range l {
		for _, c := range l[i].Said.Copies {
			for _, step := range c.Steps {
				if step > best && !asked[step] && so(step) {
					best = step
				}
				asked[step] = true
			}
		}
	}
	return best
}

// covers says that so many have each of the rankl.
func covers(list []link.Source, world, times int) bool {
	change := make([]int, world+1)
	for _, c := range list {
		change[c.First]++
		change[c.First+c.Ranks]--
	}
	have := 0
	for rank := range world {
		if have += change[rank]; have < times {
			return false
		}
	}
	return true
}

// Covered is the newest step that somebody who is here has of every rank; 0: none.
func (l Members) Covered(world int) int64 {
	return l.newestOf(func(step int64) bool {
		missed := func(m *Member) bool { return m.Said.Missed == step }
		return !l.Any(missed) && covers(l.Where(step, 0, world), world, 1)
	})
}

// Safe is the newest step that every rank has in its own node's memory and in its peer's; 0: none.
func (l Members) Safe(world int) int64 {
	return l.newestOf(func(step int64) bool { return covers(l.Where(step, 0, world), world, 2) })
}

// peerOf is the member whose memory has what member i's ranks save: so many places further in the order
// of ranks for all, so that each keeps states of one other, and on another node. How many is chosen so that
// the most are in another rack, leaf and zone, and outside of the rank's own tensor and pipeline group. Who
// is left with one on its own node has the next that is not. -1: there is none.
func (g *Gang) peerOf(i int) int {
	n, at := len(g.Order), slices.Index(g.Order, i)
	if g.shift == 0 {
		g.shift = g.bestShift()
	}
	for by := range n {
		if peer := g.Order[(at+g.shift+by)%n]; g.Members[peer].Node != g.Members[i].Node {
			return peer
		}
	}
	return -1
}

// bestShift is by how many places peers are apart; a few of many are tried.
func (g *Gang) bestShift() int {
	n := len(g.Order)
	best, score := 1, -1
	for by := 1; by < n; by++ {
		if by > 16 && by != n/4 && by != n/2 {
			continue
		}
		sum := 0
		for k := range n {
			sum += g.apart(&g.Members[g.Order[k]], &g.Members[g.Order[(k+by)%n]])
		}
		if sum > score {
			best, score = by, sum
		}
	}
	return best
}

// apart is how good one is as a place for the states of the other: another node counts most.
func (g *Gang) apart(a, b *Member) (score int) {
	if a.Node == b.Node {
		return 0
	}
	score = 16
	for _, differs := range []bool{a.Zone != b.Zone, a.Leaf != b.Leaf, a.Rack != b.Rack, !g.sameGroup(a, b)} {
		if differs {
			score += 2
		}
	}
	return score
}

// sameGroup says that ranks of both share a matrix or a pipeline: tensor groups are neighbours, the stages
// of a pipeline are a world's share apart.
func (g *Gang) sameGroup(a, b *Member) bool {
	st := g.Task.Spec.Strategy
	if st == nil {
		return false
	}
	for x := a.First; x < a.First+a.Ranks; x++ {
		for y := b.First; y < b.First+b.Ranks; y++ {
			if st.Tensor > 1 && x/st.Tensor == y/st.Tensor {
				return true
			}
			if share := g.World / max(st.Pipeline, 1); st.Pipeline > 1 && share > 0 && x%share == y%share {
				return true
			}
		}
	}
	return false
}

// Introduce tells a member of its peer, and of who has the states that its ranks go on from.
func (g *Gang) Introduce(i int, order *link.Generation) {
	if !g.Peered() {
		return
	}
	if k := g.peerOf(i); k >= 0 && g.Members[k].Said.PeerPort > 0 {
		order.Peer = g.Members[k].peerAddress()
	}
	if m := &g.Members[i]; order.Restore > 0 && order.Origin == nil {
		own := m.peerAddress()
		list := slices.DeleteFunc(g.Members.Where(order.Restore, m.First, m.Ranks), func(c link.Source) bool { return c.Address == own })
		order.Sources = list[:min(len(list), link.MaxCopies)]
	}
}
