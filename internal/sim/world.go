package sim

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
)

// Config is one simulation.
type Config struct {
	Trace  Trace
	Zones  []*api.Zone
	Nodes  []*api.Node
	Queues []*api.Queue
	// Begin is the virtual wall time of the trace's begin: prices depend on the hour.
	Begin time.Time
	// Faults, when not nil, break nodes and tasks.
	Faults *Faults
	Seed   uint64
	// Checkpoint is how often tasks save; what lies behind the last save is lost with a place.
	Checkpoint time.Duration
	// Learned are jobs that ended before the begin: the planner knows how long they took.
	Learned []Job
	// Preemptible lets the planner take a place away: the jobs of the trace save when they are asked.
	// With AsSpecified that is so only for those whose own wish it is.
	Preemptible, AsSpecified bool
	// Elastic, when above 0, lets the gangs of the trace go on with this share of their replicas.
	Elastic float64
	// Moves lets the planner move gangs that save, so that one that waits finds room in one piece.
	Moves bool
	// Restart is what beginning again costs, and what a change of a gang's size does.
	Restart time.Duration
	// Progress, when not nil, is told the share that is done, now and then.
	Progress func(share float64)
}

// world is the state of a run.
type world struct {
	cfg     Config
	planner *placement.Planner
	rnd     *rand.Rand
	now     time.Duration
	agenda  agenda
	serial  uint64
	jobs    map[string]*life // by task id
	nodes   map[uint32]*api.Node
	hands   hands
	stat    *stat
	frail   *frail
	left    int // jobs that have not ended
	wake    time.Duration
	hope
	heard time.Duration // when the planner last heard of saves
}

// hope is whether anybody can still start: real counts the events to come that can let somebody, fruitless the turns in which nobody did.
type hope struct{ real, fruitless int }

// life is a job on its way through the world.
type life struct {
	job     *Job
	at      sched.Assignment // nil while waiting
	turn    int              // counts placements; an event of an older turn is void
	since   time.Duration    // of this placement
	begins  time.Duration    // of it: as long nothing is done
	waited  time.Duration    // since when it waits
	done    time.Duration    // saved progress
	first   time.Duration    // first start; never: not yet
	stops   int              // preemptions and faults
	ended   time.Duration    // never while not
	lost    time.Duration    // work done twice
	waiting time.Duration    // in all
}

// kind of an event; at one moment ends come before arrivals, and repairs before all. From broke on
// none lets anybody start.
type eventKind uint8

const (
	repaired eventKind = iota
	ended
	failed
	arrived
	broke   // a relapse of a certain node
	strikes // a new fault somewhere
	woke    // the planner asked to be called
)

type event struct {
	at     time.Duration
	kind   eventKind
	serial uint64
	job    *life
	turn   int
	node   uint32
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	if a[i].kind != a[j].kind {
		return a[i].kind < a[j].kind
	}
	return a[i].serial < a[j].serial
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

func (w *world) note(e event) {
	w.serial++
	e.serial = w.serial
	if e.kind < broke {
		w.real++
	}
	heap.Push(&w.agenda, e)
}

// Run plays the trace to its end. Jobs that no node could ever take are reported as such, not
// waited for.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := newWorld(cfg)
	for i := 0; w.goesOn(); i++ {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if cfg.Progress != nil {
				cfg.Progress(1 - float64(w.left)/float64(len(cfg.Trace.Jobs)))
			}
		}
		w.step()
	}
	return w.report(), nil
}

// patience is how often the planner may be woken in a row with nothing else to come and nobody
// started, before those who wait count as never starting.
const patience = 3

func (w *world) goesOn() bool {
	return w.left > 0 && len(w.agenda) > 0 && (w.real > 0 || w.fruitless < patience)
}

func (cfg *Config) validate() error {
	if len(cfg.Trace.Jobs) == 0 {
		return fault.New(fault.Invalid, "EmptyTrace", fault.T("The trace has no jobs.", "轨迹中没有作业。"))
	}
	if len(cfg.Nodes) == 0 {
		return fault.New(fault.Invalid, "NoNodes", fault.T("The simulated cluster has no nodes.", "模拟集群没有节点。"))
	}
	if cfg.Faults != nil {
		if err := cfg.Faults.Validate(); err != nil {
			return err
		}
	}
	if cfg.Elastic < 0 || cfg.Elastic > 1 {
		return fault.New(fault.Invalid, "BadShare", fault.T("The share that gangs may shrink to is between 0 and 1, such as 0.5.", "可缩容到的比例应在 0 到 1 之间，例如 0.5。"))
	}
	if cfg.Moves && (!cfg.Preemptible || cfg.Checkpoint == 0) {
		return fault.New(fault.Invalid, "NothingMoves", fault.T("Only jobs that save and may be stopped can be moved.", "只有会保存检查点且允许抢占的作业才能迁移。")).
			WithHint(fault.T("Leave out --no-preemption, and give --checkpoint an interval.", "请去掉 --no-preemption，并为 --checkpoint 设置间隔。"))
	}
	if cfg.Checkpoint < 0 || cfg.Restart < 0 {
		return fault.New(fault.Invalid, "NegativeTime", fault.T("Checkpoint interval and restart cost can't be negative.", "检查点间隔与重启开销不能为负。"))
	}
	return nil
}

func newWorld(cfg Config) *world {
	w := &world{
		cfg: cfg, planner: placement.NewPlanner(), rnd: rand.New(rand.NewPCG(cfg.Seed, 1)),
		jobs: map[string]*life{}, nodes: map[uint32]*api.Node{}, left: len(cfg.Trace.Jobs),
	}
	w.hands = newHands(w.time)
	for _, z := range cfg.Zones {
		w.planner.Zone(z)
	}
	for _, q := range cfg.Queues {
		w.planner.Queue(q)
	}
	for _, n := range cfg.Nodes {
		w.hands.machines.SetNode(*n)
	}
	w.look()
	if cfg.Moves {
		w.planner.AllowMoves()
	}
	w.stat = newStat(cfg)
	w.planner.At(cfg.Begin)
	for i := range cfg.Learned {
		w.planner.Learn(cfg.Learned[i].Task, cfg.Learned[i].Length)
	}
	for i := range cfg.Trace.Jobs {
		j := cfg.Trace.Jobs[i].own() // the same trace is played in other worlds
		j.Task.Meta.CreatedAt = cfg.Begin.Add(j.At)
		j.Task.Spec.Preemptible = cfg.Preemptible && (!cfg.AsSpecified || j.Task.Spec.Preemptible)
		j.stretch(cfg.Elastic)
		l := &life{job: j, first: never, ended: never}
		w.jobs[j.Task.Meta.ID] = l
		if j.Stands != nil {
			w.stand(l)
			continue
		}
		w.note(event{at: max(j.At, 0), kind: arrived, job: l})
	}
	if cfg.Faults != nil {
		w.breakLater()
	}
	return w
}

// step plays everything that happens at the next moment, then plans once.
func (w *world) step() {
	at := w.agenda[0].at
	w.stat.advance(w.now, at)
	w.now = at
	w.planner.At(w.time())
	for len(w.agenda) > 0 && w.agenda[0].at == at {
		e := heap.Pop(&w.agenda).(event)
		if e.kind < broke {
			w.real--
			if w.cfg.Faults != nil {
				w.fruitless = 0 // nodes may have been away until now
			}
		}
		w.play(e)
	}
	w.plan()
}

func (w *world) play(e event) {
	switch e.kind {
	case arrived:
		e.job.waited = e.job.job.At
		w.stat.waits(e.job.job, +1)
		w.planner.Submit(e.job.job.Task)
	case ended:
		if e.turn == e.job.turn && e.job.at != nil {
			w.hands.exit(e.job, engine.ReasonSucceeded)
			w.look()
		}
	case failed:
		if e.turn == e.job.turn && e.job.at != nil {
			w.hands.exit(e.job, engine.ReasonNonZero)
			w.look()
		}
	case broke:
		w.breakNode(e.node, true)
	case strikes:
		w.strike()
	case repaired:
		w.repair(e.node)
	}
}

// plan lets the planner decide until it has nothing more to say.
func (w *world) plan() {
	w.fruitless++
	w.tellSaves()
	for {
		res := w.planner.Plan()
		if len(res.Decisions)+res.Held > 0 { // whose hours have not come will start
			w.fruitless = 0
		}
		for _, d := range res.Decisions {
			w.start(w.jobs[d.Workload.ID], d.At)
		}
		for _, e := range res.Evictions { // it saves within its grace, and goes
			switch l := w.jobs[e.ID]; {
			case l == nil || l.at == nil:
			case e.To != nil:
				l.move(w, e)
			default:
				w.stat.Evictions++
				w.unplace(l, !e.AskCheckpoint)
			}
		}
		gaveWay := len(res.Evictions) > 0
		for _, r := range res.Resizes {
			if l := w.jobs[r.ID]; r.For == "" {
				w.resize(l, r.At, false) // the planner has it already
			} else {
				gaveWay = true
				w.shrink(l, r.At, false)
			}
		}
		if !res.More && !gaveWay {
			if at := res.Wake.Sub(w.cfg.Begin); !res.Wake.IsZero() && at > w.now && (w.wake <= w.now || at < w.wake) {
				w.wake = at
				w.note(event{at: at, kind: woke})
			}
			return
		}
	}
}

func (w *world) time() time.Time { return w.cfg.Begin.Add(w.now) }

func (w *world) start(l *life, at sched.Assignment) {
	l.at, l.since = at, w.now
	l.turn++
	l.waiting += w.now - l.waited
	w.stat.waits(l.job, -1)
	if l.first == never {
		l.first = w.now
	}
	l.begins = 0
	if l.stops > 0 {
		l.begins = w.cfg.Restart
	}
	w.goOn(l)
}

// goOn lets a job run where it stands until its end.
func (w *world) goOn(l *life) {
	w.occupy(l)
	w.note(event{at: w.now + l.rest(), kind: ended, job: l, turn: l.turn})
	w.failLater(l)
}

// never is the time of what has not happened.
const never = time.Duration(math.MinInt64)

func (w *world) occupy(l *life) {
	w.hands.start(l, w.nodes)
	w.stat.runs(l, +1)
}

// stand takes up a job that ran already when the trace begins.
func (w *world) stand(l *life) {
	j := l.job
	w.planner.Stand(j.Task, j.Stands)
	for _, r := range j.Stands.Spec.Roles {
		l.at = append(l.at, r.Slots)
	}
	l.turn, l.since, l.first, l.waiting = 1, j.Began, j.Began, j.Began-j.At
	w.occupy(l)
	w.note(event{at: max(j.Began+l.rest(), 0), kind: ended, job: l, turn: l.turn})
	w.failLater(l)
}

func (w *world) leave(l *life) {
	w.hands.clear(l)
	w.stat.runs(l, -1)
	w.stat.pay(l, max(l.since, 0), w.now, w.nodes)
	l.at = nil
}

func (w *world) end(l *life) {
	w.leave(l)
	l.ended = w.now
	w.left--
	w.planner.End(l.job.Task)
}

// unplace takes a job off its nodes. What it saved stays; with sudden what lies behind the last
// save is lost, without it the job saved before it left.
func (w *world) unplace(l *life, sudden bool) {
	w.settle(l, sudden)
	w.leave(l)
	l.stops++
	l.waited = w.now
	w.stat.waits(l.job, +1)
	w.planner.Requeue(l.job.Task)
}

// nodesOf lists the nodes of an assignment once each, in order.
func nodesOf(at sched.Assignment) []uint32 {
	var out []uint32
	for _, slots := range at {
		for _, s := range slots {
			out = append(out, s.Node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
