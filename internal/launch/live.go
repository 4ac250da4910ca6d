package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/launch/unpack"
	"github.com/fermi-cluster/fermi/internal/link"
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

// live waits for go, runs the process and returns its end, the tree gone and the pipes drained.
func (l *launcher) live(ctx context.Context, outs *outputs) engine.Exit {
	work, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	code := make(chan error, 1)
	wg.Go(func() { code <- l.prepare(work) })
	proc, err := l.begin(ctx, code)
	if err != nil {
		return l.notStarted(err)
	}
	wg.Go(func() { outs.during(work) })
	return l.supervise(ctx, proc)
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

// begin waits until the leader said go and the code is there, and starts the process.
func (l *launcher) begin(ctx context.Context, code <-chan error) (*process, error) {
	said, ready := false, false
	for !said || !ready {
		if l.wishedStop() {
			return nil, errStopped
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.stop.ch:
			return nil, errStopped
		case err := <-code:
			if err != nil {
				return nil, err
			}
			ready = true
		case epoch := <-l.goes:
			if said {
				continue
			}
			if err := record.Write(l.dir, record.FileGo, record.Go{Epoch: epoch, Attempt: l.replica.Attempt, At: l.clock.Now()}); err != nil {
				return nil, err
			}
			said = true
		case <-l.clock.After(recordPoll):
		}
	}
	if _, asked := l.stop.wish(); asked || l.wishedStop() {
		return nil, errStopped
	}
	dir, err := workDir(l.replica, filepath.Join(l.dir, record.DirCode))
	if err != nil {
		return nil, err
	}
	start := plain
	if l.tenant.UID != 0 {
		start = l.walled
	}
	r := settled(l.replica, l.dir)
	return spawn(r, dir, environ(r, l.dir, l.secrets, l.creds, os.LookupEnv), l.spool, start)
}

// prepare makes the folders and brings the code, while go is waited for.
func (l *launcher) prepare(ctx context.Context) error {
	if err := l.makeFolders(); err != nil {
		return err
	}
	if err := l.bringSecrets(ctx); err != nil {
		return err
	}
	code := filepath.Join(l.dir, record.DirCode)
	if l.replica.Code == nil || l.replica.Code.Folder != "" {
		return l.give(code)
	}
	for pause := uploadPause; ; pause = min(2*pause, maxRetry) {
		err := l.bring(ctx, l.replica.Code, code)
		if err == nil {
			return l.give(code)
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

// clone brings a revision beside its place and moves it there when it is whole.
func (l *launcher) clone(ctx context.Context, g *api.Git, place string) error {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	tmp := place + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(place), os.Mkdir(tmp, 0o700)); err != nil {
		return err
	}
	secret := map[string]string{}
	for ref, value := range l.secrets {
		if ref.Secret == g.Secret {
			secret[ref.Key] = value
		}
	}
	commit, err := gitcode.Clone(ctx, gitcode.Source{URL: g.URL, Revision: g.Revision, Submodules: g.Submodules, Secret: secret}, tmp, filepath.Join(l.dir, record.DirTmp))
	if err != nil {
		if l.gitTries++; l.gitTries >= maxGitTries && !isOurs(err) {
			return fault.New(fault.Unavailable, "GitUnreachable", fault.T("The repository could not be brought in %d tries: %v.", "尝试 %d 次仍无法获取仓库：%v。", l.gitTries, err)).
				WithHint(fault.T("Check spec.code.git.url and that the node reaches it.", "请检查 spec.code.git.url 以及节点能否访问。")).Because(err)
		}
		return err
	}
	l.spool.notice("code %s at %s", g.URL, commit)
	return os.Rename(tmp, place)
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

// fetch unpacks the archive beside its place and moves it there when it is whole and is what its
// digest says.
func (l *launcher) fetch(ctx context.Context, digest, place string) error {
	tmp := place + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(place), os.Mkdir(tmp, 0o700)); err != nil {
		return err
	}
	read, write := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		err := l.client.FetchArchive(ctx, digest, write)
		write.CloseWithError(err) // nil is the end of the archive
		fetched <- err
	}()
	sum := sha256.New()
	body := io.TeeReader(read, sum)
	_, err := unpack.Unpack(ctx, body, tmp, unpack.DefaultLimits)
	if err == nil {
		_, err = io.Copy(io.Discard, body) // what follows the archive's end is part of its digest
	}
	read.CloseWithError(err)
	if ferr := <-fetched; ferr != nil && (err == nil || !errors.Is(ferr, err)) && ctx.Err() == nil && !isOurs(err) {
		err = ferr
	}
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fault.New(fault.Invalid, "BadArchive", fault.T("The stored code archive is damaged: it is not what its digest says.",
			"已存储的代码归档已损坏：内容与摘要不符。")).
			WithHint(fault.T("Upload it and submit the task again.", "请重新上传并提交任务。")).
			Because(fmt.Errorf("digest %s instead of %s", got, digest))
	}
	return os.Rename(tmp, place)
}

func isOurs(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}

// supervise watches the process until nothing of its tree is left.
func (l *launcher) supervise(ctx context.Context, proc *process) engine.Exit {
	w := &warden{
		l: l, proc: proc, reaper: reaper{main: proc.pid, said: l.hear(proc)},
		tree: &tree{self: os.Getpid(), group: l.group, mark: []byte("FERMI_REPLICA=" + string(l.replica.Name)), log: l.log},
	}
	w.oomBefore = w.tree.oomKills()
	at := l.clock.Now()
	start := startRecord(proc.pid, l.cgroupPath(), at)
	if err := record.Write(l.dir, record.FileStart, start); err != nil {
		l.log.Error("start can't be recorded", "error", err) // go.json alone keeps a second start away
	}
	l.client.Started(at, proc.pid)
	w.watch(ctx)
	proc.drained()
	return w.exit()
}

// warden is the loop around a living tree.
type warden struct {
	l         *launcher
	proc      *process
	tree      *tree
	reaper    reaper
	oomBefore int

	why     string           // reason we end it ourselves; "" when it ends by itself
	kill    time.Time        // from then on SIGKILL; zero: nobody is ending it
	ending  bool             // the whole tree was asked to end
	resting bool             // the main process has ended and others were left
	peak    int64            // of the samples
	poll    time.Duration    // between looks at an ending tree
	tick    <-chan time.Time // the next look
}

const (
	usageEvery = 5 * time.Second
	pollMin    = 5 * time.Millisecond
	pollMax    = 250 * time.Millisecond
	restGrace  = 5 * time.Second // for what the main process leaves behind
)

// watch returns when the main process has ended and no other of the tree is left.
func (w *warden) watch(ctx context.Context) {
	l := w.l
	var timeout <-chan time.Time
	if d := l.replica.RunTimeout.Std(); d > 0 {
		timeout = l.clock.After(d)
	}
	usage, look := l.clock.After(usageEvery), l.clock.After(recordPoll)
	cancelled := ctx.Done()
	l.wishedStop() // one that came between the last look and the start
	for !w.over() {
		select {
		case <-l.children:
		case <-w.tick:
			w.press()
		case <-l.stop.ch:
			grace, _ := l.stop.wish()
			w.end(engine.ReasonStopped, grace)
		case <-cancelled:
			cancelled = nil
			w.end(engine.ReasonStopped, l.replica.StopGrace.Std())
		case <-timeout:
			w.end(engine.ReasonTimedOut, l.replica.StopGrace.Std())
		case <-look:
			look = l.clock.After(recordPoll)
			l.wishedStop()
		case <-usage:
			usage = l.clock.After(usageEvery)
			u := w.tree.usage(w.reaper.cpu, l.clock.Now())
			w.peak = max(w.peak, u.Peak)
			u.Peak = w.peak
			l.client.Usage(u)
		}
	}
}

// over reaps and says whether all is gone. When the main process has ended the rest is ended too.
func (w *warden) over() bool {
	w.reaper.reap()
	if !w.reaper.ended {
		return false
	}
	// Without a child there is no descendant either, since all orphans come to us.
	if w.reaper.empty && !w.tree.strangers() {
		return true
	}
	if !w.resting {
		w.resting = true
		w.end("", min(restGrace, w.l.replica.StopGrace.Std()))
	}
	return false
}

// end asks the tree to end and sets the moment from which it is killed; an earlier one stays.
func (w *warden) end(why string, grace time.Duration) {
	if w.why == "" && !w.reaper.ended {
		w.why = why
	}
	if !w.ending {
		w.ending = true
		w.tree.signal(unix.SIGTERM)
	}
	if at := w.l.clock.Now().Add(grace); w.kill.IsZero() || at.Before(w.kill) {
		w.kill = at
	}
	w.poll = pollMin
	w.tick = w.l.clock.After(min(w.poll, max(grace, 0)))
}

// press kills once the grace is over. It never gives up: while a process lives, its cards are not free.
func (w *warden) press() {
	now := w.l.clock.Now()
	if !now.Before(w.kill) {
		w.tree.signal(unix.SIGKILL)
	}
	w.poll = min(2*w.poll, pollMax)
	wait := w.poll
	if left := w.kill.Sub(now); left > 0 {
		wait = min(wait, left)
	}
	w.tick = w.l.clock.After(wait)
}

// exit says how it ended and why.
func (w *warden) exit() engine.Exit {
	e := exitOf(w.reaper.status)
	e.CPUTime = w.reaper.cpu
	e.PeakBytes = max(w.peak, w.reaper.maxRSS, w.tree.groupPeak())
	oom := w.tree.oomKills() > w.oomBefore
	switch {
	case w.why == engine.ReasonStopped:
		e.Reason = engine.ReasonStopped
	case w.why == engine.ReasonTimedOut:
		e.Reason = engine.ReasonTimedOut
		e.Message = both(fault.T("It ran longer than its run timeout of %v and was stopped.", "运行时间超过上限 %v，已被停止。", w.l.replica.RunTimeout))
	case oom && e.Reason != engine.ReasonSucceeded:
		e.Reason = engine.ReasonOutOfMemory
		e.Message = both(fault.T("It needed more memory than its limit of %v; ask for more memory, or use less.",
			"内存超过上限 %v；请申请更多内存或减少使用。", w.l.replica.Resources.Memory))
	case oom:
		e.Message = both(fault.T("A process of its tree was killed for lack of memory.", "进程树中有进程因内存不足被杀死。"))
	}
	return e
}
