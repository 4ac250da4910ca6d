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
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// stopper collects wishes to stop: from SIGTERM, the link and the engine's record. The shortest grace counts.
type stopper struct {
	mu    sync.Mutex
	asked bool
	grace time.Duration
	ch    chan struct{} // has one after each wish that changed something
}

func newStopper() *stopper { return &stopper{ch: make(chan struct{}, 1)} }

func (s *stopper) ask(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grace = max(grace, 0)
	if s.asked && grace >= s.grace {
		return
	}
	s.asked, s.grace = true, grace
	select {
	case s.ch <- struct{}{}:
	default:
	}
}

func (s *stopper) wish() (grace time.Duration, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grace, s.asked
}

// recordPoll is how often an order to stop is looked for, in case its signal was missed.
const recordPoll = 2 * time.Second

var errStopped = errors.New("stopped before it started")

// live runs one generation after the other and returns the last one's end, the tree gone and the
// pipes drained.
func (l *launcher) live(ctx context.Context, outs *outputs) engine.Exit {
	work, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer l.dropSharedMemory()
	defer l.leaveImage()
	defer wg.Wait()
	defer cancel()
	defer l.freePorts()
	var err error
	if l.place, err = l.settled(); err != nil {
		return l.notStarted(err)
	}
	defer l.place.space.Close()
	if err := l.place.space.Do(func() error { return errors.Join(l.reserveFirst(), l.reserveOwn()) }); err != nil {
		return l.notStarted(err)
	}
	defer l.reapStandby()
	defer l.goWritten.Wait()
	if held := l.holdDisk(); held != nil { // before anything is made in its folder
		wg.Go(func() { l.watchDisk(work, held) })
	}
	code, there := make(chan error, 1), make(chan struct{})
	// Not on the next generation's port: ranks of others, which may start before ours, look for rank 0 there.
	l.rehearsal.prepare(l.ranks.preflighted, l.place.space, l.serve.port)
	l.rehearsal.devices = func() preflight.Devices { return judgeDevices(l.replica.Devices, l.readings) }
	defer l.rehearsal.stop()
	peer := 0
	if l.peers != nil {
		peer = l.peers.port()
		wg.Go(func() { l.peers.serve(work) })
		wg.Go(func() { l.peers.send(work) })
	}
	ready := func() {
		facts := l.facts()
		l.rehearsal.trial = l.trialOf(facts, there)
		l.ranks.ready(l.place.address(), l.next.port, l.serve.port, peer, l.own, facts)
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
			grace, _ := l.stop.wish()
			l.saveLast(ctx, exit, l.clock.Now().Add(grace))
			return exit // nobody wants another generation: this is how it ended
		}
		var procs *processes
		if err == nil {
			prepared = true
			if why := l.obtain(ctx, g); why != nil && l.missed(g, why) {
				continue
			}
			var filled bool
			if filled, err = l.refill(ctx, g); err == nil && !filled {
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
			wg.Go(func() { l.socket.serve(work, l) })
			wg.Go(func() { outs.during(work) })
			wg.Go(func() { l.persist(work) })
			if l.ranks.files {
				wg.Go(func() { l.watchFolder(work) })
			}
		}
		var more bool
		var until time.Time
		if exit, until, more = l.supervise(ctx, procs, g); !more {
			l.saveLast(ctx, exit, until)
			return exit
		}
	}
}

func (l *launcher) notStarted(err error) engine.Exit {
	var s *startFault
	switch {
	case errors.As(err, &s):
		l.log.Error("process not started", "error", err, "cause", s.cause)
		exit := s.exit()
		l.spool.notice("%s", exit.Message)
		return exit
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return engine.Exit{Code: codeStopped, Reason: engine.ReasonStopped,
			Message: both(fault.T("Stopped before it started.", "在启动前已停止。"))}
	}
	l.log.Error("process not started", "error", err)
	text := fault.T("The launcher could not start the process; see launcher.log on the node.", "启动器无法启动进程；请查看节点上的 launcher.log。")
	return engine.Exit{Code: codeNotExecutable, Reason: engine.ReasonStartFailed, Message: both(text)}
}

// await waits until the leader opened a generation that was not started yet, and for the first one
// until the code is there; the order is on disk when it returns.
func (l *launcher) await(ctx context.Context, code <-chan error, prepare bool) (link.Generation, error) {
	var g *order
	for {
		if _, asked := l.stop.wish(); asked || l.wishedStop() {
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
		case <-l.stop.ch:
			return link.Generation{}, errStopped
		case err := <-code:
			if err != nil {
				return link.Generation{}, err
			}
			prepare = false
			if l.replica.Spare && l.said == 0 {
				l.standBy()
			}
			l.ranks.prepared()
		case <-l.orders.wake:
		case <-l.clock.After(recordPoll):
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
	l.ranks.started(l.next.port)
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
	l.rehearsal.stop()
	if err := l.takePort(g.Number); err != nil {
		return s, err
	}
	l.ranks.begin(g)
	l.checkSlots(g)
	l.folder.begin(g, l.clock.Now())
	if l.peers != nil {
		l.peers.begin(g)
	}
	l.spool.first(g.FirstRank)
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
func (l *launcher) starter() starter {
	if l.tenant.UID != 0 {
		return l.walled
	}
	return l.counted(l.plain)
}

// start begins the ranks of a generation; none of an earlier one is left.
func (l *launcher) start(g link.Generation) (*processes, error) {
	l.ranks.hangUp()
	s, err := l.prepareRanks(g)
	if err != nil {
		return nil, err
	}
	if l.standby.usable() {
		l.standby.tidy()
		p, err := spawn(s.replica, s.dir, s.env, s.each, 0, l.sink(g), l.standby.fork)
		if err == nil {
			l.log.Info("ranks forked from the standby", "generation", g.Number)
			l.runs()
			return p, nil
		}
		l.log.Warn("not forked from the standby", "error", err)
		l.endStandby()
		l.processTree().signal(unix.SIGKILL) // what it may have forked; nothing else runs
	}
	p, err := spawn(s.replica, s.dir, s.env, s.each, 0, l.sink(g), l.starter())
	if err != nil {
		return nil, err
	}
	l.runs()
	l.keepStandby(g, s.replica, s.dir, s.env, s.each[0], l.starter())
	return p, nil
}

// sink is where what the ranks of a generation print goes.
func (l *launcher) sink(g link.Generation) sink {
	return sink{g.FirstRank, l.spool, func(local int) *printed {
		return &printed{tell: func(step int64, last bool) bool { return l.ranks.printed(local, step, last, g.Number) }}
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
		l.spool.notice("%s", note)
	}
	if err := l.makeSharedMemory(); err != nil {
		return err
	}
	var err error
	if l.socket, err = l.openSocket(); err != nil {
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
	for pause := uploadPause; ; pause = min(2*pause, maxRetry) {
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
	l.spool.notice("%s", both(fault.T("code %s at %s", "代码 %s，提交 %s", g.URL, done.Commit)))
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
		return &startFault{codeNotExecutable, fault.Text{EN: f.Message.EN + " " + f.Hint.EN, ZH: f.Message.ZH + f.Hint.ZH}, err}
	case link.Permanent(err):
		return cantStart(codeNotExecutable, err,
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
