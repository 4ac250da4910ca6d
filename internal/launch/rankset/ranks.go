package rankset

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Config is what a Set is made of.
type Config struct {
	Ranks int              // local ones
	Tell  func(link.Ranks) // the leader; it must not wait, nor call back
	Curve Curve            // likewise; nil: nobody draws any
	Clock clock.Clock      // nil: the wall clock
	Log   *slog.Logger     // nil: nothing is said
	Files bool             // the script saves itself: what lies in memory is not persisted
	Soon  bool             // what ranks use decides something: it is told within a second
}

// Set is what this launcher knows of its own ranks, and what it tells the leader about them. It
// outlives the processes: what a dead rank had saved lies in memory that is ours.
//
// Conns, Progress and Report are parts with locks of their own, which are taken after the Set's, never before it, so that a part calls
// nobody.
type Set struct {
	Conns    *Conns
	Progress *Progress
	Report   *Report

	hearers
	clock clock.Clock
	log   *slog.Logger
	seals []sync.Mutex // of each local rank: held while a slot of it is summed

	mu   sync.Mutex
	cost cost
	stand
	waiting
}

// stand is where the steps of the local ranks stand: which they hold, which stay, and which are persisted. That hangs together, and is of
// the Set's own lock.
type stand struct {
	conns *Conns
	now   link.Generation // of the ranks that were started last
	said  link.Ranks      // as told; what the parts know is put in for each
	hold  holdings
	freezing
	jobs
	lock   *sync.Mutex         // the Set's; held by who calls
	report func()              // tells the leader at once
	later  func(time.Duration) // and after a pause
}

// Curve hears what a rank reports of a step in a generation.
type Curve func(generation int64, rank int, at time.Time, p *word.Progress)

// hearers are told at once.
type hearers struct {
	tell  func(link.Ranks)
	curve Curve
}

// waiting is what is told after a pause.
type waiting struct {
	pending bool // something is, at due
	due     time.Time
}

const (
	savedPause    = 10 * time.Millisecond // gathers what many ranks save at about the same time
	progressPause = time.Second           // how far they are is only shown
	usePause      = 30 * time.Second      // so is what is used, where nobody decides by it
)

// New starts nothing.
func New(cfg Config) *Set {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Curve == nil {
		cfg.Curve = func(int64, int, time.Time, *word.Progress) {}
	}
	n := cfg.Ranks
	r := &Set{
		Conns: newConns(n), Progress: newProgress(n, cfg.Files), hearers: hearers{cfg.Tell, cfg.Curve}, clock: cfg.Clock, log: cfg.Log, seals: make([]sync.Mutex, n),
		cost: newCost(n),
	}
	r.stand = stand{conns: r.Conns, hold: newHoldings(n), jobs: newJobs(cfg.Files), lock: &r.mu, report: r.report, later: r.later}
	pause := usePause
	if cfg.Soon {
		pause = progressPause
	}
	r.Report = &Report{usePause: pause, send: func(pause time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if pause > 0 {
			r.later(pause)
		} else {
			r.report()
		}
	}}
	return r
}

// Begin is a new generation, before its ranks start.
func (r *Set) Begin(g link.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.freezing = g, freezing{}
	r.jobs.begin(g.Restore)
	r.hold.begin(g)
	r.cost.begin()
	staying := r.Conns.begin(g.Number)
	r.Report.begin()
	r.Progress.begin(g, staying, r.clock.Now())
	r.said.SteppedAt, r.said.Pace, r.said.Persisted, r.said.Keeping, r.said.Kept = time.Time{}, link.Pace{}, nil, link.Keeping{}, len(staying)
}

// Started tells the leader that the ranks of the generation run; port is for the next one.
func (r *Set) Started(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress.started(r.clock.Now())
	r.Report.started(port)
	r.said.Generation, r.said.Failed, r.said.Missed = r.now.Number, nil, 0
	r.report()
}

// Failed tells the leader that a rank did, before anything else: what it may choose stays as it is.
func (r *Set) Failed(e *link.RankExit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress.freeze(true)
	r.said.Failed, r.frozen = e, true
	r.report()
}

// Missed is a generation that could not begin: the state it goes on from was not to be had.
func (r *Set) Missed(g link.Generation, e *link.RankExit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress.freeze(false)
	r.said.Missed, r.said.Generation, r.said.Failed, r.frozen = g.Restore, g.Number, e, true
	r.report()
}

// Order is the leader's newest word about a generation: where the roles are, how often ranks save, and whether what they hold is to stay.
func (r *Set) Order(g link.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	roles, interval := r.Conns.tellRoles(g), r.Conns.tellInterval(g)
	if roles || interval {
		r.report()
	}
	r.freeze(g.Number, g.Frozen, g.Save)
}

// Place gives those who stay their place; each is what their variables would be.
func (r *Set) Place(each [][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Conns.place(r.now, each, r.hold.pinned)
}

// report tells the newest, mu held.
func (r *Set) report() {
	r.pending = false
	r.Conns.fill(&r.said)
	r.Progress.fill(&r.said)
	r.Report.fill(&r.said)
	r.said.Held, r.said.Frozen, r.said.Mark, r.said.Offer = r.hold.common(), r.isFrozen(), r.hold.mark, r.hold.offer
	r.said.Copies = r.hold.states(r.now.FirstRank, r.said.Copies)
	r.tell(r.said)
}

// later reports after a pause, or earlier if that is on its way already; mu held.
func (r *Set) later(pause time.Duration) {
	due := time.Now().Add(pause) // only compared
	if r.pending && !due.Before(r.due) {
		return
	}
	r.pending, r.due = true, due
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.pending && r.due.Equal(due) {
			r.report()
		}
	})
}

// takeFrom is the word of a rank over its connection: one that was said in an earlier generation comes too late.
func (r *Set) takeFrom(c *rankConn, w word.Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Conns.current(c) {
		r.hear(c.local, w)
	}
}

// hear is a word of local rank i, mu held.
func (r *Set) hear(i int, w word.Word) {
	pause := savedPause
	r.Progress.note(i, w, r.clock.Now())
	switch {
	case w.Saving != nil:
		r.said.Saves.Begun++
		r.cost.saving(i, w.Saving.Step)
		return // it is told with its end
	case w.Saved != nil:
		if r.cost.whole(i, w.Saved.Step) {
			r.said.Saves.Whole++
		}
		r.hold.save(i, w.Saved.Step)
	case w.Want != nil:
		r.wants[i] = link.Want{Tier: w.Want.Tier, Step: w.Want.Step} // the last one counts
		r.answerWants(nil)
		return
	case w.Held != nil && r.hold.saved[i]:
		r.hold.propose(i, w.Held.Steps)
		r.answerOffers()
	case w.Held != nil:
		r.hold.say(i, w.Held.Steps, r.now.Restore)
	case w.Progress != nil:
		pause = r.advanced(i, w.Progress)
	case w.Phase != nil: // a pause is told, so that it is not taken for a stall
		pause = progressPause
	default:
		return
	}
	r.reach()
	if r.hold.all {
		r.raise(r.hold.newest())
	}
	r.later(pause)
}

// advanced is a report of progress; after the pause it is told. mu held.
func (r *Set) advanced(i int, w *word.Progress) (pause time.Duration) {
	steps, again := r.Progress.advance(i, w)
	r.curve(r.now.Number, r.now.FirstRank+i, r.clock.Now(), w)
	addPace(&r.said.Pace, w, steps)
	r.said.Parameters = max(r.said.Parameters, min(w.Metrics["parameters"], 1e18))
	if stall, known := r.cost.stalled(i, w.Metrics["save_stall"]); known {
		r.said.Saves.Stall = stall
	}
	if r.now.FirstRank+i == 0 {
		r.scores.note(w)
	}
	if pause = progressPause; again { // it goes on after all
		pause = 0
	}
	if r.said.SteppedAt.IsZero() && r.Progress.allStepped() {
		r.said.SteppedAt, pause = r.clock.Now(), min(pause, savedPause) // a recovery is measured by it
	}
	return pause
}

// Printed is a line of progress that a local rank printed. It counts only where the rank does not speak for itself: false.
func (r *Set) Printed(local int, said PrintedStep, generation int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.Progress.read(local, said, generation, r.clock.Now())
	if w != nil {
		r.hear(local, word.Word{Progress: w})
	}
	return ok
}

// Silence looks whether the ranks hang; true once for each alarm.
func (r *Set) Silence(now time.Time, look func(int, bool) *process.Vitals) (alarm, sure bool) {
	r.mu.Lock()
	keeping := r.job != nil || len(r.wants) > 0
	r.mu.Unlock()
	return r.Progress.silence(now, look, keeping)
}

// Hung tells the leader what the ranks do instead of making progress, unless one went on meanwhile.
func (r *Set) Hung(states []link.RankState, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Progress.blame(states, at) {
		r.report()
	}
}

// Converse hears one rank until it hangs up or ctx ends; an error is a word that was not understood.
func (r *Set) Converse(ctx context.Context, conn net.Conn) error {
	c := &rankConn{conn: conn, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	defer context.AfterFunc(ctx, c.close)()
	return c.talk(r)
}

// join lets a rank in and gives its welcome; false for one that is not of the running generation.
func (r *Set) join(c *rankConn, h *word.Hello) (welcome word.Answer, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	local := h.Rank - r.now.FirstRank
	if h.Generation != r.now.Number || local < 0 || local >= len(r.hold.held) || !r.Conns.add(c, local) {
		return word.Answer{}, false
	}
	r.Progress.joined(local, pidOf(c.conn), h.Stacks(), r.clock.Now())
	if mark, keep := r.hold.mark, r.keeping(); mark > 0 {
		c.post(func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
	}
	r.Conns.greet(c, r.now.RoleTable)
	welcome.Welcome = &word.Welcome{Generation: r.now.Number, Offers: !r.files, Pin: slices.Clone(r.hold.pinned), At: r.Progress.slots().Folder != nil}
	if r.now.Restore > 0 && !r.files {
		restore := r.now.Restore
		welcome.Welcome.Restore = &restore
	}
	return welcome, true
}
