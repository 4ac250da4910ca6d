package terminal

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/tunnel"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

const (
	// most is how many sessions a replica may have. Of those that ended, or else of those that nobody is attached to, the oldest goes.
	most = 32
	// farewell is how long a client may take for the last words.
	farewell = 5 * time.Second
	// keepEnded is how long it is known how a session ended.
	keepEnded = 10 * time.Minute
)

// Config is what a Set needs.
type Config struct {
	// Talk answers a call of a server.
	Talk func(ctx context.Context, id string) (talkpb.Talk_AnswerClient, error)
	// Find is the program that a name means in this directory with this search path, with the user's rights.
	Find process.Finder
	UID  int // of the tenant; 0: the processes are who we are
	// Apart says that its processes have a network of their own, once they run.
	Apart func() bool
	Mark  string // the replica's name
	Group *cgroup.Group
	// Tunnels are the connections into the replica's network.
	Tunnels Tunnels
	Clock   clock.Clock
	Log     *slog.Logger
}

// Tunnels carries connections. Safe for concurrent use.
type Tunnels interface {
	// Serve makes a connection and carries it to its end; secret is told with its opening. An error is that nobody listens any more.
	Serve(stream tunnel.Stream, d *talkpb.Dial, secret string) error
	// HangUp ends all of them.
	HangUp()
}

// Set are the sessions of a replica. Safe for concurrent use.
type Set struct {
	cfg     Config
	work    sync.WaitGroup
	closing chan struct{}

	mu       sync.Mutex
	stage    *Stage
	first    *record.Process // process 1 of their wall; its PID is 0 where there is none
	tree     *inside.Tree    // likewise; nil where there is none
	closed   bool
	sessions map[string]*session
	order    []*session // the oldest first
	typed    time.Time  // when a client said something last
}

// Stage is what the replica's processes were started with.
type Stage struct {
	Dir   string
	Env   []string
	Each  [][]string // of each of them
	First int        // the number of the first
}

// New has none.
func New(cfg Config) *Set {
	return &Set{cfg: cfg, sessions: map[string]*session{}, closing: make(chan struct{})}
}

// Prepare says what the processes that are about to start find.
func (t *Set) Prepare(s Stage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stage = &s
}

// Begin lets people in: the processes run, behind the wall of process pid, whose tree that is, if there is one.
func (t *Set) Begin(pid int, tree *inside.Tree) {
	p := record.Process{}
	if t.cfg.UID != 0 {
		var err error
		if p, err = record.Describe(pid); err != nil {
			return // it has ended already
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first, t.tree = &p, tree
}

// HangUp asks all shells to end; nobody comes in any more before the next Begin.
func (t *Set) HangUp() {
	t.mu.Lock()
	var list []*session
	if t.first != nil {
		list = slices.Clone(t.order)
	}
	t.first = nil
	t.mu.Unlock()
	t.cfg.Tunnels.HangUp()
	for _, s := range list {
		if ended, _, _, _ := s.state(); !ended {
			s.hangUp()
		}
	}
}

// Close ends all sessions, of which no process is left, and returns when nobody talks any more.
func (t *Set) Close() {
	t.HangUp()
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.closing)
	}
	for _, s := range t.order {
		s.close()
	}
	t.mu.Unlock()
	t.work.Wait()
}

// Answer talks with who called; it returns at once.
func (t *Set) Answer(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.work.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		t.work.Go(func() {
			select {
			case <-ctx.Done():
			case <-t.closing:
				select { // what is on its way may still be told
				case <-ctx.Done():
				case <-t.cfg.Clock.After(farewell):
					cancel()
				}
			}
		})
		stream, err := t.cfg.Talk(ctx, id)
		if err == nil {
			err = t.talk(stream)
		}
		if err != nil {
			t.cfg.Log.Debug("a call ended", "error", err)
		}
	})
}

// talk serves one client.
func (t *Set) talk(stream talkpb.Talk_AnswerClient) error {
	f, err := stream.Recv()
	if err != nil {
		return err
	}
	if d := f.GetDial(); d != nil {
		return t.dial(stream, d)
	}
	o := f.GetOpen()
	if o == nil {
		return errors.New("the first frame is no open")
	}
	s, fresh, err := t.session(o)
	if err != nil {
		return t.refuse(stream, err)
	}
	c := s.attach(o.GetFrom())
	defer func() { s.detach(c, t.cfg.Clock.Now()) }()
	if o.GetBound() {
		defer s.hangUp() // of what has ended already: nothing
		defer t.keepAsking(s, c)()
	}
	if !fresh && s.tty {
		_ = inside.Resize(s.in, inside.Size{Columns: int(o.GetColumns()), Rows: int(o.GetRows())})
	}
	opened := &talkpb.Opened{Session: s.id, Fresh: fresh, From: c.at, Tty: s.tty}
	if err := stream.Send(&talkpb.Frame{Message: &talkpb.Frame_Opened{Opened: opened}}); err != nil {
		return err
	}
	// The client's words are heard beside its telling; a write to a shell that reads nothing holds up nothing else.
	heard := make(chan struct{})
	t.work.Go(func() {
		defer close(heard)
		for {
			f, err := stream.Recv()
			if err == nil && f.GetData() != nil {
				t.touch()
			}
			if err != nil || !s.hear(f) {
				s.detach(c, t.cfg.Clock.Now())
				return
			}
		}
	})
	for {
		f := s.next(c)
		if f == nil {
			return t.finish(stream, heard)
		}
		if err := stream.Send(f); err != nil {
			return err
		}
		if f.GetExit() != nil {
			t.drop(s)
			return t.finish(stream, heard)
		}
	}
}

// refuse says why there is nothing.
func (t *Set) refuse(stream talkpb.Talk_AnswerClient, err error) error {
	e := fault.From(err)
	heard := make(chan struct{})
	t.work.Go(func() {
		defer close(heard)
		_, _ = stream.Recv()
	})
	said := stream.Send(&talkpb.Frame{Message: &talkpb.Frame_Refused{Refused: &talkpb.Refused{Reason: e.Reason, En: e.Message.EN, Zh: e.Message.ZH}}})
	return errors.Join(said, t.finish(stream, heard))
}

// dial serves one connection into the replica's network.
func (t *Set) dial(stream talkpb.Talk_AnswerClient, d *talkpb.Dial) error {
	t.mu.Lock()
	running, stage := t.first != nil, t.stage
	t.mu.Unlock()
	if !running || stage == nil {
		return t.refuse(stream, errNotRunning)
	}
	return t.cfg.Tunnels.Serve(stream, d, process.Lookup(stage.Env, NotebookToken))
}

// NotebookToken is the variable by which Jupyter learns what its callers must know.
const NotebookToken = "JUPYTER_TOKEN"

// touch notes that somebody is there.
func (t *Set) touch() {
	now := t.cfg.Clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.typed = now
}

// Used is when somebody typed last, and how many sessions have a client.
func (t *Set) Used() (typed time.Time, attached int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.order {
		if ended, _, is, _ := s.state(); is && !ended {
			attached++
		}
	}
	return t.typed, attached
}

// Foreground are the names of the programs that people wait for: those before the shell in terminals, and commands without one. A session of
// files over SSH is none.
func (t *Set) Foreground() (names []string) {
	t.mu.Lock()
	list := slices.Clone(t.order)
	t.mu.Unlock()
	for _, s := range list {
		if name := s.foreground(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Notice prints a line in every terminal.
func (t *Set) Notice(text string) {
	t.mu.Lock()
	list := slices.Clone(t.order)
	t.mu.Unlock()
	for _, s := range list {
		s.notice(text)
	}
}

// Secret is what the replica's notebook asks its callers for; "": nothing yet.
func (t *Set) Secret() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == nil {
		return ""
	}
	return process.Lookup(t.stage.Env, NotebookToken)
}

// keepAsking asks every now and then whether a client is still there: one whose input nobody reads is not heard.
func (t *Set) keepAsking(s *session, c *client) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.cfg.Clock.After(askEvery):
				s.ask(c)
			}
		}
	})
	return cancel
}

// askEvery is between two questions whether a client is there.
const askEvery = 15 * time.Second

// finish lets the server hear the last words: a stream that is given up takes with it what is on its way.
func (t *Set) finish(stream talkpb.Talk_AnswerClient, heard <-chan struct{}) error {
	err := stream.CloseSend()
	select {
	case <-heard:
	case <-t.cfg.Clock.After(farewell):
	}
	return err
}

// session finds the one that is meant, or begins it.
func (t *Set) session(o *talkpb.Open) (s *session, fresh bool, err error) {
	if err := check(o); err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	s, stage, first, tree := t.sessions[o.GetSession()], t.stage, t.first, t.tree
	t.mu.Unlock()
	switch {
	case s != nil:
		return s, false, nil
	case o.GetAttach():
		return nil, false, fault.New(fault.NotFound, "NoSession", fault.T("There is no terminal %q any more.", "终端 %q 已不存在。", o.GetSession()))
	case first == nil || stage == nil:
		return nil, false, errNotRunning
	}
	if s, err = t.start(o, *stage, *first, tree); err != nil { // it may wait for a disk: nobody else does
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first != first || t.closed || t.sessions[s.id] != nil { // they ended meanwhile, or another asked for the same
		s.hangUp()
		t.work.Go(func() { s.run(t.cfg.Clock.Now) })
		if s := t.sessions[s.id]; s != nil {
			return s, false, nil
		}
		return nil, false, errNotRunning
	}
	t.makeRoom()
	t.sessions[s.id], t.order = s, append(t.order, s)
	t.work.Go(func() { s.run(t.cfg.Clock.Now) })
	return s, true, nil
}

var errNotRunning = fault.New(fault.Conflict, "NotRunning", fault.T("Its processes do not run.", "其进程未在运行。"))

// makeRoom lets the oldest go that nobody needs; mu held.
func (t *Set) makeRoom() {
	now := t.cfg.Clock.Now()
	rest := t.order[:0:0]
	for _, s := range t.order {
		ended, told, attached, used := s.state()
		if ended && !attached && (told || now.Sub(used) > keepEnded || len(t.order) >= most) {
			delete(t.sessions, s.id)
			continue
		}
		rest = append(rest, s)
	}
	for i := 0; i < len(rest) && len(rest) >= most; i++ {
		if _, _, attached, _ := rest[i].state(); !attached {
			rest[i].hangUp()
			delete(t.sessions, rest[i].id)
			rest = slices.Delete(rest, i, i+1)
			i--
		}
	}
	t.order = rest
}

// drop forgets a session whose end was told.
func (t *Set) drop(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.id] == s {
		delete(t.sessions, s.id)
		t.order = slices.DeleteFunc(t.order, func(o *session) bool { return o == s })
	}
}

var (
	isSession  = pattern.New(`^[A-Za-z0-9_-]{1,64}$`)
	isVariable = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	isTerm     = pattern.New(`^[A-Za-z0-9.+_-]{1,64}$`)
)

// check looks at a wish as at any input.
func check(o *talkpb.Open) error {
	size := 0
	for _, a := range slices.Concat(o.GetCommand(), o.GetEnv(), []string{o.GetLine()}) {
		size += len(a)
		if strings.ContainsRune(a, 0) {
			size = maxCommand + 1
		}
	}
	if !isSession.MatchString(o.GetSession()) || o.GetTerm() != "" && !isTerm.MatchString(o.GetTerm()) || len(o.GetCommand()) > 4096 || len(o.GetEnv()) > maxEnv || o.GetLine() != "" && len(o.GetCommand()) > 0 || size > maxCommand || o.GetFrom() < 0 {
		return fault.New(fault.Invalid, "BadTerminal", fault.T("The wish for a terminal is none.", "终端请求无效。"))
	}
	return nil
}

const (
	maxCommand = 128 << 10
	maxEnv     = 128
)

// shells are those that are looked for, the best first.
var shells = []string{"bash", "sh"}

// start begins a session.
func (t *Set) start(o *talkpb.Open, stage Stage, first record.Process, tree *inside.Tree) (*session, error) {
	what, err := t.shell(o, stage, tree.Rooted())
	if err != nil {
		return nil, err
	}
	at := inside.Beside{
		PID: first.PID, UID: t.cfg.UID, Mark: t.cfg.Mark, Apart: t.cfg.Apart(), Tree: tree,
		Still: func() bool { now, err := record.Describe(first.PID); return err == nil && now == first },
	}
	door, err := t.cfg.Group.Door()
	if err != nil {
		return nil, err
	}
	if door != nil {
		defer door.Close()
		at.Door, at.Clone = door, t.cfg.Group.Version == 2
	}
	var ours, theirs [3]*os.File
	var std []uintptr
	if !what.TTY {
		if ours, theirs, err = pipes(); err != nil {
			return nil, err
		}
		defer closeAll(theirs[:])
		for _, f := range theirs {
			std = append(std, f.Fd())
		}
	}
	proc, err := inside.Join(at, what, std...)
	if err != nil {
		closeAll(ours[:])
		return nil, t.refusal(what, err)
	}
	if what.TTY {
		return newSession(o.GetSession(), nameOf(what), true, proc, proc.Terminal, proc.Terminal), nil
	}
	return newSession(o.GetSession(), nameOf(what), false, proc, ours[0], ours[1], ours[2]), nil
}

// shell is what a wish means here. In a wall that is rooted programs are looked for where they are started: nobody else sees what was installed.
func (t *Set) shell(o *talkpb.Open, s Stage, rooted bool) (inside.Shell, error) {
	env := slices.Clone(s.Env)
	if i := max(int(o.GetRank())-s.First, 0); i < len(s.Each) {
		env = append(env, s.Each[i]...)
	}
	if o.GetTty() {
		env = without(env, "TERM")
		if term := o.GetTerm(); term != "" {
			env = append(env, "TERM="+term)
		} else {
			env = append(env, "TERM=xterm-256color")
		}
	}
	for _, kv := range o.GetEnv() {
		if name, _, ok := strings.Cut(kv, "="); ok && isVariable.MatchString(name) && !strings.HasPrefix(name, "FERMI_") {
			env = append(without(env, name), kv)
		}
	}
	env = append(without(env, "PWD"), "PWD="+s.Dir)
	what := inside.Shell{Dir: s.Dir, TTY: o.GetTty(), Size: inside.Size{Columns: int(o.GetColumns()), Rows: int(o.GetRows())}, Args: o.GetCommand()}
	path := process.Lookup(env, "PATH")
	if rooted && (len(what.Args) == 0 || what.Args[0] != "fermi") {
		return sought(what, o.GetLine(), env), nil
	}
	if len(what.Args) > 0 {
		file, err := t.cfg.Find(what.Args[0], s.Dir, path)
		if err != nil {
			return what, notFound(what.Args[0], err)
		}
		what.File, what.Args, what.Env = file, inside.Args(file, what.Args), env
		return what, nil
	}
	var err error
	for _, name := range shells {
		var file string
		if file, err = t.cfg.Find(name, s.Dir, path); err == nil {
			what.File, what.Args, what.Env = file, []string{"-" + name}, append(without(env, "SHELL"), "SHELL="+file)
			if o.GetLine() != "" {
				what.Args = []string{name, "-c", o.GetLine()}
			}
			return what, nil
		}
	}
	return what, notFound("sh", err)
}

// sought is a program that is looked for behind the wall.
func sought(what inside.Shell, line string, env []string) inside.Shell {
	if len(what.Args) > 0 {
		what.Names, what.Args, what.Env = what.Args[:1], what.Args[1:], env
		return what
	}
	what.Names, what.Login, what.Env = shells, true, without(env, "SHELL")
	if line != "" {
		what.Args = []string{"-c", line}
	}
	return what
}

func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

func notFound(name string, cause error) error {
	return fault.New(fault.NotFound, "NoSuchProgram", fault.T("There is no program %q there that may be run.", "其中没有可运行的程序 %q。", name)).Because(cause)
}

// refusal says why a process was not started.
func (t *Set) refusal(what inside.Shell, err error) error {
	var no *inside.Refused
	if errors.As(err, &no) && no.Step == inside.StepExec {
		if errors.Is(no.Errno, syscall.ENOENT) || errors.Is(no.Errno, syscall.EACCES) || errors.Is(no.Errno, syscall.ENOEXEC) {
			if what.File == "" {
				what.File = what.Names[0]
			}
			return notFound(what.File, err)
		}
		if errors.Is(no.Errno, syscall.EAGAIN) {
			return fault.New(fault.Conflict, "ProcessLimit", fault.T("Its limit on processes is reached.", "其进程数已达上限。")).Because(err)
		}
	}
	t.cfg.Log.Error("a shell could not be started", "error", err)
	return fault.New(fault.Unavailable, "NoShell", fault.T("The shell could not be started; see launcher.log on the node.", "无法启动终端；请查看节点上的 launcher.log。")).Because(err)
}
