package sched

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// Migration is a proposal: if these gangs moved, a waiting one would start. Each of them has its new
// place free now, beside where it stands, so they may move in any order and nobody is ever without a
// place. Carrying one out lets one more gang stand and none fewer, so proposals can't go round in
// circles.
type Migration struct {
	For   string
	At    Assignment // where it would start
	Moves []Movement // those that lose most last
	// Lost is the device time thrown away if no checkpoint is written.
	Lost time.Duration
}

// Movement is one gang that would move.
type Movement struct {
	ID       string
	From, To Assignment
	Lost     time.Duration
}

const (
	// maxMovers bounds the gangs that are thought of, maxShuffles the sets of them that are tried.
	maxMovers, maxShuffles = 32, 128
)

// Migrate looks for the gangs that lose least if they move so that a waiting workload starts: the
// exact minimum over at most exactUpTo candidates, a small set found greedily over more. Only those
// move that are preemptible, may, and are no more important than who waits; may nil is all. ok is false when it
// does not wait for want of a whole place, or no such set was found. The cluster is as before on return.
func Migrate(now time.Time, c *Cluster, q *Queues, id string, may func(*Workload) bool) (Migration, bool) {
	return migrate(now, c, q, id, func(r *run) bool { return may == nil || may(r.Workload) })
}

func migrate(now time.Time, c *Cluster, q *Queues, id string, may func(*run) bool) (Migration, bool) {
	e, ok := q.waiting[id]
	if !ok || e.claim != nil || e.class == nil { // others go for it already, or its hour has not come
		return Migration{}, false
	}
	x := newExplainer(q.notBefore(now), c, q, e.w)
	if _, paused := q.tree.Paused(e.w.Queue); paused || fitsOn(c, e.w) || !x.enough() {
		return Migration{}, false
	}
	freed := c.freed
	defer func() { c.freed = freed }()
	s := &shuffle{explainer: x, e: e, may: may}
	for _, r := range q.reservations() {
		if r.ID != id {
			s.others = append(s.others, r)
		}
	}
	return s.search(s.candidates())
}

// enough says that what is free in all would do, and its queue has room.
func (x *explainer) enough() bool {
	r := x.largest()
	if _, _, ok := smallest(x.w).within(x.c, x.q.tree.Room, false); !ok {
		return false
	}
	return x.freeDevices(r.Need) >= int64(atLeast(r))*int64(r.Need.Devices)*int64(r.Need.Part())
}

// shuffle is one search for gangs to move. It tries on the model itself and leaves it as it was.
type shuffle struct {
	*explainer
	e      *entry
	may    func(*run) bool
	others []*Reservation // of everybody else
	tries  int
}

// mover is a run that may move.
type mover struct {
	r    *run
	w    *Workload // as it stands
	lost int64     // device milliseconds
	to   Assignment
	held *hold // while lifted
}

// candidates are runs that may move, from the nodes first on which least is lost until a replica of
// the one that waits has room there.
func (s *shuffle) candidates() []*mover {
	type spot struct {
		node   *node
		movers []*mover
		cost   int64
	}
	var spots []*spot
	at := map[uint32]*spot{}
	for _, r := range s.q.runs {
		if r.stays() || !s.may(r) || r.Workload.Priority > s.w.Priority {
			continue
		}
		m := &mover{r: r, w: resized(r.Workload, r.At), lost: r.times(r.loss(s.now).Since + r.Workload.RestartCost)}
		for on := range r.At.Stands() {
			if at[on] == nil {
				at[on] = &spot{node: s.c.nodes[on]}
				spots = append(spots, at[on])
			}
			if o := at[on]; !slices.Contains(o.movers, m) {
				o.movers = append(o.movers, m)
			}
		}
	}
	want := s.largest().Need.Devices
	spots = slices.DeleteFunc(spots, func(o *spot) bool {
		if o.node == nil || o.node.Closed {
			return true
		}
		slices.SortFunc(o.movers, cheaper)
		have := 0
		for _, free := range o.node.room.Free {
			if free == WholeDevice {
				have++
			}
		}
		for _, m := range o.movers {
			if have < want || o.cost == 0 {
				have += m.on(o.node.Number)
				o.cost += m.lost
			}
		}
		return have < want
	})
	slices.SortFunc(spots, func(a, b *spot) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.node.Number, b.node.Number))
	})
	var out []*mover
	for _, o := range spots {
		for _, m := range o.movers {
			if len(out) < maxMovers && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

func cheaper(a, b *mover) int {
	return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.r.Workload.ID, b.r.Workload.ID))
}

// on is how many devices it has on a node.
func (m *mover) on(number uint32) (n int) {
	for _, slots := range m.r.At {
		for _, s := range slots {
			if s.Node == number {
				n += bits.OnesCount64(s.Devices)
			}
		}
	}
	return n
}

// search tries sets of movers, those that lose least first.
func (s *shuffle) search(all []*mover) (Migration, bool) {
	for _, set := range s.sets(all) {
		if s.tries >= maxShuffles {
			break
		}
		s.tries++
		if at, ok := s.works(set); ok {
			out := Migration{For: s.w.ID, At: at}
			slices.SortFunc(set, cheaper)
			for _, m := range set {
				lost := time.Duration(m.lost) * time.Millisecond
				out.Moves = append(out.Moves, Movement{ID: m.r.Workload.ID, From: m.r.At, To: m.to, Lost: lost})
				out.Lost += lost
			}
			return out, true
		}
	}
	return Migration{}, false
}

// sets are all sets of few movers; of many, each alone, and the first ones together until they
// suffice, without those that turn out not to matter.
func (s *shuffle) sets(all []*mover) [][]*mover {
	var out [][]*mover
	if len(all) <= exactUpTo {
		for mask := uint(1); mask < 1<<len(all); mask++ {
			var set []*mover
			for m := mask; m != 0; m &= m - 1 {
				set = append(set, all[bits.TrailingZeros(m)])
			}
			out = append(out, set)
		}
	} else {
		for _, m := range all {
			out = append(out, []*mover{m})
		}
		for k := 2; k <= len(all); k++ {
			if s.starts(all[:k]) {
				out = append(out, s.prune(all[:k]))
			}
		}
	}
	cost := func(set []*mover) (sum int64) {
		for _, m := range set {
			sum += m.lost
		}
		return sum
	}
	slices.SortStableFunc(out, func(a, b []*mover) int {
		return cmp.Or(cmp.Compare(cost(a), cost(b)), cmp.Compare(len(a), len(b)))
	})
	return out
}

// starts says whether the one that waits would start without these.
func (s *shuffle) starts(set []*mover) bool {
	s.lift(set)
	ok := s.admits(s.w)
	s.put(set)
	return ok
}

// prune lets those stay without whom it starts as well, beginning with who would lose most.
func (s *shuffle) prune(set []*mover) []*mover {
	out := slices.Clone(set)
	tries := slices.Clone(set)
	slices.SortFunc(tries, func(a, b *mover) int { return cheaper(b, a) })
	for _, m := range tries {
		without := slices.DeleteFunc(slices.Clone(out), func(o *mover) bool { return o == m })
		if len(without) > 0 && s.starts(without) {
			out = without
		}
	}
	return out
}

// works finds new places for a set, after which the one that waits starts; it says where.
func (s *shuffle) works(set []*mover) (Assignment, bool) {
	s.lift(set)
	at, ok := s.turn().room(s.entry(s.w))
	s.put(set)
	if !ok {
		return nil, false
	}
	first := newReservation(smallest(s.w), at, s.e.rank()) // its room is spoken for
	if at, ok := s.moved(set, append(slices.Clone(s.others), first), nil); ok {
		return at, true
	}
	var avoid []uint32 // it finds room where they stood
	for _, m := range set {
		for on := range m.r.At.Stands() {
			avoid = append(avoid, on)
		}
	}
	return s.moved(set, s.others, avoid)
}

// moved gives each of a set a second place beside what is kept, and asks whether the one that waits
// starts once they have gone there.
func (s *shuffle) moved(set []*mover, kept []*Reservation, avoid []uint32) (at Assignment, ok bool) {
	t := s.turn()
	var placed []*mover
	defer func() {
		for _, m := range placed {
			s.c.Unreserve(m.r.Workload.ID)
		}
	}()
	order := slices.Clone(set) // who is hardest to place first
	slices.SortStableFunc(order, func(a, b *mover) int { return cmp.Compare(b.r.devices, a.r.devices) })
	for _, m := range order {
		w := *m.w
		w.Avoid = append(slices.Clone(w.Avoid), avoid...)
		to, ok := t.placeBeside(&w, kept)
		if !ok || s.c.Reserve(m.r.Workload.ID, to) != nil {
			return nil, false
		}
		m.to = to
		placed = append(placed, m)
	}
	s.lift(set)
	defer s.put(set)
	t = s.turn()
	e := s.entry(s.w)
	at, ok = t.room(e)
	return at, ok && t.staysAt(e, at)
}

func (s *shuffle) lift(set []*mover) {
	for _, m := range set {
		m.held = s.c.lift(m.r.Workload.ID)
	}
}

func (s *shuffle) put(set []*mover) {
	for _, m := range set {
		s.c.put(m.r.Workload.ID, m.held)
	}
}
