package sched

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/order"
)

// Eviction asks a gang to go so that another can start.
//
// Who is asked to go is (1) of lower priority in the same queue; (2) of lower priority in a queue
// that still has its guarantee without it; (3) in a queue that uses more than its guarantee, while
// the other's stays within its own; or (4) an equal of the same queue that has stood for a quantum
// and has at least twice as much to do until it may be over, or stands in room that was kept for the other, or any such equal when the other is overdue.
//
// Why this never goes round in circles: each kind alone only goes one way ((1) and (2) raise the
// priority of what runs; after (3) the taker's queue is within its guarantee, and neither (2) nor
// (3) touches such; in (4) the taker must first get on with its work for a quantum, and who was
// overdue is asked again only when the overdue have more than their share, or for one that waited longer). Together they could turn, because gangs come in lumps: hence the
// bound that needs no argument. Nobody is ever asked to go twice for the same workload, nor are
// others asked for one workload more than maxClaims times. What they leave is kept for it by a
// claim, so no third one profits and has to be asked again.
type Eviction struct {
	ID, For string
	Why     EvictionReason
	// AskCheckpoint wants a checkpoint written first, for which there is Grace.
	AskCheckpoint bool
	Grace         time.Duration
	// Lost is the device time thrown away if no checkpoint is written.
	Lost time.Duration
	// To is where it goes on at once, reserved for it already; nil: it waits again.
	To Assignment
}

// EvictionReason is why a gang has to go.
type EvictionReason string

// The reasons.
const (
	EvictPriority EvictionReason = "Priority" // somebody more important
	EvictReclaim  EvictionReason = "Reclaim"  // a queue takes its guarantee back
	EvictTurn     EvictionReason = "Turn"     // it had its turn, and has much more to do than who waits
	EvictOverdue  EvictionReason = "Overdue"  // for one that has waited for the longest wait
	EvictKept     EvictionReason = "Kept"     // it stood where room was kept for another
	EvictMoved    EvictionReason = "Moved"    // another finds room when it goes on elsewhere
)

const (
	// turnGap is how many levels more a run has left to do than who takes its place: two are at
	// least twice as much.
	turnGap = 2
	// maxTurns is how often a workload gives way to its equals.
	maxTurns = 16
	// maxClaims is how often others are asked to go for one workload, in all its life.
	maxClaims = 16
	// exactUpTo is how many candidates are searched for the exact minimum.
	exactUpTo = 10
	// Where more than searchRuns may be asked, victims are looked for on searchNodes at a time, on searchFor at
	// least for each replica. Where that is not the whole cluster the search goes on with the next ones.
	searchRuns, searchNodes, searchFor = 4096, 512, 4
	// pruneUpTo bounds the candidates each of which is asked whether it may stay after all.
	pruneUpTo = 512
)

// claim is the room of a workload for which others were asked to go.
type claim struct {
	Reservation
	entry   *entry
	pending map[string]bool // still to go
	need    Vector          // noted as coming
	moves   bool            // they go on elsewhere
}

// gone notes that a run left or shrank.
func (q *Queues) gone(r *run) {
	q.tree.Going(r.Workload.Queue, r.going, -1)
	r.going = nil
	for _, c := range q.claims {
		delete(c.pending, r.Workload.ID)
	}
}

func (q *Queues) unclaim(e *entry) {
	if e.claim != nil {
		q.claims = slices.DeleteFunc(q.claims, func(c *claim) bool { return c == e.claim })
		q.tree.Coming(e.w.Queue, e.claim.need, -1)
		e.claim = nil
	}
}

// UndoEviction takes an eviction back that could not be written: the gang stays, and the other one
// waits like everybody. Others that were asked to go for it go in vain.
func UndoEviction(q *Queues, e Eviction) {
	if r, ok := q.running[e.ID]; ok {
		r.leaving = false
		q.gone(r)
	}
	if other, ok := q.waiting[e.For]; ok && other.claim != nil {
		q.unclaim(other)
		delete(q.history(e.For).victims, e.ID)
		q.file(other, other.age < 0)
	}
}

// serveClaims starts those whose room is free now. One whose room was lost (a node closed) waits
// like everybody again.
func (t *turn) serveClaims() {
	for _, c := range slices.Clone(t.q.claims) {
		if len(c.pending) > 0 {
			continue
		}
		e := c.entry
		t.q.unclaim(e)
		w := smallest(e.w)
		_, paused := t.q.tree.Paused(w.Queue)
		if !paused {
			at, ok := c.At, t.c.roomAt(w, c.At)
			if !ok {
				at, ok = t.placeBeside(w, t.firm())
			}
			if ok && t.q.tree.RoomNow(w.Queue, w.takes(t.c, at)) {
				t.start(e, at)
				continue
			}
		}
		t.q.file(e, e.age < 0)
	}
}

// roomAt says whether a gang could stand exactly there now.
func (c *Cluster) roomAt(w *Workload, at Assignment) bool {
	const id = "\x00"
	if c.Hold(id, w.Roles, at) != nil {
		return false
	}
	ok := true
	for _, slots := range at {
		for _, s := range slots {
			n := c.nodes[s.Node]
			ok = ok && !n.Closed && n.ClosedDevices&s.Devices == 0 && n.room.CPU >= 0 && n.room.Memory >= 0 &&
				(n.Disk == 0 || n.disk >= 0) && (n.host == nil || n.host.used <= n.host.Processes)
		}
	}
	c.lift(id)
	return ok
}

// firm are the claims of others.
func (t *turn) firm() []*Reservation {
	var out []*Reservation
	for _, c := range t.q.claims {
		out = append(out, &c.Reservation)
	}
	return out
}

// stays says that nobody may ask a run to go.
func (r *run) stays() bool { return !r.Workload.Preemptible || r.leaving }

// may says why e may ask r to go; "" when it may not.
func (t *turn) may(e *entry, r *run, need Vector) EvictionReason {
	w, v := e.w, r.Workload
	switch {
	case r.stays():
		return ""
	case w.Queue == v.Queue:
		return e.mayAsk(t, r)
	case t.q.tree.Reclaims(w.Queue, v.Queue, need):
		return EvictReclaim
	case w.Priority > v.Priority && t.q.tree.Borrows(w.Queue, v.Queue, need, r.need):
		return EvictPriority
	}
	return ""
}

// mayAsk is may in one queue.
func (e *entry) mayAsk(t *turn, r *run) EvictionReason {
	w, v := e.w, r.Workload
	switch {
	case w.Priority > v.Priority:
		return EvictPriority
	case w.Priority < v.Priority || t.p.NoTurns || r.keepsPlace(t.q) && !(e.urgent && e.since.Before(r.since)) || r.evicted >= maxTurns || t.now.Sub(r.Since) < t.p.Quantum:
		return ""
	case slices.Contains(r.hosts, w.ID):
		return EvictKept
	case e.urgent:
		return EvictOverdue
	case t.runLevel(r) >= e.class.level+turnGap:
		return EvictTurn
	}
	return ""
}

// runLevel is the level of what a run has left to do.
func (t *turn) runLevel(r *run) int {
	return int(r.level.at(t.now, func() int64 { return int64(levelOf(r.estimate.Index(r.ran(t.now)), r.devices)) }))
}

// victim is a run that may have to go, or to shrink.
type victim struct {
	r    *run
	why  EvictionReason
	lost int64 // device milliseconds
	// shrink takes only what is above the least size.
	shrink bool
	held   *hold // while lifted
	need   Vector
}

// lost is devices × time since the last checkpoint, and what a restart costs. Who gives way to an
// equal ends its turn with a checkpoint and loses only the restart.
func (t *turn) lost(r *run, why EvictionReason) int64 {
	l := r.loss(t.now)
	if why == EvictTurn || why == EvictOverdue || why == EvictKept {
		l.Since = 0
	}
	return r.times(l.Since + l.Restart)
}

// times is devices × d in milliseconds.
func (r *run) times(d time.Duration) int64 {
	return int64(max(r.devices, 1)) * int64(d/time.Millisecond)
}

// preempt looks for the least work to be lost for e to start, and asks those to go. It says whether the
// search is over for good: somebody was asked, or it goes on where it ended.
func (t *turn) preempt(e *entry) bool {
	cl := e.class
	past := t.q.past[e.w.ID]
	if t.p.NoPreemption || t.now.Before(cl.searchAt) || past != nil && past.claims >= maxClaims {
		return false
	}
	if t.searches >= maxSearches {
		if cl.searched == 0 {
			return false
		}
		t.work = maxWork // the next turn goes on with it
		return true
	}
	t.searches++
	w := smallest(e.w)
	h := &hunt{turn: t, e: e, w: w, need: t.c.Need(w), firm: t.firm()}
	if past != nil {
		h.asked = past.victims
	}
	h.nodes = t.c.topology().nodes
	nodes, until, runs := len(h.nodes), len(h.nodes), 0
	for _, name := range t.q.names {
		l := t.q.lanes[name]
		l.giver = newGiver(name, h)
		runs += l.runs.Count(l.giver.most)
	}
	if runs > searchRuns {
		until = cl.searched + max(searchNodes, searchFor*w.Replicas())
		h.nodes = h.nodes[min(cl.searched, nodes):min(until, nodes)]
	}
	freed, mark := t.c.freed, t.c.known.Begin()
	chosen, at := h.search()
	t.c.known.End(mark)
	t.c.freed = freed
	switch {
	case len(chosen) > 0:
		cl.searched = 0
		t.claim(e, w, at).ask(t, chosen)
		return true
	case until < nodes:
		cl.searched = until
		return true
	}
	cl.searched, cl.searchAt = 0, t.now.Add(t.p.Quantum)
	return false
}

// claim keeps a place for e, for which others will be asked to go.
func (t *turn) claim(e *entry, w *Workload, at Assignment) *claim {
	c := &claim{Reservation: *newReservation(w, at, e.rank()), entry: e, pending: map[string]bool{}, need: w.takes(t.c, at)}
	c.firm = true
	t.q.tree.Coming(w.Queue, c.need, +1)
	c.Start, c.Early, c.Late = t.now.Add(t.p.Grace), t.now, t.now.Add(2*t.p.Grace)
	t.q.history(w.ID).claims++
	t.q.unreserve(w.ID)
	t.q.leave(e)
	e.claim = c
	t.q.claims = append(t.q.claims, c)
	return c
}

// ask asks victims to go for it.
func (c *claim) ask(t *turn, chosen []*victim) {
	history := t.q.history(c.ID)
	if history.victims == nil {
		history.victims = map[string]bool{}
	}
	for _, v := range chosen {
		id := v.r.Workload.ID
		c.pending[id], history.victims[id] = true, true
		v.r.leaving, v.r.going = true, v.need
		t.q.tree.Going(v.r.Workload.Queue, v.need, +1)
		if v.shrink {
			t.res.Resizes = append(t.res.Resizes, Resize{ID: id, At: least(v.r), Was: v.r.At, For: c.ID})
			continue
		}
		t.res.Evictions = append(t.res.Evictions, Eviction{
			ID: id, For: c.ID, Why: v.why, AskCheckpoint: true, Grace: t.p.Grace, Lost: time.Duration(v.lost) * time.Millisecond,
		})
	}
}

// hunt is one search for victims. It tries on the model itself and leaves it as it was.
type hunt struct {
	*turn
	e    *entry
	w    *Workload
	need Vector
	firm []*Reservation
	// nodes are those that are searched, asked are who was asked to go for it before.
	nodes []*node
	asked map[string]bool
	out   []*victim // lifted now
}

// search tries shrinking first, then taking whole gangs.
func (h *hunt) search() ([]*victim, Assignment) {
	now := byLoss(h.now)
	all := h.candidates()
	if len(all) == 0 {
		return nil, nil
	}
	var elastic []*victim
	for _, v := range all {
		if spare(v.r) {
			small := *v
			small.shrink = true
			small.lost = v.r.times(v.r.Workload.RestartCost)
			elastic = append(elastic, &small)
		}
	}
	slices.SortFunc(elastic, now.compare)
	if chosen, at := h.least(elastic); chosen != nil {
		return chosen, at
	}
	return h.least(all)
}

// candidates are all who may be asked on the nodes that are searched.
func (h *hunt) candidates() []*victim {
	looked, all, some := 0, []*victim(nil), []victim(nil)
	for g, r := range standing(h.nodes, h.q, len(h.nodes) == len(h.c.tree.nodes)) {
		looked++
		if why := g.ask(h, r); why != "" {
			if len(some) == cap(some) {
				some = make([]victim, 0, 256)
			}
			some = append(some, victim{r: r, why: why, lost: h.lost(r, why)})
			all = append(all, &some[len(some)-1])
		}
	}
	h.work += (looked + workSets*len(all)) / workRuns
	if len(all) <= exactUpTo {
		slices.SortFunc(all, byLoss(h.now).compare)
	}
	return all
}

// standing are the runs on nodes, each once and in no order that means anything, with their queues; all says that there are no others.
func standing(nodes []*node, q *Queues, all bool) iter.Seq2[*giver, *run] {
	return func(yield func(*giver, *run) bool) {
		if all {
			for _, name := range q.names {
				l := q.lanes[name]
				for r := range l.runs.UpTo(l.giver.most) {
					if !yield(&l.giver, r) {
						return
					}
				}
			}
			return
		}
		q.hunts++
		for _, n := range nodes {
			for _, r := range q.standing.At(n.Number) {
				if r.hunted == q.hunts || r.Workload.Priority > r.lane.giver.most {
					continue
				} else if r.hunted = q.hunts; !yield(&r.lane.giver, r) {
					return
				}
			}
		}
	}
}

// giver is a queue whose runs are looked at, those of at most a priority.
type giver struct {
	same, reclaims, guarded bool
	most                    int
}

// newGiver works out what a queue may be asked for.
func newGiver(queue string, h *hunt) giver {
	switch {
	case queue == h.w.Queue:
		return giver{same: true, most: h.w.Priority}
	case h.q.tree.Reclaims(h.w.Queue, queue, h.need):
		return giver{reclaims: true, most: math.MaxInt}
	}
	return giver{guarded: h.q.tree.Guarded(h.w.Queue, queue), most: h.w.Priority - 1}
}

// ask is may, for many runs of few queues.
func (g *giver) ask(h *hunt, r *run) EvictionReason {
	v := r.Workload
	switch {
	case r.stays() || h.asked[v.ID]:
		return ""
	case g.same:
		return h.e.mayAsk(h.turn, r)
	case g.reclaims:
		return EvictReclaim
	case h.w.Priority > v.Priority && (!g.guarded || h.q.tree.Borrows(h.w.Queue, v.Queue, h.need, r.need)):
		return EvictPriority
	}
	return ""
}

// byLoss is an order of victims at a time: among equals who has most left to do goes first.
type byLoss time.Time

// left is what a victim is expected to do still, in device milliseconds.
func (now byLoss) left(v *victim) int64 {
	return v.r.left.at(time.Time(now), func() int64 { return v.r.times(v.r.estimate.Mean(v.r.ran(time.Time(now)))) })
}

func (now byLoss) compare(a, b *victim) int {
	if a.lost != b.lost {
		return cmp.Compare(a.lost, b.lost)
	}
	if x, y := now.left(a), now.left(b); x != y {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(b.r.Workload.ID, a.r.Workload.ID)
}

// least finds victims after whose going w surely starts: greedily node by node, then without those
// that turn out not to matter; with few candidates, the exact minimum.
func (h *hunt) least(all []*victim) ([]*victim, Assignment) {
	defer h.restore(0)
	if len(all) == 0 || !h.greedy(all) {
		return nil, nil
	}
	if len(h.out) <= pruneUpTo {
		h.prune()
	}
	chosen := slices.Clone(h.out)
	if len(all) <= exactUpTo {
		h.restore(0)
		chosen = h.exact(all, chosen)
		for _, v := range chosen {
			h.drop(v)
		}
	}
	at, ok := h.starts()
	if !ok {
		return nil, nil
	}
	return chosen, at
}

// starts says whether w would start now, and where.
func (h *hunt) starts() (Assignment, bool) {
	held, _, ok := h.w.within(h.c, h.q.tree.Room, false)
	if !ok {
		return nil, false
	}
	return h.placeBeside(held, h.firm)
}

// drop lifts a victim, if with those already lifted it still may be asked.
func (h *hunt) drop(v *victim) bool {
	if v.held != nil || h.may(h.e, v.r, h.need) == "" {
		return false
	}
	w := v.r.Workload
	v.held = h.c.lift(w.ID)
	if v.held == nil {
		return false
	}
	v.need = v.r.need
	if v.shrink {
		at := least(v.r)
		h.c.put(w.ID, &hold{roles: w.Roles, at: at})
		v.need = minus(v.r.need, resized(w, at).takes(h.c, at))
	}
	h.q.tree.Try(w.Queue, v.need, -1)
	h.out = append(h.out, v)
	return true
}

// undrop puts a victim back.
func (h *hunt) undrop(v *victim) {
	id := v.r.Workload.ID
	if v.shrink {
		h.c.lift(id)
	}
	h.c.put(id, v.held)
	v.held = nil
	h.q.tree.Try(v.r.Workload.Queue, v.need, +1)
	at := len(h.out) - 1 // the last ones go first
	for h.out[at] != v {
		at--
	}
	h.out = slices.Delete(h.out, at, at+1)
}

func (h *hunt) restore(to int) {
	for len(h.out) > to {
		h.undrop(h.out[len(h.out)-1])
	}
}

// greedy lifts the cheapest sets until w starts: first as many as it has replicas, then twice as
// many, and so on.
func (h *hunt) greedy(all []*victim) bool {
	sets := h.sets(all)
	for k, until := 0, min(h.w.Replicas(), len(sets)); ; {
		for ; k < until; k++ {
			for _, v := range sets[k] {
				h.drop(v)
			}
		}
		if _, ok := h.starts(); ok {
			return true
		}
		if k == len(sets) {
			return false
		}
		until = min(2*until, len(sets))
	}
}

// set is what makes room for one replica on a node.
type set struct {
	node uint32
	cost int64
	left int64 // of all of them together
	got  int
	vs   []*victim
}

// sets groups victims into what makes room for one replica, the cheapest first: on each node those
// who lose least until its devices suffice, then those for a second replica, and so on.
func (h *hunt) sets(all []*victim) [][]*victim {
	want := 1
	for _, r := range h.w.Roles {
		want = max(want, r.Need.Devices)
	}
	type on struct {
		v       *victim
		node    uint32
		devices int
	}
	at := make([]on, 0, len(all))
	for _, v := range all {
		for node, devices := range v.r.At.Stands() {
			at = append(at, on{v, node, devices})
		}
	}
	now := byLoss(h.now)
	slices.SortStableFunc(at, func(a, b on) int {
		if a.node != b.node {
			return cmp.Compare(a.node, b.node)
		}
		return now.compare(a.v, b.v)
	})
	var sets []*set
	for i, o := range at {
		if i == 0 || at[i-1].node != o.node || sets[len(sets)-1].got >= want {
			sets = append(sets, &set{node: o.node})
		}
		s := sets[len(sets)-1]
		s.got += max(o.devices, 1)
		s.cost, s.left = s.cost+o.v.lost, s.left+now.left(o.v)
		s.vs = append(s.vs, o.v)
	}
	slices.SortStableFunc(sets, func(a, b *set) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(a.vs), len(b.vs)), cmp.Compare(b.left, a.left), cmp.Compare(a.node, b.node))
	})
	out := make([][]*victim, len(sets))
	for i, s := range sets {
		out[i] = s.vs
	}
	return out
}

// prune lets those stay without whom w starts as well, beginning with who would lose most.
func (h *hunt) prune() {
	tries := slices.Clone(h.out)
	now := byLoss(h.now)
	slices.SortFunc(tries, func(a, b *victim) int { return now.compare(b, a) })
	for _, v := range tries {
		h.undrop(v)
		if _, ok := h.starts(); !ok {
			h.drop(v)
		}
	}
}

// exact tries all sets cheaper than the one found, cheapest first.
func (h *hunt) exact(all, found []*victim) []*victim {
	costs, bound := make([]int64, len(all)), int64(0)
	for i, v := range all {
		costs[i] = v.lost
	}
	for _, v := range found {
		bound += v.lost
	}
	for _, mask := range order.Cheaper(costs, bound, len(found)) {
		var vs []*victim
		valid := true
		for m := mask; m != 0; m &= m - 1 {
			v := all[bits.TrailingZeros(m)]
			valid = valid && h.drop(v)
			vs = append(vs, v)
		}
		ok := false
		if valid {
			_, ok = h.starts()
		}
		h.restore(0)
		if ok {
			return vs
		}
	}
	return found
}

func minus(a, b Vector) Vector {
	out := slices.Clone(a)
	for i, x := range b {
		out = out.add(i, -x)
	}
	return out
}
