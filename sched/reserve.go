package sched

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/order"
	"github.com/fermi-cluster/fermi/sched/predict"
)

// Reservation is where and when a gang that waits is expected to start. Later ones may use its
// room only if they are expected to be gone by then. It is worked out again as time passes, so an
// estimate that was wrong moves it, and does not break it.
type Reservation struct {
	ID string
	At Assignment
	// Start is expected; eight of ten such starts lie between Early and Late: as those of the past did
	// or, with too few of them, by the 10 and 90 % marks of the run whose end it waits for.
	Start, Early, Late time.Time

	queue   string
	rank    order.Rank
	roles   []Role
	devices int
	nodes   map[uint32]bool
	replan  time.Time
	firm    bool // somebody was asked to go for it: nobody else may have the room
	guess   bool // how long the run that it waits for goes on is not known
}

const (
	// replanEvery is how long a reservation is believed at least.
	replanEvery = time.Minute
	// maxAhead bounds how many ends of runs a forecast looks at.
	maxAhead = 4096
	// safely is the share of cases in which one that fills a hole must be gone in time.
	safely = 0.8
)

// Predicted says when a waiting workload is expected to start; ok is false when nobody worked it
// out: it has no reservation, because it is not near the head or needs only one device.
func (q *Queues) Predicted(id string) (Reservation, bool) {
	if e, ok := q.waiting[id]; ok && e.claim != nil {
		return e.claim.Reservation, true
	}
	for _, r := range q.reserved {
		if r.ID == id {
			return *r, true
		}
	}
	return Reservation{}, false
}

func (q *Queues) unreserve(id string) {
	q.reserved = slices.DeleteFunc(q.reserved, func(r *Reservation) bool { return r.ID == id })
}

// reserve gives a refused gang a reservation, or works its old one out again; w is the gang, perhaps
// with fewer zones. One device is never kept away by small ones, so it needs none.
func (t *turn) reserve(e *entry, w *Workload) {
	q := t.q
	w = smallest(w)
	if t.p.Reservations < 0 || t.now.Before(e.class.forecastAt) || (w.Replicas() < 2 && devicesOf(w) < 2) {
		return
	}
	rank := e.rank()
	i := slices.IndexFunc(q.reserved, func(r *Reservation) bool { return r.ID == w.ID })
	switch {
	case i >= 0 && t.now.Before(q.reserved[i].replan):
		return
	case i < 0 && len(q.reserved) >= t.p.Reservations && !outranks(w.Queue, rank, q.reserved[len(q.reserved)-1]):
		return
	case t.forecasts >= maxForecasts:
		return
	}
	w, _, ok := w.within(t.c, q.tree.Room, false)
	if !ok {
		return
	}
	t.forecasts++
	t.work += min(len(q.runs), maxAhead) / workRuns
	if i >= 0 {
		q.reserved = slices.Delete(q.reserved, i, i+1)
	}
	r, ok := t.forecast(w, rank)
	if !ok {
		e.class.forecastAt = t.now.Add(t.p.Quantum)
		return
	}
	q.reserved = append(q.reserved, r)
	slices.SortStableFunc(q.reserved, func(a, b *Reservation) int { return a.rank.Compare(b.rank) })
	q.reserved = q.reserved[:min(len(q.reserved), t.p.Reservations)]
	if e.told.At.IsZero() && slices.Contains(q.reserved, r) {
		e.told = predict.Telling{At: t.now, Wait: r.Start.Sub(t.now)}
	}
}

func (e *entry) rank() order.Rank {
	return order.Rank{Priority: e.class.priority, First: e.class.first, Overdue: e.urgent, Level: e.class.rung.Level, Turn: e.class.rung.Turn, Age: e.w.ID}
}

// outranks says that one goes before a reservation: in its own queue by rank, elsewhere by priority.
func outranks(queue string, rank order.Rank, r *Reservation) bool {
	if r.firm {
		return false
	}
	if r.queue == queue {
		return rank.Compare(r.rank) < 0
	}
	return rank.Priority > r.rank.Priority
}

// blockers are the reservations one may not stand in the way of: those before it that it would
// outlast.
func (t *turn) blockers(e *entry) []*Reservation {
	if len(t.q.reserved) == 0 && len(t.q.claims) == 0 {
		return nil
	}
	var out []*Reservation
	rank := e.rank()
	var end time.Time
	for _, r := range t.q.reservations() {
		if r.ID == e.w.ID || outranks(e.w.Queue, rank, r) {
			continue
		}
		if !r.firm {
			if end.IsZero() {
				ran := t.q.ran(e.w.ID)
				end = t.now.Add(t.q.estimate(e.w).Quantile(safely, ran))
			}
			if !end.After(r.Start) {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// asGuest lets one that may be asked to go have room that is kept for its equals: better than that the
// room is idle until they come. It loses a restart at most when they do.
func (e *entry) asGuest(t *turn, w *Workload, at Assignment, blockers []*Reservation) (Assignment, bool) {
	if !w.Preemptible || t.p.NoPreemption || t.p.NoTurns {
		return nil, false
	}
	if p := t.q.past[w.ID]; p != nil && p.evicted >= maxTurns {
		return nil, false
	}
	var others []*Reservation
	for _, r := range blockers {
		if !r.takesGuest(w) {
			others = append(others, r)
		}
	}
	if !t.overlap(others, at) {
		return at, true
	}
	if len(others) == len(blockers) {
		return nil, false
	}
	return t.placeBeside(w, others)
}

func (r *Reservation) takesGuest(w *Workload) bool {
	return !r.firm && r.ID != w.ID && r.queue == w.Queue && r.rank.Priority == w.Priority
}

// hosts are those in whose kept room a place is.
func (w *Workload) hosts(t *turn, at Assignment) (ids []string) {
	for _, r := range t.q.reserved {
		if w.Preemptible && r.takesGuest(w) && t.overlap([]*Reservation{r}, at) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// reservations are all, those that somebody goes for first.
func (q *Queues) reservations() []*Reservation {
	out := make([]*Reservation, 0, len(q.claims)+len(q.reserved))
	for _, c := range q.claims {
		out = append(out, &c.Reservation)
	}
	return append(out, q.reserved...)
}

// overlap says that a place is on a node of these reservations, or on a machine that counts the
// processes of one.
func (t *turn) overlap(rs []*Reservation, at Assignment) bool {
	if len(rs) == 0 {
		return false
	}
	var hosts map[*host]bool
	for _, h := range t.c.hosts {
		if h.nodes > 0 && hosts == nil {
			hosts = map[*host]bool{}
			for _, r := range rs {
				for number := range r.nodes {
					if n := t.c.nodes[number]; n != nil && n.host != nil {
						hosts[n.host] = true
					}
				}
			}
		}
	}
	for _, r := range rs {
		for _, slots := range at {
			for _, s := range slots {
				if r.nodes[s.Node] || (hosts != nil && hosts[t.c.nodes[s.Node].host]) {
					return true
				}
			}
		}
	}
	return false
}

// placeBeside places w as if these reservations already stood wherever their room is free.
func (t *turn) placeBeside(w *Workload, rs []*Reservation) (Assignment, bool) {
	if len(rs) == 0 {
		return place(t.c, w)
	}
	t.c.topology()
	freed, mark := t.c.freed, t.c.known.Begin()
	held := t.block(rs)
	at, ok := place(t.c, w)
	for _, id := range held {
		t.c.Release(id)
	}
	t.c.known.End(mark)
	t.c.freed = freed
	return at, ok
}

// block holds the room of reservations as far as it is free, to the last thousandth of a device
// and the last core, and says under which names.
func (t *turn) block(rs []*Reservation) []string {
	var held []string
	hold := func(need Need, s api.Slot) {
		id := "\x00" + strconv.Itoa(len(held))
		if t.c.Hold(id, []Role{{Need: need}}, Assignment{{s}}) == nil {
			held = append(held, id)
		}
	}
	for _, r := range rs {
		for i, slots := range r.At {
			for _, s := range slots {
				n, ok := t.c.nodes[s.Node]
				if !ok {
					continue
				}
				need := r.roles[i].Need
				share := need.Part()
				need.CPU = min(need.CPU, api.MilliCPU(max(n.room.CPU, 0)))
				need.Memory = min(need.Memory, api.Bytes(max(n.room.Memory, 0)))
				need.Disk = min(need.Disk, max(n.disk, 0))
				free := api.Slot{Node: s.Node}
				for mask := s.Devices & lowMask(len(n.Devices)); mask != 0; mask &= mask - 1 {
					left := n.room.Free[bits.TrailingZeros64(mask)]
					if left >= share {
						free.Devices |= mask & -mask
					} else if left > 0 { // a part of it
						hold(Need{Share: left}, api.Slot{Node: s.Node, Devices: mask & -mask})
					}
				}
				hold(need, free)
			}
		}
	}
	return held
}

// ending is when a run is expected to end.
type ending struct {
	r    *run
	left time.Duration
}

// endings are runs by when they are expected to end, the soonest first.
type endings struct {
	made, at time.Time // when they were worked out, and brought up to date
	stale    bool      // a turn began since
	list     []ending  // nil before somebody asks
}

// manyRuns is from how many runs on their ends are believed for a while, a millisecond for each: to
// work them out costs the more, and the next ones are the less of a surprise.
const manyRuns = 4096

func (e *endings) soonest(now time.Time, q *Queues) []ending {
	many := len(q.runs) >= manyRuns
	switch {
	case e.list == nil || e.stale && (!many || now.Sub(e.made) > time.Duration(len(q.runs))*time.Millisecond):
		e.made, e.list = now, e.worked(now, q.runs, many)
	case e.stale:
		e.refresh(now.Sub(e.at))
	}
	e.at, e.stale = now, false
	return e.list
}

// refresh brings what is still believed up to date: some run no more.
func (e *endings) refresh(age time.Duration) {
	e.list = slices.DeleteFunc(e.list, func(o ending) bool { return o.r.at < 0 })
	for i := range e.list {
		if o := &e.list[i]; o.r.leaving {
			o.left = 0
		} else {
			o.left = max(o.left-age, 0)
		}
	}
}

// worked works them out.
func (e *endings) worked(now time.Time, runs []*run, many bool) []ending {
	list := make([]ending, 0, len(runs))
	for _, r := range runs {
		left := time.Duration(0)
		if !r.leaving {
			left = r.soon(now, many)
		}
		list = append(list, ending{r, left})
	}
	return slices.Clip(order.Least(list, maxAhead, func(a, b ending) int {
		if a.left != b.left {
			return cmp.Compare(a.left, b.left)
		}
		return cmp.Compare(a.r.Workload.ID, b.r.Workload.ID)
	}))
}

// soon is in how long a run is expected to end; of many what was worked out is believed for an eighth of that.
func (r *run) soon(now time.Time, many bool) time.Duration {
	if !many || !now.Before(r.end.until) {
		left := r.estimate.Quantile(.5, r.ran(now))
		r.end = memo{now.Add(left).UnixNano(), now.Add(left / 8)}
		return left
	}
	return time.Duration(r.end.value - now.UnixNano())
}

// forecast finds the first of the expected ends after which w fits beside the reservations before it.
func (t *turn) forecast(w *Workload, rank order.Rank) (*Reservation, bool) {
	ends := t.ends.soonest(t.now, t.q)
	// Those it goes before will make way for it: they are worked out again.
	others := slices.DeleteFunc(t.q.reservations(), func(r *Reservation) bool { return outranks(w.Queue, rank, r) })
	t.c.topology()
	mark := t.c.known.Begin()
	defer func() { t.c.known.End(mark) }()
	for r := range t.q.lane(w.Queue).runs.UpTo(w.Priority) { // its guests go when it comes
		if slices.Contains(r.hosts, w.ID) {
			id := r.Workload.ID
			h := t.c.lift(id)
			defer func() { t.c.put(id, h) }()
		}
	}
	lifted := make([]*hold, 0, 64)
	to := func(k int) { // the world after k ends
		for len(lifted) < k {
			lifted = append(lifted, t.c.lift(ends[len(lifted)].r.Workload.ID))
		}
		for len(lifted) > k {
			last := len(lifted) - 1
			t.c.put(ends[last].r.Workload.ID, lifted[last])
			lifted = lifted[:last]
		}
	}
	defer to(0)
	try := func(k int) (Assignment, bool) {
		to(k)
		return t.placeBeside(w, others)
	}
	lo, hi := 0, min(1, len(ends)) // no room after lo; perhaps after hi
	at, ok := try(hi)
	for !ok {
		if hi == len(ends) {
			return nil, false
		}
		lo, hi = hi, min(2*hi, len(ends))
		at, ok = try(hi)
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if a, ok := try(mid); ok {
			hi, at = mid, a
		} else {
			lo = mid
		}
	}
	r := newReservation(w, at, rank)
	if hi > 0 {
		last := ends[hi-1]
		ran := last.r.ran(t.now)
		r.Start, r.guess = t.now.Add(last.left), !last.r.estimate.Tells(ran)
		r.Early = t.now.Add(min(last.r.estimate.Quantile(.1, ran), last.left))
		r.Late = t.now.Add(max(last.r.estimate.Quantile(.9, ran), last.left))
	} else {
		r.Start, r.Early, r.Late = t.now, t.now, t.now
	}
	if early, late, ok := t.q.foresight.Marks(r.Start.Sub(t.now)); ok {
		wait := r.Start.Sub(t.now)
		r.Early, r.Late = t.now.Add(min(early, wait)), t.now.Add(max(late, wait))
	}
	r.replan = t.now.Add(max(replanEvery, r.Start.Sub(t.now)/8))
	return r, true
}

func newReservation(w *Workload, at Assignment, rank order.Rank) *Reservation {
	r := &Reservation{ID: w.ID, At: at, queue: w.Queue, rank: rank, roles: w.Roles, devices: devicesOf(w), nodes: map[uint32]bool{}}
	for _, slots := range at {
		for _, s := range slots {
			r.nodes[s.Node] = true
		}
	}
	return r
}

// String is for people who debug.
func (r Reservation) String() string {
	return fmt.Sprintf("%s at %s (%s to %s)", r.ID, r.Start, r.Early, r.Late)
}
