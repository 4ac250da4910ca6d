package train

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/link"
)

// A peer's memory (spec.checkpoint.peer). Every launcher's states are also with another launcher, on another
// node. Which step is told with the watermark: `safe` is the newest that every rank has in two places,
// `next` the one that is being copied; both stay everywhere. When a launcher is lost, another takes its
// place in the same attempt, with the same ranks, and is told who has their states.

// peered says that launchers keep each other's states.
func (s *seen) peered() bool { return s.task.Spec.PeerMemory() && !s.elastic() && !s.inside() }

// replaces says that a lost launcher is replaced alone, in the same attempt.
func (s *seen) replaces() bool { return s.elastic() || s.peered() }

// seating is who has which rank: the indexes of the replicas in the order of their ranks.
func (s *seen) seating() (out []int) {
	if s.peered() {
		for _, i := range s.order {
			out = append(out, s.members[i].index)
		}
	}
	return out
}

// seat puts who is of the open generation where it was, and newcomers where somebody is missing: states
// are of a rank, and ranks that stay keep their number. order is sorted by role.
func (s *seen) seat(order []int) {
	r := s.task.Status.Rendezvous
	if r == nil || !s.peered() || len(order) != len(r.Seats) {
		return // not all are there
	}
	for from := 0; from < len(order); {
		role, to := s.members[order[from]].role, from
		for to < len(order) && s.members[order[to]].role == role {
			to++
		}
		s.seatRole(order[from:to], r.Seats[from:to])
		from = to
	}
}

func (s *seen) seatRole(order, seats []int) {
	placed, free := make([]int, len(seats)), []int{}
	for k := range placed {
		placed[k] = -1
	}
	for _, i := range order {
		if k := slices.Index(seats, s.members[i].index); k >= 0 {
			placed[k] = i
		} else {
			free = append(free, i)
		}
	}
	for k := range placed {
		if placed[k] < 0 {
			placed[k], free = free[0], free[1:]
		}
	}
	copy(order, placed)
}

// where says who holds a step of the ranks first to first+ranks-1, among those that are attached: the one
// question that a restore asks of memory. A member's own ranks are among them.
func (s *seen) where(step int64, first, ranks int) (list []link.Source) {
	for i := range s.members {
		m := &s.members[i]
		if !m.attached || m.said.PeerPort == 0 {
			continue
		}
		for _, c := range m.said.Copies {
			low, high := max(first, c.First), min(first+ranks, c.First+c.Ranks)
			if low < high && slices.Contains(c.Steps, step) {
				list = append(list, link.Source{First: low, Ranks: high - low, Address: m.peerAt()})
			}
		}
	}
	return list
}

// covered is the newest step that somebody who is here has of every rank; 0: none.
func (s *seen) covered() int64 {
	if !s.peered() {
		return 0
	}
	return s.newestOf(func(step int64) bool {
		missed := func(m member) bool { return m.said.Missed == step }
		return !slices.ContainsFunc(s.members, missed) && covers(s.where(step, 0, s.world), s.world, 1)
	})
}

// newestOf is the newest step among the copies that is so; 0: none.
func (s *seen) newestOf(so func(step int64) bool) (best int64) {
	asked := map[int64]bool{}
	for i := range s.members {
		for _, c := range s.members[i].said.Copies {
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

// covers says that so many have each of the ranks.
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

// safe is the newest step that every rank has in its own node's memory and in its peer's; 0: none.
func (s *seen) safe() int64 {
	return s.newestOf(func(step int64) bool { return covers(s.where(step, 0, s.world), s.world, 2) })
}

// copyEvery is the least time between the beginnings of two copies.
const copyEvery = time.Second

// copying is what is being copied to peers; of the loop that tells watermarks.
type copying struct {
	generation, next int64
	at               time.Time
}

// keep is what stays besides the watermark: what is safe, and what is on its way to be. A new step is begun
// only when the last one is safe.
func (s *seen) keep(c *copying, generation, watermark int64, now time.Time) (steps []int64) {
	if !s.peered() {
		return nil
	}
	safe := s.safe()
	if r := s.task.Status.Rendezvous; r != nil {
		safe = max(safe, r.Restore) // of another generation: it is not copied again, and stays until a newer one is
	}
	if c.generation != generation {
		*c = copying{generation: generation, next: safe}
	}
	if c.next <= safe && watermark > safe && now.Sub(c.at) >= copyEvery {
		c.next, c.at = watermark, now
	}
	for _, step := range []int64{safe, c.next} {
		if step > 0 && !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps
}

// peerOf is the member whose memory has what member i's ranks save: so many places further in the order
// of ranks for all, so that each keeps states of one other, and on another node. How many is chosen so that
// the most are in another rack, leaf and zone, and outside of the rank's own tensor and pipeline group. Who
// is left with one on its own node has the next that is not. -1: there is none.
func (s *seen) peerOf(i int) int {
	n, at := len(s.order), slices.Index(s.order, i)
	if s.shift == 0 {
		s.shift = s.bestShift()
	}
	for by := range n {
		if peer := s.order[(at+s.shift+by)%n]; s.members[peer].node != s.members[i].node {
			return peer
		}
	}
	return -1
}

// bestShift is by how many places peers are apart; a few of many are tried.
func (s *seen) bestShift() int {
	n := len(s.order)
	best, score := 1, -1
	for by := 1; by < n; by++ {
		if by > 16 && by != n/4 && by != n/2 {
			continue
		}
		sum := 0
		for k := range n {
			sum += s.apart(&s.members[s.order[k]], &s.members[s.order[(k+by)%n]])
		}
		if sum > score {
			best, score = by, sum
		}
	}
	return best
}

// apart is how good one is as a place for the states of the other: another node counts most.
func (s *seen) apart(a, b *member) (score int) {
	if a.node == b.node {
		return 0
	}
	score = 16
	for _, differs := range []bool{a.zone != b.zone, a.leaf != b.leaf, a.rack != b.rack, !s.sameGroup(a, b)} {
		if differs {
			score += 2
		}
	}
	return score
}

// sameGroup says that ranks of both share a matrix or a pipeline: tensor groups are neighbours, the stages
// of a pipeline are a world's share apart.
func (s *seen) sameGroup(a, b *member) bool {
	st := s.task.Spec.Strategy
	if st == nil {
		return false
	}
	for x := a.first; x < a.first+a.ranks; x++ {
		for y := b.first; y < b.first+b.ranks; y++ {
			if st.Tensor > 1 && x/st.Tensor == y/st.Tensor {
				return true
			}
			if share := s.world / max(st.Pipeline, 1); st.Pipeline > 1 && share > 0 && x%share == y%share {
				return true
			}
		}
	}
	return false
}

// introduce tells a member of its peer, and of who has the states that its ranks go on from.
func (s *seen) introduce(i int, g *link.Generation) {
	if !s.peered() {
		return
	}
	if k := s.peerOf(i); k >= 0 && s.members[k].said.PeerPort > 0 {
		g.Peer = s.members[k].peerAt()
	}
	if m := &s.members[i]; g.Restore > 0 && g.Origin == nil {
		own := m.peerAt()
		list := slices.DeleteFunc(s.where(g.Restore, m.first, m.ranks), func(c link.Source) bool { return c.Address == own })
		g.Sources = list[:min(len(list), link.MaxCopies)]
	}
}
