package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/output"
	"github.com/fermi-cluster/fermi/internal/launch/port"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

var errStopped = errors.New("stopped before it started")

// live runs one generation after the other and returns the last one's end, the tree gone and the
// pipes drained.
func (l *launcher) live(ctx context.Context, outs *output.Set) engine.Exit {
	work, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer l.dropSharedMemory()
	defer l.leaveImage()
	defer wg.Wait()
	defer cancel()
	var err error
	if l.place, err = l.settled(); err != nil {
		return l.notStarted(err)
	}
	defer l.place.space.Close()
	if l.ports, err = port.Open(l.place.space, recipePorts(l.replica)); err != nil {
		return l.notStarted(err)
	}
	defer l.ports.Free()
	defer l.standby.Reap()
	defer l.goWritten.Wait()
	if held := l.holdDisk(); held != nil { // before anything is made in its folder
		wg.Go(func() { l.watchDisk(work, held) })
	}
	code := make(chan error, 1)
	there := make(chan struct{})
	// Not on the next generation's port: ranks of others, which may start before ours, look for rank 0 there.
	l.rehearsal.Prepare(l.ranks.Preflighted, func() preflight.Devices { return inspect.JudgeDevices(l.replica.Devices, l.readings) }, l.place.space, l.ports.Serve.Port)
	defer l.rehearsal.Stop()
	peer := l.saves.Serve(work, &wg)
	ready := func() {
		facts := l.facts()
		l.rehearsal.Compute(inspect.TrialOf(l.replica, facts, there, l.interpret, l.log))
		l.ranks.Ready(l.place.address(), l.ports.Next.Port, l.ports.Serve.Port, peer, l.ports.OfRecipe(), facts)
	}
	if l.replica.Image == "" && !l.replica.Preflight { // otherwise nobody knows yet what its ranks will find
		ready()
		ready = nil
	}
	wg.Go(func() {
		err := l.prepare(work, ready)
		if err == nil {
			close(there)
		}
		code <- err
	})
	var exit engine.Exit
	ran := false
	for prepared := false; ; {
		g, err := l.await(ctx, code, !prepared)
		if err != nil && ran {
			grace, _ := l.stop.Wish()
			l.saves.SaveLast(ctx, exit.Reason, l.clock.Now().Add(grace))
			return exit // nobody wants another generation: this is how it ended
		}
		var procs *process.Set
		if err == nil {
			prepared = true
			if why := l.saves.Obtain(ctx, g); why != nil && l.missed(g, why) {
				continue
			}
			var filled bool
			if filled, err = l.saves.Refill(ctx, g); err == nil && !filled {
				continue
			}
		}
		if err == nil {
			procs, err = l.start(g)
		}
		if err != nil {
			return l.notStarted(err)
		}
		if !ran {
			ran = true
			wg.Go(func() { l.socket.Serve(work, l.ranks, l.log) })
			wg.Go(func() { outs.During(work) })
			wg.Go(func() { l.saves.Run(work) })
		}
		var more bool
		var until time.Time
		if exit, until, more = l.supervise(ctx, procs, g); !more {
			l.saves.SaveLast(ctx, exit.Reason, until)
			return exit
		}
	}
}

func (l *launcher) notStarted(err error) engine.Exit {
	var s *process.StartFault
	switch {
	case errors.As(err, &s):
		l.log.Error("process not started", "error", err, "cause", s.Cause)
		exit := s.Exit()
		l.spool.Notice("%s", exit.Message)
		return exit
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return engine.Exit{Code: process.CodeStopped, Reason: engine.ReasonStopped,
			Message: fault.T("Stopped before it started.", "在启动前已停止。").Pack()}
	}
	l.log.Error("process not started", "error", err)
	text := fault.T("The launcher could not start the process; see launcher.log on the node.", "启动器无法启动进程；请查看节点上的 launcher.log。")
	return engine.Exit{Code: process.CodeNotExecutable, Reason: engine.ReasonStartFailed, Message: text.Pack()}
}

// await waits until the leader opened a generation that was not started yet, and for the first one
// until the code is there; the order is on disk when it returns.
func (l *launcher) await(ctx context.Context, code <-chan error, prepare bool) (link.Generation, error) {
	var g *order
	for {
		if _, asked := l.stop.Wish(); asked || l.stop.Look() {
			return link.Generation{}, errStopped
		}
		if o := l.orders.after(l.said); o != nil {
			if err := l.recordGo(o); err != nil {
				return link.Generation{}, err
			}
			g, l.said = o, o.g.Number
		}
		if g != nil && !prepare {
			return g.g, nil
		}
		select {
		case <-ctx.Done():
			return link.Generation{}, ctx.Err()
		case <-l.stop.Asked():
			return link.Generation{}, errStopped
		case err := <-code:
			if err != nil {
				return link.Generation{}, err
			}
			prepare = false
			if l.replica.Spare && l.said == 0 {
				l.standBy()
			}
			l.ranks.Prepared()
		case <-l.orders.wake:
		case <-l.clock.After(keeper.StopPoll):
		}
	}
}

// recordGo writes the order down. The first is on disk before anything starts, and keeps a second start
// away for ever; the later ones, which change no more than its numbers, are on their way meanwhile.
func (l *launcher) recordGo(o *order) error {
	said := record.Go{Epoch: o.epoch, Attempt: l.replica.Attempt, Generation: o.g.Number, At: l.clock.Now()}
	if l.said == 0 {
		return record.Write(l.dir, record.FileGo, said)
	}
	l.goWritten.Go(func() {
		if err := record.Write(l.dir, record.FileGo, said); err != nil {
			l.log.Error("the order of a later generation can't be recorded", "error", err)
		}
	})
	return nil
}

// runs says that the ranks of a generation run, its order on disk.
func (l *launcher) runs() {
	l.goWritten.Wait()
	l.ranks.Started(l.ports.Next.Port)
}

// missed tells the leader that a generation can't begin here for want of a state, so that it chooses
// another step; it says whether another one is waited for.
func (l *launcher) missed(g link.Generation, why error) bool {
	l.log.Warn("the state to go on from could not be had", "step", g.Restore, "generation", g.Number, "error", why)
	evidence := diagnose.Evidence{Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, Words: "fermi: the state to go on from could not be had from a peer"}
	rule := causes().Cause(evidence)
	l.ranks.Missed(g, &link.RankExit{
		Rank: g.FirstRank, Code: 1, Reason: engine.ReasonNonZero, At: l.clock.Now(),
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

// stage is what the ranks of a generation are started with.
type stage struct {
	replica engine.Replica
	dir     string
	env     []string
	each    [][]string
}

// prepareRanks makes everything ready for the ranks of a generation.
func (l *launcher) prepareRanks(g link.Generation) (s stage, err error) {
	if s, err = l.stageOf(g); err != nil {
		return s, err
	}
	l.rehearsal.Stop()
	if err := l.ports.Take(g.Number); err != nil {
		return s, err
	}
	l.ranks.Begin(g)
	l.saves.Begin(g)
	l.spool.First(g.FirstRank)
	if err := l.writeRecipe(s.replica, g.Key); err != nil {
		return s, fmt.Errorf("recipe: %w", err)
	}
	return s, nil
}

// stageOf is what ranks of a generation would be started with; it changes nothing.
func (l *launcher) stageOf(g link.Generation) (s stage, err error) {
	if s.dir, err = l.workDir(l.replica); err != nil {
		return s, err
	}
	if s.replica, err = settled(l.replica, l.dir, l.place.link(), g); err != nil {
		return s, fmt.Errorf("recipe: %w", err)
	}
	if s.replica, err = l.withPackages(s.replica); err != nil {
		return s, err
	}
	s.env, s.each = environ(s.replica, l.dir, l.secrets, l.creds, l.base(), l.place), l.rankEnviron(s.replica, g)
	return s, nil
}

// starter is how a fresh process is started here.
func (l *launcher) starter() process.Starter {
	if l.tenant.UID != 0 {
		return l.walled
	}
	return process.Counted(process.Finder(l.findProgram).Plain, l.group, l.log)
}

// start begins the ranks of a generation; none of an earlier one is left.
func (l *launcher) start(g link.Generation) (*process.Set, error) {
	l.ranks.HangUp()
	s, err := l.prepareRanks(g)
	if err != nil {
		return nil, err
	}
	if ready := l.standby.Usable(); ready != nil {
		ready.Tidy()
		p, err := process.Spawn(s.replica, s.dir, s.env, s.each, 0, l.sink(g), ready.Fork)
		if err == nil {
			l.log.Info("ranks forked from the standby", "generation", g.Number)
			l.runs()
			return p, nil
		}
		l.log.Warn("not forked from the standby", "error", err)
		l.standby.End()
		l.processTree().Signal(unix.SIGKILL) // what it may have forked; nothing else runs
	}
	p, err := process.Spawn(s.replica, s.dir, s.env, s.each, 0, l.sink(g), l.starter())
	if err != nil {
		return nil, err
	}
	l.runs()
	l.standby.Keep(g.Hold, s.replica, s.dir, s.env, s.each[0], l.starter())
	return p, nil
}

// sink is where what the ranks of a generation print goes.
func (l *launcher) sink(g link.Generation) process.Sink {
	return process.Sink{First: g.FirstRank, Spool: l.spool, Steps: func(local int) process.Reader {
		return &rankset.Printed{Tell: func(step int64, last bool) bool { return l.ranks.Printed(local, step, last, g.Number) }}
	}}
}

// prepare makes the folders and brings image and code, while go is waited for. ready, where it is wanted, is called when
// the image is there.
func (l *launcher) prepare(ctx context.Context, ready func()) error {
	if _, err := l.codeBase(); err != nil {
		return err
	}
	if err := l.makeFolders(); err != nil {
		return err
	}
	if note, err := l.place.name(l.dir, l.replica); err != nil {
		return err
	} else if note != "" {
		l.log.Warn(note)
		l.spool.Notice("%s", note)
	}
	if err := l.makeSharedMemory(); err != nil {
		return err
	}
	var err error
	tmp := ""
	if l.tenant.UID != 0 {
		tmp = filepath.Join(l.dir, record.DirTmp)
	}
	if l.socket, err = rankset.OpenSocket(l.dir, tmp, l.giveOne); err != nil {
		return err
	}
	if err := l.bringSecrets(ctx); err != nil {
		return err
	}
	if l.replica.Image != "" {
		if err := l.bringImage(ctx); err != nil {
			return err
		}
	}
	var warm sync.WaitGroup
	defer warm.Wait()
	warm.Go(func() { _ = l.steward.Warm() }) // who needs it first says what failed
	if ready != nil {
		ready()
	}
	if l.replica.Code == nil || l.replica.Code.Folder != "" {
		return l.steward.Warm()
	}
	code := filepath.Join(l.dir, record.DirCode)
	for pause := retry.First; ; pause = min(2*pause, retry.Most) {
		err := l.bring(ctx, l.replica.Code, code)
		if err == nil {
			return l.steward.Warm()
		}
		if ctx.Err() != nil || finalFault(err) {
			return asStartFault(err)
		}
		l.log.Warn("code not fetched yet", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.clock.After(pause):
		}
	}
}

// bring puts the code into place, from the server or from Git.
func (l *launcher) bring(ctx context.Context, code *api.Code, place string) error {
	if code.Git != nil {
		return l.clone(ctx, code.Git, place)
	}
	return l.fetch(ctx, code.Archive, place)
}

// gitPatience is how long one try to clone may take.
const gitPatience = 30 * time.Minute

// maxGitTries is after how many failures a repository counts as out of reach.
const maxGitTries = 6

// clone brings a revision to its place, in a process that has become the tenant. Nothing starts before it is whole.
func (l *launcher) clone(ctx context.Context, g *api.Git, place string) error {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	secret := map[string]string{}
	for ref, value := range l.secrets {
		if ref.Secret == g.Secret {
			secret[ref.Key] = value
		}
	}
	done, err := l.runChore(ctx, chore.Order{Clone: &chore.Clone{
		Source: gitcode.Source{URL: g.URL, Revision: g.Revision, Submodules: g.Submodules, Secret: secret}, Dir: place, Tmp: l.tmp(),
	}})
	if err != nil {
		if l.gitTries++; l.gitTries >= maxGitTries && !isOurs(err) {
			return fault.New(fault.Unavailable, "GitUnreachable", fault.T("The repository could not be brought in %d [try|tries]: %v.", "尝试 %d 次仍无法获取仓库：%v。", l.gitTries, err)).
				WithHint(fault.T("Check spec.code.git.url and that the node reaches it.", "请检查 spec.code.git.url 以及节点能否访问。")).Because(err)
		}
		return err
	}
	l.spool.Notice("%s", fault.T("code %s at %s", "代码 %s，提交 %s", g.URL, done.Commit).Pack())
	return nil
}

// finalFault says that fetching again brings the same.
func finalFault(err error) bool {
	var f *fault.Error
	var p *fs.PathError // our own disk, not the network
	return link.Permanent(err) || errors.As(err, &f) || errors.As(err, &p)
}

func asStartFault(err error) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return &process.StartFault{Code: process.CodeNotExecutable, Cause: err, Text: fault.Text{EN: f.Message.EN + " " + f.Hint.EN, ZH: f.Message.ZH + f.Hint.ZH}}
	case link.Permanent(err):
		return process.CantStart(process.CodeNotExecutable, err,
			"The code archive is not there any more; upload it and submit the task again.",
			"代码归档已不存在；请重新上传并提交任务。")
	}
	return err
}

// fetch brings the archive to a process that has become the tenant, which unpacks it in its place. Nothing starts before it
// is whole and what its digest says.
func (l *launcher) fetch(ctx context.Context, digest, place string) error {
	sum := sha256.New()
	err := l.feed(ctx, chore.Order{Unpack: &chore.Unpack{Dir: place}}, func(w io.Writer) error {
		return l.client.FetchArchive(ctx, digest, io.MultiWriter(w, sum))
	})
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fault.New(fault.Invalid, "BadArchive", fault.T("The stored code archive is damaged: it is not what its digest says.",
			"已存储的代码归档已损坏：内容与摘要不符。")).
			WithHint(fault.T("Upload it and submit the task again.", "请重新上传并提交任务。")).
			Because(fmt.Errorf("digest %s instead of %s", got, digest))
	}
	return nil
}

func isOurs(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}
