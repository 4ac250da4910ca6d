package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/activity"
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/output"
	"github.com/fermi-cluster/fermi/internal/launch/port"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/setup"
	"github.com/fermi-cluster/fermi/internal/launch/terminal"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

var errStopped = errors.New("stopped before it started")

// runner runs the generations of a replica, one after the other. It is one goroutine's.
type runner struct {
	tools
	orders   Orders
	wall     *setup.Enclosure
	supplies *setup.Supplies
	words    *commands
	guests
	ranks    *rankset.Set
	saves    *keeper.Keeper
	standby  *process.Nursery
	ports    *port.Set
	socket   *rankset.Socket // of prepare, before the first process starts
	readings engine.Readings
	children chan struct{} // a child ended
	overDisk chan overDisk // it holds more on disk than it may
	course
}

// guests are the people who come in, and the signs of their work.
type guests struct {
	shells  *terminal.Set
	signals *activity.Watch
	token   string // of the link
}

// course is how far a runner is.
type course struct {
	left      *output.Left     // what the script leaves in its working folder; nil: it stays there
	said      int64            // the generation that was ordered last
	goWritten sync.WaitGroup   // of later orders
	deadline  <-chan time.Time // of the whole attempt; nil: none
	timed     bool             // deadline was set
	spent     process.Spent
	before    before // of the generation that runs
	printed   []*rankset.Printed
	origins   map[int]diagnose.Origins // of what each rank prints
}

// live runs one generation after the other and returns the last one's end, the tree gone and the
// pipes drained.
func (r *runner) live(ctx context.Context, outs *output.Set, settled func() error) engine.Exit {
	work, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer r.leave()
	defer wg.Wait()
	defer cancel()
	var err error
	if err = settled(); err != nil {
		return r.notStarted(err)
	}
	defer r.wall.Place.Space.Close()
	if r.ports, err = port.Open(r.wall.Place.Space, recipePorts(r.wall.Home.Replica)); err != nil {
		return r.notStarted(err)
	}
	defer r.ports.Free()
	defer r.standby.Reap()
	defer r.goWritten.Wait()
	if held := r.holdDisk(); held != nil { // before anything is made in its folder
		wg.Go(func() { r.watchDisk(work, held) })
	}
	code, there := make(chan error, 1), make(chan struct{})
	// Not on the next generation's port: ranks of others, which may start before ours, look for rank 0 there.
	r.words.rehearsal.Prepare(r.ranks.Report.Preflighted, func() preflight.Devices { return inspect.JudgeDevices(r.wall.Home.Replica.Devices, r.readings) }, r.wall.Place.Space, r.ports.Serve.Port)
	defer r.words.rehearsal.Stop()
	peer := r.saves.Serve(work, &wg)
	ready := func() {
		facts := r.wall.Facts()
		r.words.rehearsal.Compute(inspect.TrialOf(r.wall.Home.Replica, facts, there, r.wall.Interpret, r.log))
		r.ranks.Report.Ready(r.wall.Place.Reach(), r.ports.Next.Port, r.ports.Serve.Port, peer, r.ports.OfRecipe(), facts)
	}
	if r.wall.Home.Replica.Image == "" && !r.wall.Home.Replica.Preflight { // otherwise nobody knows yet what its ranks will find
		ready()
		ready = nil
	}
	wg.Go(func() {
		err := r.prepare(work, ready)
		if err == nil {
			close(there)
		}
		code <- err
	})
	var exit engine.Exit
	ran := false
	for prepared := false; ; {
		g, err := r.await(ctx, code, !prepared)
		if err != nil && ran {
			grace, _ := r.words.stop.Wish()
			r.saves.SaveLast(ctx, exit.Reason, r.clock.Now().Add(grace))
			return exit // nobody wants another generation: this is how it ended
		}
		var procs *process.Set
		if err == nil {
			prepared = true
			if why := r.saves.Obtain(ctx, g); why != nil && r.missed(g, why) {
				continue
			}
			var filled bool
			if filled, err = r.saves.Refill(ctx, g); err == nil && !filled {
				continue
			}
		}
		if err == nil {
			procs, err = r.start(g)
		}
		if err != nil {
			return r.notStarted(err)
		}
		if !ran {
			ran = true
			wg.Go(func() { r.socket.Serve(work, r.ranks, r.log) })
			wg.Go(func() { outs.During(work) })
			wg.Go(func() { r.saves.Run(work) })
			for _, k := range r.holdKept() {
				wg.Go(func() { r.watchKept(work, k) })
			}
		}
		var more bool
		var until time.Time
		if exit, until, more = r.supervise(ctx, procs, g); !more {
			r.saves.SaveLast(ctx, exit.Reason, until)
			return exit
		}
	}
}

func (r *runner) notStarted(err error) engine.Exit {
	var s *process.StartFault
	switch {
	case errors.As(err, &s):
		r.log.Error("process not started", "error", err, "cause", s.Cause)
		exit := s.Exit()
		r.spool.Notice("%s", exit.Message)
		return exit
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return engine.Exit{Code: process.CodeStopped, Reason: engine.ReasonStopped,
			Message: fault.T("Stopped before it started.", "在启动前已停止。").Pack()}
	}
	r.log.Error("process not started", "error", err)
	text := fault.T("The launcher could not start the process; see launcher.log on the node.", "启动器无法启动进程；请查看节点上的 launcher.log。")
	return engine.Exit{Code: process.CodeNotExecutable, Reason: engine.ReasonStartFailed, Message: text.Pack()}
}

// await waits until the leader opened a generation that was not started yet, and for the first one
// until the code is there; the order is on disk when it returns.
func (r *runner) await(ctx context.Context, code <-chan error, prepare bool) (link.Generation, error) {
	var g *order
	for {
		if _, asked := r.words.stop.Wish(); asked || r.words.stop.Look() {
			return link.Generation{}, errStopped
		}
		if o := r.words.inbox.after(r.said); o != nil {
			if err := r.recordGo(o); err != nil {
				return link.Generation{}, err
			}
			g, r.said = o, o.g.Number
		}
		if g != nil && !prepare {
			return g.g, nil
		}
		select {
		case <-ctx.Done():
			return link.Generation{}, ctx.Err()
		case <-r.words.stop.Asked():
			return link.Generation{}, errStopped
		case err := <-code:
			if err != nil {
				return link.Generation{}, err
			}
			prepare = false
			if r.wall.Home.Replica.Spare && r.said == 0 {
				r.standBy()
			}
			r.ranks.Report.Prepared()
		case <-r.words.inbox.wake:
		case <-r.clock.After(keeper.StopPoll):
		}
	}
}

// recordGo writes the order down. The first is on disk before anything starts, and keeps a second start
// away for ever; the later ones, which change no more than its numbers, are on their way meanwhile.
func (r *runner) recordGo(o *order) error {
	said := record.Go{Epoch: o.epoch, Attempt: r.wall.Home.Replica.Attempt, Generation: o.g.Number, At: r.clock.Now()}
	if r.said == 0 {
		return r.orders.Keep(said)
	}
	r.goWritten.Go(func() {
		if err := r.orders.Keep(said); err != nil {
			r.log.Error("the order of a later generation can't be recorded", "error", err)
		}
	})
	return nil
}

// runs says that the ranks of a generation run, its order on disk.
func (r *runner) runs() {
	r.goWritten.Wait()
	r.ranks.Started(r.ports.Next.Port)
}

// missed tells the leader that a generation can't begin here for want of a state, so that it chooses
// another step; it says whether another one is waited for.
func (r *runner) missed(g link.Generation, why error) bool {
	r.log.Warn("the state to go on from could not be had", "step", g.Restore, "generation", g.Number, "error", why)
	evidence := diagnose.Evidence{Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, Words: "fermi: the state to go on from could not be had from a peer"}
	rule := causes().Cause(evidence)
	r.ranks.Missed(g, &link.RankExit{
		Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, At: r.clock.Now(),
		Message:   "the state to go on from could not be had from a peer",
		Diagnosis: engine.Diagnosis{Cause: rule.ID, Fingerprint: diagnose.Fingerprint(evidence, rule), Line: diagnose.Line(evidence, rule), Step: g.Restore},
	})
	return g.Hold
}

// recipePorts is how many ports the processes of a replica are known by.
func recipePorts(r engine.Replica) int {
	if r.Recipe == nil {
		return 0
	}
	return r.Recipe.Ports
}

// prepareRanks makes everything ready for the ranks of a generation.
func (r *runner) prepareRanks(g link.Generation) (s setup.Stage, err error) {
	t := r.processTree()
	r.before = before{ooms: t.OOMKills(), forks: t.ForksRefused()} // a rank may be through before anybody looks after it
	if s, err = r.stage(g); err != nil {
		return s, err
	}
	r.words.rehearsal.Stop()
	if err := r.ports.Take(g.Number); err != nil {
		return s, err
	}
	r.ranks.Begin(g)
	r.saves.Begin(g)
	r.spool.First(g.FirstRank)
	if err := r.wall.Home.WriteRecipe(s.Replica, g.Key); err != nil {
		return s, fmt.Errorf("recipe: %w", err)
	}
	pagesOf(r.wall.Home.Replica.Command).lock(&s, r.wall.Place.Space.Descriptor() != 0)
	r.shells.Prepare(terminal.Stage{Dir: s.Dir, Env: s.Shell, Each: s.Each, First: g.FirstRank})
	return s, nil
}

// start begins the ranks of a generation; none of an earlier one is left.
func (r *runner) start(g link.Generation) (*process.Set, error) {
	r.ranks.Conns.HangUp()
	s, err := r.prepareRanks(g)
	if err != nil {
		return nil, err
	}
	if ready := r.standby.Usable(); ready != nil {
		ready.Tidy()
		p, err := process.Spawn(s.Replica, s.Dir, s.Env, s.Each, 0, r.sink(g), ready.Fork)
		if err == nil {
			r.log.Info("ranks forked from the standby", "generation", g.Number)
			collect()
			r.runs()
			return p, nil
		}
		r.log.Warn("not forked from the standby", "error", err)
		r.standby.End()
		r.processTree().Signal(unix.SIGKILL) // what it may have forked; nothing else runs
	}
	p, err := process.Spawn(s.Replica, s.Dir, s.Env, s.Each, 0, r.sink(g), r.wall.Starter())
	if err != nil {
		return nil, err
	}
	collect()
	r.runs()
	r.standby.Keep(g.Hold, s.Replica, s.Dir, s.Env, s.Each[0], r.wall.Starter())
	return p, nil
}

// collect has garbage collected as usual: the engine starts us without, so that nobody waits for that before the user's process runs.
var collect = sync.OnceFunc(func() {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
})

// sink is where what the ranks of a generation print goes.
func (r *runner) sink(g link.Generation) process.Sink {
	return process.Sink{First: g.FirstRank, Spool: r.spool, Steps: func(local int) process.Reader {
		if r.origins[local] == nil {
			r.origins[local] = diagnose.Origins{}
		}
		p := &rankset.Printed{
			Tell:  func(said rankset.PrintedStep) bool { return r.ranks.Printed(local, said, g.Number) },
			Curve: func(step int64, values map[string]float64) { r.drawPrinted(g, local, step, values) }, Origins: r.origins[local],
		}
		r.printed = append(r.printed, p)
		return p
	}}
}

// stage is what ranks of a generation would be started with; it changes nothing.
func (r *runner) stage(g link.Generation) (setup.Stage, error) {
	return r.supplies.Stage(g, setup.RankPlace{Socket: r.socket.Path, Memory: r.wall.Home.Memory, Resume: r.saves.ResumeFrom(), Port: servePort(r.wall.Home.Replica.Serve, r.ports.Serve.Port), Peers: r.saves.HasPeers()})
}

// leave lets go of what the ranks had; none runs any more.
func (r *runner) leave() {
	if err := r.wall.LeaveImage(); err != nil {
		r.log.Warn("the image could not be let go", "error", err)
	}
	if err := r.supplies.LeaveData(); err != nil {
		r.log.Warn("datasets and models could not be let go", "error", err)
	}
	if err := r.wall.Home.DropMemory(); err != nil {
		r.log.Error("shared memory could not be freed", "error", err)
	}
}

// prepare makes the folders and brings image and code, while go is waited for. ready, where it is wanted, is called when
// the image is there.
func (r *runner) prepare(ctx context.Context, ready func()) error {
	if err := r.furnish(); err != nil {
		return err
	}
	if err := r.supplies.BringSecrets(ctx); err != nil {
		return err
	}
	if err := setup.FillHome(ctx, r.supplies); err != nil { // before the image: it may say which one that is
		return err
	}
	if err := r.supplies.BringImage(ctx); err != nil {
		return err
	}
	if err := setup.BringLayer(ctx, r.supplies); err != nil {
		return err
	}
	var warm sync.WaitGroup
	defer warm.Wait()
	warm.Go(func() { _ = r.wall.Home.Steward.Warm() }) // who needs it first says what failed
	if ready != nil {
		ready()
	}
	if err := r.supplies.BringCode(ctx); err != nil {
		return err
	}
	if err := setup.BringClones(ctx, r.supplies); err != nil {
		return err
	}
	if err := r.supplies.BringData(ctx); err != nil {
		return err
	}
	if err := r.left.Begin(); err != nil {
		r.log.Warn("the working folder can't be listed: what is left there will not be kept", "error", err)
	}
	return r.wall.Home.Steward.Warm()
}

// furnish makes the folders, the names, the memory and the socket that ranks find.
func (r *runner) furnish() error {
	if _, _, err := r.wall.Home.Code(); err != nil {
		return err
	}
	if err := r.wall.Home.MakeFolders(); err != nil {
		return err
	}
	if err := setup.GiveAccess(r.token, r.wall, r.spool.Hide); err != nil {
		return err
	}
	if note, err := r.wall.Place.Name(r.wall.Home.Dir, r.wall.Home.Replica); err != nil {
		return err
	} else if note != "" {
		r.log.Warn(note)
		r.spool.Notice("%s", note)
	}
	if err := r.wall.Home.MakeMemory(); err != nil {
		return err
	}
	r.ranks.Progress.SeenIn(r.wall.Home.Slots())
	if err := r.saves.SettleIn(record.PeerMemory(r.wall.Home.Memory), int64(r.wall.Home.Replica.Resources.SharedMemory)); err != nil {
		return err
	}
	tmp := ""
	if r.wall.Home.Tenant.UID != 0 {
		tmp = filepath.Join(r.wall.Home.Dir, record.DirTmp)
	}
	var err error
	r.socket, err = rankset.OpenSocket(r.wall.Home.Dir, tmp, r.wall.Home.Give)
	return err
}
