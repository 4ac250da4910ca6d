package sim

import (
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
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
	// Preemptible lets the planner take a place away: the jobs of the trace save when they are asked.
	Preemptible bool
	// Restart is what beginning again costs.
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
	on      map[uint32]map[string]*life // who stands on a node
	stat    *stat
	frail   *frail
	left    int // jobs that have not ended
	wake    time.Duration
	// real counts the events to come that can let somebody start; fruitless the turns in which nobody did.
	real, fruitless int
}

// life is a job on its way through the world.
type life struct {
	job     *Job
	at      sched.Assignment // nil while waiting
	turn    int              // counts placements; an event of an older turn is void
	since   time.Duration    // of this placement
	waited  time.Duration    // since when it waits
	done    time.Duration    // saved progress
	first   time.Duration    // first start; -1: never
	stops   int              // preemptions and faults
	ended   time.Duration    // -1 while not
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
	if cfg.Checkpoint < 0 || cfg.Restart < 0 {
		return fault.New(fault.Invalid, "NegativeTime", fault.T("Checkpoint interval and restart cost can't be negative.", "检查点间隔与重启开销不能为负。"))
	}
	return nil
}

func newWorld(cfg Config) *world {
	w := &world{
		cfg: cfg, planner: placement.NewPlanner(slog.New(slog.DiscardHandler)), rnd: rand.New(rand.NewPCG(cfg.Seed, 1)),
		jobs: map[string]*life{}, nodes: map[uint32]*api.Node{}, on: map[uint32]map[string]*life{}, left: len(cfg.Trace.Jobs),
	}
	for _, z := range cfg.Zones {
		w.planner.Zone(z)
	}
	for _, q := range cfg.Queues {
		w.planner.Queue(q)
	}
	for _, n := range cfg.Nodes {
		w.nodes[n.Spec.Number] = n
		w.planner.Node(n)
	}
	w.stat = newStat(cfg)
	for i := range cfg.Trace.Jobs {
		j := &cfg.Trace.Jobs[i]
		j.Task.Meta.CreatedAt = cfg.Begin.Add(j.At)
		j.Task.Spec.Preemptible = cfg.Preemptible
		l := &life{job: j, first: -1, ended: -1}
		w.jobs[j.Task.Meta.ID] = l
		w.note(event{at: j.At, kind: arrived, job: l})
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
		}
		w.play(e)
	}
	w.plan()
}

func (w *world) play(e event) {
	switch e.kind {
	case arrived:
		e.job.waited = w.now
		w.stat.waits(+1)
		w.planner.Submit(e.job.job.Task)
	case ended:
		if e.turn == e.job.turn && e.job.at != nil {
			w.end(e.job)
		}
	case failed:
		if e.turn == e.job.turn && e.job.at != nil {
			w.unplace(e.job, true)
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
	for {
		res := w.planner.Plan()
		if len(res.Decisions) > 0 {
			w.fruitless = 0
		}
		for _, d := range res.Decisions {
			w.start(w.jobs[d.Workload.ID], d.At)
		}
		for _, e := range res.Evictions { // it saves within its grace, and goes
			if l := w.jobs[e.ID]; l != nil && l.at != nil {
				w.stat.evictions++
				w.unplace(l, !e.AskCheckpoint)
			}
		}
		if !res.More && len(res.Evictions) == 0 {
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
	w.stat.waits(-1)
	if l.first < 0 {
		l.first = w.now
	}
	for _, n := range nodesOf(at) {
		if w.on[n] == nil {
			w.on[n] = map[string]*life{}
		}
		w.on[n][l.job.Task.Meta.ID] = l
	}
	w.stat.runs(l.job, +1)
	w.note(event{at: w.now + w.rest(l), kind: ended, job: l, turn: l.turn})
	w.failLater(l)
}

// rest is how long a job that starts now needs.
func (w *world) rest(l *life) time.Duration {
	need := l.job.Length - l.done
	if l.stops > 0 {
		need += w.cfg.Restart
	}
	return need
}

func (w *world) leave(l *life) {
	for _, n := range nodesOf(l.at) {
		delete(w.on[n], l.job.Task.Meta.ID)
	}
	w.stat.runs(l.job, -1)
	w.stat.pay(l, w.now-l.since, w.nodes)
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
	ran := w.now - l.since
	if l.stops > 0 {
		ran = max(0, ran-w.cfg.Restart)
	}
	kept := ran
	if sudden && w.cfg.Checkpoint > 0 {
		kept = ran - ran%w.cfg.Checkpoint
	} else if sudden {
		kept = 0
	}
	l.done += kept
	l.lost += ran - kept
	w.leave(l)
	l.stops++
	l.waited = w.now
	w.stat.waits(+1)
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
