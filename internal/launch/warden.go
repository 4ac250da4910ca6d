package launch

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

// supervise watches a generation until nothing of its tree is left. more: it is worth waiting for
// another generation; until: how long what is left may take otherwise.
func (r *runner) supervise(ctx context.Context, procs *process.Set, g link.Generation) (exit engine.Exit, until time.Time, more bool) {
	w := &warden{r: r, g: g, procs: procs, reaper: process.NewReaper(procs, procs.Hear(r.children), &r.spent), drag: process.Drag{Clock: r.clock}, tree: r.processTree(), pen: pen{points: r.points}}
	w.renew()
	if r.wall.Home.Replica.Inside == "" {
		w.meter = rankset.NewMeter(w.tree, r.spent.CPU, r.clock.Now())
	}
	if !record.Exists(r.wall.Home.Dir, record.FileStart) {
		r.begun(procs.PIDs[0])
	}
	if d := r.wall.Home.Replica.RunTimeout.Std(); d > 0 && !r.timed {
		r.deadline, r.timed = r.clock.After(d), true
	}
	r.shells.Begin(procs.PIDs[0], procs.Tree)
	w.lookOn(ctx)
	w.watch(ctx)
	w.lookAway()
	procs.Drained()
	for _, p := range r.printed {
		p.Flush()
	}
	r.printed = nil
	r.ranks.Report.Drained()
	if until = w.kill; w.why == "" { // how long we may wait after the ranks ended
		until = r.clock.Now().Add(r.wall.Home.Replica.StopGrace.Std())
	}
	return w.exit(), until, w.why == "" && (w.superseded || w.reaper.First >= 0 && w.g.Hold)
}

// lookOn begins to look at ranks and devices, until lookAway.
func (w *warden) lookOn(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	self := &w.r.wall.Home.Replica
	w.witness = &witness{
		tools: w.r.tools, ranks: w.r.ranks, procs: w.procs, g: w.g, drag: &w.drag, pid: w.rankPID,
		stays: make(chan int, 1),
		rests: self.Home == "" && self.Serve == nil, // who is there for others may well wait for them
	}
	wg.Go(func() { w.witness.watch(ctx) })
	wg.Go(func() { w.r.watchDevices(ctx, w.g) })
	wg.Go(func() { w.r.watchService(ctx) })
	if w.r.wall.Home.Replica.Home != "" && w.r.wall.Home.Replica.Inside == "" {
		wg.Go(func() { w.r.signals.Run(ctx) })
	}
	w.lookAway = func() {
		cancel()
		wg.Wait()
	}
}

// processTree is every process of the replica at this moment.
func (r *runner) processTree() *process.Tree {
	return &process.Tree{
		Self: os.Getpid(), Group: r.wall.Group, Mark: []byte("FERMI_REPLICA=" + string(r.wall.Home.Replica.Name)), Log: r.log, Spare: r.standby.Spares(), Own: r.wall.Helpers,
	}
}

// begun says, once, that the user's work runs, or that a spare waits.
func (r *runner) begun(pid int) {
	at := r.clock.Now()
	if err := record.Write(r.wall.Home.Dir, record.FileStart, process.StartRecord(pid, r.wall.GroupPath(), at)); err != nil {
		r.log.Error("start can't be recorded", "error", err) // go.json alone keeps a second start away
	}
	r.client.Started(at, pid)
}

// warden is the loop around a living tree.
type warden struct {
	r        *runner
	g        link.Generation
	procs    *process.Set
	tree     *process.Tree
	reaper   *process.Reaper
	meter    *rankset.Meter
	pen      pen
	drag     process.Drag
	witness  *witness
	lookAway func()
	farewell
	suspicion
	departure
}

// before is what the kernel had counted when the generation began.
type before struct{ ooms, forks int }

// farewell is how a tree is ended.
type farewell struct {
	why        string           // reason we end it ourselves; "" when it ends by itself
	diskText   string           // how it went over its disk limit
	superseded bool             // by a newer generation
	ending     bool             // the whole tree was asked to end
	resting    bool             // all ranks have ended and others were left
	kill       time.Time        // from then on SIGKILL; zero: nobody is ending it
	poll       time.Duration    // between looks at an ending tree
	tick       <-chan time.Time // the next look
}

// suspicion is who may have failed first.
type suspicion struct {
	culprit  <-chan time.Time // until then the one who caused the first failure may show itself
	patient  bool             // culprit was set
	failures map[int]failure  // by local rank
	leftThen int              // ranks that had not ended when failures were looked at
}

// departure is ranks that leave their generation to be of the next.
type departure struct {
	parting bool             // they were told to leave
	pressed bool             // and who did not was killed
	late    <-chan time.Time // from then on who has not left is killed
	alone   <-chan time.Time // until then another generation may be opened for those that left unasked
}

const (
	usageEvery = 5 * time.Second
	pollMin    = 5 * time.Millisecond
	pollMax    = 250 * time.Millisecond
	restGrace  = 5 * time.Second // for what the ranks leave behind
)

// watch returns when the ranks have ended and no other of the tree is left.
func (w *warden) watch(ctx context.Context) {
	r := w.r
	usage, look := r.clock.After(usageEvery), r.clock.After(keeper.StopPoll)
	cancelled := ctx.Done()
	r.words.stop.Look() // one that came between the last look and the start
	defer w.drag.End()
	for !w.over() {
		w.stay(ctx)
		select {
		case <-r.children:
		case <-w.tick:
			w.press()
		case p := <-r.words.probes:
			w.probe(p)
		case local := <-w.witness.stays:
			if !w.ending {
				w.witness.release(w.reaper, local)
			}
		case <-w.drag.Tick:
			_ = w.drag.Turn() // one that has ended is let go
		case <-w.culprit:
			w.culprit = nil
			w.blame()
		case <-r.words.inbox.wake:
			if r.words.inbox.after(w.g.Number) != nil && !w.superseded {
				if w.superseded = true; !w.part() {
					w.cut()
				}
			}
		case <-r.ranks.Conns.Moved:
			w.unasked()
		case <-w.late:
			w.tooLate()
		case <-w.alone:
			w.abandoned()
		case <-r.words.stop.Asked():
			grace, _ := r.words.stop.Wish()
			r.ranks.Conns.Stop(grace, "stopped")
			w.end(engine.ReasonStopped, grace)
		case <-cancelled:
			cancelled = nil
			w.end(engine.ReasonStopped, r.wall.Home.Replica.StopGrace.Std())
		case over := <-r.overDisk:
			w.diskText = over.text.Pack()
			w.end(engine.ReasonDiskLimit, min(over.grace, r.wall.Home.Replica.StopGrace.Std()))
		case <-r.deadline:
			r.deadline = nil
			w.end(engine.ReasonTimedOut, r.wall.Home.Replica.StopGrace.Std())
		case <-look:
			look = r.clock.After(keeper.StopPoll)
			r.words.stop.Look()
		case <-usage:
			usage = r.clock.After(usageEvery)
			u := w.tree.Usage(r.spent.CPU, r.clock.Now())
			r.spent.Peak = max(r.spent.Peak, u.Peak)
			u.Peak = r.spent.Peak
			r.client.Usage(u)
			r.signals.Used(u)
			w.meter.Note(r.ranks.Report, u)
			if w.meter != nil {
				w.pen.drawUse(w.g.Number, r.ranks.Progress.StepOf(0), u)
			}
		}
	}
}

// over reaps and says whether all is gone. When the ranks have ended the rest is ended too; when one
// has failed the others are not waited for.
func (w *warden) over() bool {
	w.reaper.Reap()
	if w.reaper.First >= 0 && !w.reaper.Settled && w.reaper.Left != w.leftThen {
		w.leftThen = w.reaper.Left // once for each end
		w.failed()
	}
	if w.reaper.Left > 0 {
		return false
	}
	w.r.shells.HangUp() // they end with the ranks
	if w.parting {
		w.giveUpParting() // nobody is left to stay
	}
	// Without a child there is no descendant either, since all orphans come to us. A standby is a child.
	if (w.reaper.Empty || len(w.tree.Spare) > 0 || w.tree.Childless()) && !w.tree.Strangers() {
		return true
	}
	if !w.resting {
		w.resting = true
		w.end("", min(restGrace, w.r.wall.Home.Replica.StopGrace.Std()))
	}
	return false
}

// failed is the moment in which a rank's end is seen: a leader that may open the next generation
// hears of it before anything else. One that only died of another is no reason yet to end the
// rest: the culprit may be among them, and about to say why.
func (w *warden) failed() {
	if w.why != "" || w.superseded {
		w.reaper.Settled = true
		return
	}
	found, victim := w.firstCause()
	e := w.exit()
	rank := w.g.FirstRank + w.reaper.First
	w.r.log.Info("a rank failed", "rank", rank, "generation", w.g.Number, "code", e.Code, "reason", e.Reason, "signal", e.Signal, "cause", e.Cause)
	if w.g.Hold {
		w.r.ranks.Failed(&link.RankExit{
			Rank: rank, Code: e.Code, Signal: e.Signal, Reason: e.Reason, Message: e.Message, At: found, Diagnosis: e.Diagnosis,
		})
	}
	if victim && w.reaper.Left > 0 && !w.ending {
		if !w.patient {
			w.patient, w.culprit = true, w.r.clock.After(culpritGrace)
		}
		return
	}
	w.blame()
}

// blame settles which rank failed first; the others are ended.
func (w *warden) blame() {
	w.reaper.Settled, w.culprit = true, nil
	if w.g.Hold && w.part() {
		return
	}
	if w.g.Hold || w.reaper.Left > 0 {
		w.cut()
	}
}

// cut kills the tree at once, without asking.
func (w *warden) cut() {
	w.ending = true
	w.r.shells.HangUp()
	w.kill = w.r.clock.Now()
	for _, pid := range w.reaper.PIDs() { // our children, not yet reaped: no look at /proc is needed
		if !slices.ContainsFunc(w.tree.Spare, func(p record.Process) bool { return p.PID == pid }) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	w.tree.Signal(unix.SIGKILL) // and what they left
	w.poll = pollMin
	w.tick = w.r.clock.After(w.poll)
}

// end asks the tree to end and sets the moment from which it is killed; an earlier one stays.
func (w *warden) end(why string, grace time.Duration) {
	if w.why == "" && w.reaper.Left > 0 && w.reaper.First < 0 {
		w.why = why
	}
	w.parting, w.late = false, nil // no next generation any more
	if !w.ending {
		w.ending = true
		w.drag.End()
		w.r.shells.HangUp()
		w.tree.Signal(unix.SIGTERM)
	}
	if at := w.r.clock.Now().Add(grace); w.kill.IsZero() || at.Before(w.kill) {
		w.kill = at
	}
	w.poll = pollMin
	w.tick = w.r.clock.After(min(w.poll, max(grace, 0)))
}

// press kills once the grace is over. It never gives up: while a process lives, its cards are not free.
func (w *warden) press() {
	now := w.r.clock.Now()
	if !now.Before(w.kill) {
		w.tree.Signal(unix.SIGKILL)
	}
	w.poll = min(2*w.poll, pollMax)
	wait := w.poll
	if left := w.kill.Sub(now); left > 0 {
		wait = min(wait, left)
	}
	w.tick = w.r.clock.After(wait)
}

// exit says how it ended and why: as the rank that failed first did.
func (w *warden) exit() engine.Exit {
	first := max(w.reaper.First, 0)
	e := process.ExitOf(*w.reaper.Ends[first])
	if w.reaper.First >= 0 {
		rank := w.g.FirstRank + first
		e.Rank, e.Diagnosis = &rank, w.failures[first].Diagnosis
		if e.Reason == engine.ReasonSucceeded {
			e.Reason = engine.ReasonLeftEarly
		}
	}
	e.CPUTime = w.r.spent.CPU
	e.PeakBytes = max(w.r.spent.Peak, w.r.spent.MaxRSS, w.tree.GroupPeak())
	oom := w.tree.OOMKills() > w.r.before.ooms
	switch {
	case w.why == engine.ReasonStopped || w.superseded:
		e.Reason = engine.ReasonStopped
	case w.why == engine.ReasonDiskLimit:
		e.Reason, e.Message = engine.ReasonDiskLimit, w.diskText
	case w.why == engine.ReasonTimedOut:
		e.Reason = engine.ReasonTimedOut
		e.Message = fault.T("It ran longer than its run timeout of %v and was stopped.", "运行时间超过上限 %v，已被停止。", w.r.wall.Home.Replica.RunTimeout).Pack()
	case oom && e.Reason != engine.ReasonSucceeded:
		e.Reason = engine.ReasonOutOfMemory
		e.Message = fault.T("It needed more memory than its limit of %v; ask for more memory, or use less.",
			"内存超过上限 %v；请申请更多内存或减少使用。", w.r.wall.Home.Replica.Resources.Memory).Pack()

	case w.failures[first].crowded && e.Reason != engine.ReasonSucceeded:
		e.Reason = engine.ReasonProcessLimit
		e.Message = fault.T("The process limit of %d was reached; ask for more (resources.processes), or start fewer processes and threads.",
			"已达到进程数上限 %d；请申请更多（resources.processes），或减少进程与线程。", w.tree.Group.ProcessLimit()).Pack()

	case oom:
		e.Message = fault.T("A process of its tree was killed for lack of memory.", "进程树中有进程因内存不足被杀死。").Pack()
	}
	return e
}
