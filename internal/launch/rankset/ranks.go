package rankset

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// Set is what this launcher knows of its own ranks, and what it tells the leader about them. It
// outlives the processes: what a dead rank had saved lies in memory that is ours.
type Set struct {
	tell func(link.Ranks)
	Log  *slog.Logger

	mu       sync.Mutex
	now      link.Generation  // of the ranks that were started last
	said     link.Ranks       // as told; Held is made anew for each
	held     [][]int64        // of each local rank, rising
	saved    []bool           // which have saved in this generation
	steps    []int64          // the newest step each reported
	at       []int64          // the newest step each was seen at in memory: reports may be on their way
	memory   shm.Slots        // the folder of that, and of what they saved
	pages    map[int]*os.File // what was opened of it in this generation
	sealing  []sync.Mutex     // of each local rank: held while a slot of it is summed
	begun    [][]int64        // saves of each that are under way
	stalls   [][]float64      // how long each waited for its last saves, in seconds
	mark     int64            // the watermark of now
	pinned   []int64          // steps that stay besides, rising
	copies   []link.Copy      // what is held for other launchers' ranks
	asked    bool             // frozen by the leader's word
	boundary *boundary        // about to be
	frozen   bool             // a rank failed: nothing may be overwritten that the leader may choose
	stopped  *word.Stop
	roles    map[string]word.Role // the newest; nil: never told
	conns    map[*rankConn]struct{}
	stall    stall
	own      own
	linked   []bool          // which speak for themselves in this generation
	python   []bool          // which are of the Python SDK
	Moved    chan struct{}   // has one after a rank said that it left
	offers   map[int][]int64 // what local ranks would keep, if they may give up the rest
	granted  int64           // the newest offer that the leader knows of
	job      *Job            // what is being persisted: its slots stay; nil: nothing
	wanted   *link.Persist   // the newest that the leader ordered
	ordered  int64           // the order that was taken up last
	Persist  chan struct{}   // has one after job or committed changed
	pending  bool            // something waits to be told, at due
	due      time.Time

	committed []link.Committed  // as the leader told
	wants     map[int]link.Want // steps that local ranks wait for
	Gone      chan struct{}     // has one after a rank's connection ended
	Released  chan struct{}     // has one after the leader said that nothing more is persisted of ranks that ended
	Files     bool              // the script saves itself: what lies in memory is not persisted
	scores    scores            // what rank 0 reported, if it is here
}

const (
	savedPause    = 10 * time.Millisecond // gathers what many ranks save at about the same time
	progressPause = time.Second           // how far they are is only shown
	usePause      = 30 * time.Second      // so is what is used
	maxSaving     = 8                     // saves of a rank under way: it has three slots
)

func New(n int, tell func(link.Ranks)) *Set {
	return &Set{tell: tell, Log: slog.New(slog.DiscardHandler), held: make([][]int64, n), saved: make([]bool, n), steps: make([]int64, n), at: make([]int64, n), pages: map[int]*os.File{}, sealing: make([]sync.Mutex, n), begun: make([][]int64, n), stalls: make([][]float64, n), conns: map[*rankConn]struct{}{}, stall: newStall(n), own: make(own, n), linked: make([]bool, n), python: make([]bool, n), Moved: make(chan struct{}, 1), Persist: make(chan struct{}, 1), offers: map[int][]int64{}, wants: map[int]link.Want{}, Released: make(chan struct{}, 1), Gone: make(chan struct{}, 1)}
}

// Begin is a new generation, before its ranks start: of what is held only the step to restore, and
// what came before, is still of the same run.
func (r *Set) Begin(g link.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.mark, r.frozen, r.asked, r.boundary = g, g.Restore, false, false, nil
	r.abandon()
	r.unsee()
	r.scores.rewind(g.Restore)
	r.said.SteppedAt, r.said.Pace, r.said.Use, r.said.Printed = time.Time{}, link.Pace{}, link.Use{}, false
	clear(r.linked)
	for i := range r.held {
		r.held[i] = slices.DeleteFunc(r.held[i], func(step int64) bool { return step > g.Restore })
		r.steps[i], r.at[i], r.saved[i], r.own[i], r.begun[i] = g.Restore, g.Restore, false, nil, nil
	}
	clear(r.offers)
	r.granted = r.said.Offer
	clear(r.wants)
	r.said.Keeping = link.Keeping{}
	r.unpin(func(step int64) bool { return step > g.Restore })
	pids := r.staying()
	r.stall.begin(time.Now())
	for local, pid := range pids {
		r.stall.pulses[local].pid, r.linked[local] = pid, true
	}
	r.said.Hung, r.said.HungAt, r.said.Kept = nil, time.Time{}, len(pids)
}

// Started tells the leader that the ranks of the generation run; port is for the next one.
func (r *Set) Started(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall.started(time.Now())
	r.said.Generation, r.said.Failed, r.said.Port, r.said.Missed = r.now.Number, nil, port, 0
	r.said.Facts, r.said.Preflight = nil, nil // of no use any more
	r.report()
}

// Ready tells the address and the ports to a leader that has opened no generation yet.
func (r *Set) Ready(address string, port, serve, peer int, own []int, facts *preflight.Facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Address, r.said.Port, r.said.Serve, r.said.PeerPort, r.said.Facts = address, port, serve, peer, facts
	r.said.Ports = append(r.said.Ports, own...)
	r.report()
}

// Preflighted tells what the connections to others were like.
func (r *Set) Preflighted(report *preflight.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Preflight = report
	r.report()
}

// Prepared tells the leader that nothing has to be brought any more.
func (r *Set) Prepared() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Prepared = true
	r.report()
}

// Warm tells the leader whether ranks could be forked here at once.
func (r *Set) Warm(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said.Warm != is {
		r.said.Warm = is
		r.report()
	}
}

func (r *Set) Failed(e *link.RankExit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.glance()
	r.said.Failed, r.frozen = e, true
	r.report()
}

// report tells the newest, mu held.
func (r *Set) report() {
	r.pending = false
	r.said.Held, r.said.Frozen, r.said.Copies, r.said.Mark = r.common(), r.frozen || r.asked, r.states(), r.mark
	r.said.Step, r.said.Watched, r.said.Own = r.slowest(), r.stall.watched(), r.own.told(r.now.FirstRank)
	r.tell(r.said)
}

// common is what all local ranks hold, mu held.
func (r *Set) common() []int64 {
	out := r.offered(0)
	for i := 1; i < len(r.held); i++ {
		other := r.offered(i)
		out = slices.DeleteFunc(out, func(step int64) bool { return !slices.Contains(other, step) })
	}
	return out
}

// offered is what a local rank holds without what it offers to give up; mu held.
func (r *Set) offered(i int) []int64 {
	kept, offers := r.offers[i]
	return slices.DeleteFunc(slices.Clone(r.held[i]), func(step int64) bool {
		return offers && !r.decides() && step > r.mark && !slices.Contains(kept, step)
	})
}

// take is the word of local rank i after its hello.
func (r *Set) take(i int, w word.Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hear(i, w)
}

// takeFrom is the word of a rank over its connection: one that was said in an earlier generation comes too late.
func (r *Set) takeFrom(c *rankConn, w word.Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.of == r.now.Number {
		r.hear(c.local, w)
	}
}

// hear is take, mu held.
func (r *Set) hear(i int, w word.Word) {
	pause := savedPause
	r.stall.note(i, w, time.Now())
	switch {
	case w.Saving != nil:
		r.saving(i, w.Saving.Step)
		return // it is told with its end
	case w.Saved != nil:
		r.whole(i, w.Saved.Step)
		r.held[i], r.saved[i] = newest(append(r.held[i], w.Saved.Step)), true
		if kept, offered := r.offers[i]; offered {
			r.offers[i] = append(kept, w.Saved.Step)
		}
	case w.Want != nil:
		r.want(i, w.Want)
		return
	case w.Held != nil && r.saved[i]:
		r.offers[i] = w.Held.Steps
		r.said.Offer++
		r.answerOffers()
	case w.Held != nil:
		// Said before it knows where to go on from: of what lies there beyond that only what it saved
		// in this generation is of this run.
		known := r.held[i]
		r.held[i] = newest(slices.DeleteFunc(slices.Clone(w.Held.Steps), func(step int64) bool {
			return step > r.now.Restore && !slices.Contains(known, step)
		}))
		r.unpin(func(step int64) bool { return !slices.Contains(r.held[i], step) })
	case w.Progress != nil:
		addPace(&r.said.Pace, w.Progress, w.Progress.Step-r.steps[i])
		r.said.Parameters = max(r.said.Parameters, min(w.Progress.Metrics["parameters"], 1e18))
		r.stalled(i, w.Progress.Metrics["save_stall"])
		r.own.note(i, w.Progress, w.Progress.Step-r.steps[i])
		if r.now.FirstRank+i == 0 {
			r.scores.note(w.Progress)
		}
		r.steps[i] = w.Progress.Step
		if pause = progressPause; len(r.said.Hung) > 0 { // it goes on after all
			r.said.Hung, r.said.HungAt, pause = nil, time.Time{}, 0
		}
		if r.said.SteppedAt.IsZero() && r.slowest() > r.now.Restore {
			r.said.SteppedAt, pause = time.Now(), min(pause, savedPause) // a recovery is measured by it
		}
	default:
		return
	}
	r.reach()
	if r.decides() {
		r.raise(r.newestHeld())
	}
	r.later(pause)
}

// decides says that all ranks are ours: the watermark is here, and nobody need be asked; mu held.
func (r *Set) decides() bool { return r.now.World == len(r.held) }

// answerOffers lets ranks give up the steps that they offered: from now on none of them can become the
// watermark, and one that had become it stays. Not while the leader may choose any of what it knows,
// and where other launchers' ranks count, only once it knows of the offer; mu held.
func (r *Set) answerOffers() {
	if !r.decides() && r.granted < r.said.Offer || r.frozen || r.asked {
		return
	}
	for i, kept := range r.offers {
		delete(r.offers, i)
		if r.decides() {
			r.raise(r.newestHeld())
		}
		mark := r.mark
		r.held[i] = slices.DeleteFunc(r.held[i], func(step int64) bool { return step > mark && !slices.Contains(kept, step) })
		for c := range r.conns {
			if c.local == i {
				keep := r.keeping()
				c.post(func(out *rankOutbox) { out.watermark, out.held, out.keep = mark, true, keep })
			}
		}
	}
}

// later reports after a pause, or earlier if that is on its way already; mu held.
func (r *Set) later(pause time.Duration) {
	due := time.Now().Add(pause)
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

// newest sorts, and keeps no more than a leader wants to know.
func newest(steps []int64) []int64 {
	slices.Sort(steps)
	steps = slices.Compact(steps)
	return steps[max(0, len(steps)-link.MaxHeld):]
}

// raise tells the ranks of a newer watermark, mu held.
func (r *Set) raise(step int64) {
	if step <= r.mark || r.frozen || r.asked {
		return
	}
	r.mark = step
	r.tellMark()
}

// Stop tells the ranks that they are about to be ended.
func (r *Set) Stop(grace time.Duration, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = &word.Stop{Grace: grace.Seconds(), Reason: reason}
	for c := range r.conns {
		c.post(func(out *rankOutbox) { out.stop = r.stopped })
	}
}

// join lets a rank in and gives its welcome; false for one that is not of the running generation.
func (r *Set) join(c *rankConn, h *word.Hello) (welcome word.Answer, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	local := h.Rank - r.now.FirstRank
	if h.Generation != r.now.Number || local < 0 || local >= len(r.held) || len(r.conns) >= 4*len(r.held) {
		return word.Answer{}, false
	}
	r.conns[c], c.local, c.of = struct{}{}, local, h.Generation
	r.stall.pulses[local].pid, r.stall.pulses[local].printed, r.linked[local] = pidOf(c.conn), false, true
	r.stall.pulses[local].arrived(time.Now())
	r.python[local] = h.Stacks()
	if r.mark > 0 {
		mark, keep := r.mark, r.keeping()
		c.post(func(out *rankOutbox) { out.watermark, out.keep = mark, keep })
	}
	if r.stopped != nil {
		c.post(func(out *rankOutbox) { out.stop = r.stopped })
	}
	if every := r.said.Every; every > 0 {
		c.post(func(out *rankOutbox) { out.interval = &word.Interval{Steps: every} })
	}
	if r.roles != nil && r.said.RoleTable != r.now.RoleTable { // it was started with others
		roles := r.roles
		c.post(func(out *rankOutbox) { out.roles = roles })
	}
	welcome.Welcome = &word.Welcome{Generation: r.now.Number, Offers: !r.Files, Pin: slices.Clone(r.pinned), At: r.memory.Folder != nil}
	if r.now.Restore > 0 && !r.Files {
		restore := r.now.Restore
		welcome.Welcome.Restore = &restore
	}
	return welcome, true
}

func (r *Set) part(c *rankConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	bell.Ring(r.Gone)
}

// StepOf is the newest step that a local rank made.
func (r *Set) StepOf(local int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.glance()
	return max(r.steps[local], r.at[local])
}

// Restored is where all of the ranks' states were read, which the leader hears with the generation that begins from them.
func (r *Set) Restored(tier string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Restored, r.said.RestoredAt = tier, at
}

// Refuse tells the leader that a checkpoint can't be had here.
func (r *Set) Refuse(from link.Origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Refused = &from
	r.report()
}

// Filed tells the leader of a newer complete entry.
func (r *Set) Filed(step int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step > r.said.Keeping.File && step > r.now.Restore {
		r.said.Keeping.File = step
		r.later(savedPause)
	}
}

var errTooLate = errors.New("the time that the task had to end was over")

func (r *Set) Talking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns) > 0
}

// WaitsLast tells the leader that the launcher waits; false: its ranks hold nothing in common.
func (r *Set) WaitsLast(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.common()) == 0 && !r.Files || r.Files && r.said.Keeping.File == 0 {
		return false
	}
	select {
	case <-r.Released: // of nobody who waited
	default:
	}
	r.said.Keeping.Ended, r.said.Keeping.Wants = reason, nil // who could want more has ended
	r.report()
	return true
}

// Late tells the leader that what is being persisted comes to nothing.
func (r *Set) Late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job != nil {
		left := *r.job
		left.Tiers = slices.DeleteFunc(slices.Clone(left.Tiers), func(tier string) bool {
			return slices.ContainsFunc(r.said.Persisted, func(p link.Persisted) bool { return p.Tier == tier && p.Step == left.Step })
		})
		r.notePersisted(&left, nil, errTooLate)
	}
	r.report()
}
