package sched

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/fair"
	"github.com/fermi-cluster/fermi/sched/order"
	"github.com/fermi-cluster/fermi/sched/predict"
)

// Queues holds who waits and who runs, what their queues may use, and what was learned from those
// that finished. Not safe for concurrent use: it has one owner.
type Queues struct {
	tree    *fair.Tree
	learned *predict.Predictor
	now     time.Time     // of the last turn
	longest time.Duration // wait, as the last turn had it

	waiting map[string]*entry
	classes map[classKey]*class
	lanes   map[string]*lane
	names   []string // of lanes, sorted

	running map[string]*run
	runs    []*run
	elastic int              // runs that may grow or shrink
	growAt  time.Time        // when those are looked at again
	past    map[string]*past // of those that ran or asked others to go, until they are over

	undecided map[string]*entry // whose hours are not found yet
	held      order.Heap[held]  // who waits for better hours
	rates     uint64            // the cluster's when those were found

	reserved  []*Reservation
	claims    []*claim
	foresight predict.Foresight

	rhythm
}

// rhythm is what one turn leaves to the next.
type rhythm struct {
	swept      uint64    // the cluster's freed count when the refused were last made ready
	sweepAt    time.Time // when they are again, whatever happens
	idle       int       // sweeps in a row that let nobody start
	unfinished bool      // the last turn ended before it came to all that were ready
	hurried    int       // turns in a row that ended when somebody had come and started
	arrived    []string  // since then, the last few
	// pausedTo is when the next is allowed after too many of those.
	pausedTo time.Time
	patience time.Time // when somebody who waits for room beside its data no longer does
	ends     endings
	moves    moves
	standing order.Places[*run]
	hunts    uint64 // searches for victims so far
}

// HalfLife is how fast the past use of a queue fades.
const HalfLife = 24 * time.Hour

// class is all waiting workloads of one queue, priority, shape and size, oldest first. If the head
// does not fit, none of the others does.
type class struct {
	classKey
	spot    order.Spot
	dueSpot order.Spot // among the overdue
	entries order.Heap[*entry]
	// searchAt is when victims are looked for again after none were found, forecastAt when a time
	// is after there was none.
	searchAt, forecastAt time.Time
	searched             int  // nodes, of a search that goes on
	refused              bool // since the last start
}

type classKey struct {
	queue    string
	priority int
	shape    string
	level    int
	rung     order.Place
	first    bool
	overdue  bool
}

// Rank is the head's.
func (c *class) Rank() order.Rank {
	return order.Rank{Priority: c.priority, First: c.first, Level: c.rung.Level, Turn: c.rung.Turn, Age: c.entries.Top().w.ID}
}

// Where is for the shelf.
func (c *class) Where() *order.Spot { return &c.spot }

// lane is one queue's classes.
type lane struct {
	name  string
	shelf order.Shelf[*class]
	ready int // as the tree knows it
	count int // waiting workloads
	held  int // devices of its runs
	runs  order.Tiers[*run]
	giver giver // in the search for victims that goes on now
	dueLine
	dates dates
}

type entry struct {
	w     *Workload
	class *class    // where it is or, while claimed, was
	at    int       // in the class, -1 when not there
	since time.Time // waiting began, had it never run
	age   int       // in ageing, -1 when not there
	claim *claim    // it starts as soon as others have gone
	// urgent: when it was last looked at it went first because it was overdue.
	urgent bool
	work   int64 // expected, in device seconds
	told   predict.Telling
	rung   *order.Place // that it was given; nil: its own

	home   *homing // it waits for room where its data lies
	state  entryState
	held   int // in the heap of those held back
	window Window
}

// entryState is whether an entry is held back for better hours.
type entryState uint8

const (
	filed entryState = iota
	undecided
	heldBack
)

// past is what a workload did so far.
type past struct {
	ran     time.Duration   // before it was last stopped
	evicted int             // how often it had to go
	claims  int             // how often others were asked to go for it
	victims map[string]bool // who was; nobody is twice
	letGo   bool            // it is not held back again
	// patience is until when it waits for room where its data lies; zero: it never had to.
	patience time.Time
}

// ran is how long a workload that waits has run before.
func (q *Queues) ran(id string) time.Duration {
	if p := q.past[id]; p != nil {
		return p.ran
	}
	return 0
}

// history is a workload's past, made if need be.
func (q *Queues) history(id string) *past {
	p := q.past[id]
	if p == nil {
		p = &past{}
		q.past[id] = p
	}
	return p
}

// NewQueues is an empty one. A queue that was never set is open.
func NewQueues() *Queues {
	return &Queues{
		tree: fair.New(HalfLife), learned: predict.New(), waiting: map[string]*entry{}, classes: map[classKey]*class{},
		lanes: map[string]*lane{}, running: map[string]*run{}, past: map[string]*past{}, undecided: map[string]*entry{},
	}
}

// Set replaces the configuration of all queues, or refuses it with a *fair.Error. Guarantees are
// held against what the cluster has; nil leaves that out.
func (q *Queues) Set(queues []fair.Queue, total Vector) error {
	if total != nil {
		q.tree.SetTotal(total)
		if err := fair.Check(queues, total); err != nil {
			return err
		}
	}
	if err := q.tree.Set(queues); err != nil {
		return err
	}
	q.unpark()
	return nil
}

// SetPaused stops or opens a queue.
func (q *Queues) SetPaused(queue string, paused bool) { q.tree.SetPaused(queue, paused) }

// Usage is what a queue and those below it use now.
func (q *Queues) Usage(queue string) Vector { return q.tree.Usage(queue) }

// Add lets a workload wait; one that waits already is replaced. One that ran is taken off.
func (q *Queues) Add(w *Workload) {
	q.unwait(w.ID)
	if _, ok := q.running[w.ID]; ok {
		q.Stop(q.now, w.ID, false)
	}
	since := w.Submitted
	if since.IsZero() {
		since = q.now
	}
	if !since.IsZero() {
		since = since.Add(q.ran(w.ID))
	}
	e := &entry{w: w, since: since, at: -1, age: -1}
	q.waiting[w.ID] = e
	q.lane(w.Queue).count++
	if q.deferred(w) {
		q.hold(e)
		return
	}
	q.lane(w.Queue).begin(q, e)
	q.file(e, false)
	if q.past[w.ID] != nil { // it had a place, or others were asked for it: it has not come just now
		return
	}
	if len(q.arrived) == maxArrivals {
		q.arrived = slices.Delete(q.arrived, 0, 1)
	}
	q.arrived = append(q.arrived, w.ID)
}

// file puts an entry into the class it belongs to now.
func (q *Queues) file(e *entry, overdue bool) {
	key := e.key(q, overdue)
	c, ok := q.classes[key]
	if !ok {
		c = &class{classKey: key}
		q.classes[key] = c
	}
	e.class = c
	c.entries.Push(e)
	l := q.lane(key.queue)
	if ok {
		l.fix(c)
	} else {
		l.put(c)
	}
	q.count(l)
}

// key is the class where an entry belongs.
func (e *entry) key(q *Queues, overdue bool) classKey {
	w := e.w
	key := classKey{queue: w.Queue, priority: w.Priority, shape: w.shape(), first: w.Displaced, overdue: overdue, level: q.level(w, q.ran(w.ID))}
	if key.rung.Level = key.level; e.rung != nil && !overdue {
		key.rung = *e.rung
	}
	return key
}

// level is the size of what a workload has left to do, having run for a while.
func (q *Queues) level(w *Workload, ran time.Duration) int {
	if w.Preemptible {
		return levelOf(q.estimate(w).Probe(ran), devicesOf(w))
	}
	return levelOf(q.estimate(w).Index(ran), devicesOf(w))
}

func levelOf(left time.Duration, devices int) int {
	return order.Level(int64(left/time.Second) * int64(max(devices, 1)))
}

func (q *Queues) estimate(w *Workload) predict.Estimate {
	return q.learned.Estimate(predict.Key{User: w.User, Name: w.Name, Devices: devicesOf(w)}, declared(w))
}

// declared is how long the user said it takes, or has to take.
func declared(w *Workload) time.Duration {
	if w.Expected > 0 || w.Deadline.IsZero() || w.Submitted.IsZero() {
		return w.Expected
	}
	return max(w.Deadline.Sub(w.Submitted), 0)
}

func devicesOf(w *Workload) int {
	n := 0
	for i := range w.Roles {
		n += w.Roles[i].Replicas * w.Roles[i].Need.Devices
	}
	return n
}

func (q *Queues) lane(name string) *lane {
	l, ok := q.lanes[name]
	if !ok {
		l = &lane{name: name}
		q.lanes[name] = l
		at, _ := slices.BinarySearch(q.names, name)
		q.names = slices.Insert(q.names, at, name)
	}
	return l
}

// count tells the tree how much is worth trying in a lane.
func (q *Queues) count(l *lane) {
	if n := l.shelf.Ready(); n != l.ready {
		q.tree.Ready(l.name, n-l.ready)
		l.ready = n
	}
}

// Remove takes a workload out and forgets it, unless it runs; unknown is fine.
func (q *Queues) Remove(id string) {
	q.unwait(id)
	if _, ok := q.running[id]; !ok {
		delete(q.past, id)
	}
}

// unwait takes an entry out of whatever it is in.
func (q *Queues) unwait(id string) {
	e, ok := q.waiting[id]
	if !ok {
		return
	}
	delete(q.waiting, id)
	q.lane(e.w.Queue).count--
	q.lane(e.w.Queue).forget(e)
	q.unhold(e)
	q.unreserve(id)
	q.unclaim(e)
	q.leave(e)
}

// leave takes an entry out of its class, and the class away with its last.
func (q *Queues) leave(e *entry) {
	if e.at < 0 {
		return
	}
	c := e.class
	l := q.lane(c.queue)
	if c.entries.Len() == 1 {
		l.drop(c)
		delete(q.classes, c.classKey)
	}
	c.entries.Remove(e)
	if c.entries.Len() > 0 {
		l.fix(c)
	}
	q.count(l)
}

// Len counts who waits.
func (q *Queues) Len() int { return len(q.waiting) }

// Waiting counts who waits in one queue.
func (q *Queues) Waiting(queue string) int {
	if l, ok := q.lanes[queue]; ok {
		return l.count
	}
	return 0
}

// Get finds a waiting workload.
func (q *Queues) Get(id string) (*Workload, bool) {
	e, ok := q.waiting[id]
	if !ok {
		return nil, false
	}
	return e.w, true
}

// Paused says whether a queue or one above it is paused, and which.
func (q *Queues) Paused(queue string) (string, bool) { return q.tree.Paused(queue) }

// ready counts classes worth trying, parked those that were refused.
func (q *Queues) ready() (n int) {
	for _, l := range q.lanes {
		if _, paused := q.tree.Paused(l.name); !paused {
			n += l.shelf.Ready()
		}
	}
	return n
}

func (q *Queues) parked() (n int) {
	for _, l := range q.lanes {
		n += l.shelf.Parked()
	}
	return n
}

// unpark makes all that were refused worth trying again.
func (q *Queues) unpark() {
	for _, name := range q.names {
		if l := q.lanes[name]; l.shelf.Parked() > 0 {
			l.unpark()
			q.count(l)
		}
	}
}

// Before is the order in a class.
func (e *entry) Before(other *entry) bool { return e.w.ID < other.w.ID }

// Lies is where it is in its class.
func (e *entry) Lies() *int { return &e.at }
