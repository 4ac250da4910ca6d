package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/orderbook"
	"github.com/fermi-cluster/fermi/internal/launch/output"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/setup"
	"github.com/fermi-cluster/fermi/internal/launch/spool"
	"github.com/fermi-cluster/fermi/internal/launch/terminal"
	"github.com/fermi-cluster/fermi/internal/launch/tunnel"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/curve"
	"github.com/fermi-cluster/fermi/internal/link/lend"
	"github.com/fermi-cluster/fermi/internal/link/signature"
)

// Config is what the command line and the engine give.
type Config struct {
	Dir   string // the replica's folder
	Token string // for the link; read from a file descriptor, never from the environment
	// Orders are where it finds what to do; nil: Dir.
	Orders Orders
	// Log is the launcher's own; nil: launcher.log in Dir.
	Log   *slog.Logger
	Clock clock.Clock // nil: the wall clock
	// GiveUp is how long a hand-over goes on after it was told to end by SIGTERM; 0: 60 s.
	GiveUp time.Duration
	// Readings asks the driver for devices; nil: there is nobody to ask.
	Readings engine.Readings
	// Stores opens the places that checkpoints go to; nil: they stay in memory.
	Stores keeper.Stores
	// Version is the program's, for the record.
	Version string
}

// tools are what everybody in a launcher works with.
type tools struct {
	client *link.Client
	points *curve.Source
	spool  *spool.Spool
	clock  clock.Clock
	log    *slog.Logger
}

// launcher is one Run: the records, the link, signals, and the hand-over.
type launcher struct {
	tools
	home   *setup.Home
	orders Orders
	words  *commands
	shells *terminal.Set
	// giveUp is closed when the hand-over has waited long enough.
	giveUp   chan struct{}
	patience time.Duration // Config.GiveUp
	children chan struct{} // a child ended
	overDisk chan overDisk // the replica holds more on disk than it may

	mu          sync.Mutex
	handingOver bool
	givingUp    bool
}

const (
	defaultGiveUp  = 60 * time.Second
	pointsPatience = 20 * time.Second // with points of curves, after everything else was handed over
)

// Run is the launcher's life. It must be alone in its process: it becomes the subreaper and reaps
// every child. A replica that another launcher holds, or that is done, is no error.
func Run(ctx context.Context, cfg Config) error {
	// The cores are the training's. With more than one of them, Go keeps waking threads to look for work.
	cores.Have(max(1, runtime.NumCPU()/16))
	_, _ = cores.Nice(0), cgroup.NotFirst() // the server that started us may go before others
	_, _ = process.OwnNice()
	_, _ = os.Unsetenv("GOGC"), os.Unsetenv("GOMEMLIMIT") // ours alone: see collect
	// Descriptors that our maker forgot to close are none of the user's business.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.GiveUp == 0 {
		cfg.GiveUp = defaultGiveUp
	}
	dir, err := filepath.Abs(cfg.Dir) // the process gets paths below it and has its own idea of "."
	if err != nil {
		return err
	}
	if cfg.Dir = dir; cfg.Orders == nil {
		cfg.Orders = orderbook.Open(dir)
	}
	lock, err := takeLock(ctx, cfg)
	if errors.Is(err, record.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if cfg.Log == nil {
		f, err := os.OpenFile(filepath.Join(cfg.Dir, record.FileOwnLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open own log: %w", err)
		}
		defer f.Close()
		cfg.Log = slog.New(slog.NewTextHandler(f, nil))
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	l := &launcher{tools: tools{clock: cfg.Clock, log: cfg.Log, points: curve.NewSource(cfg.Clock, cfg.Log)}, home: &setup.Home{Dir: cfg.Dir}, orders: cfg.Orders, giveUp: make(chan struct{}), patience: cfg.GiveUp, children: make(chan struct{}, 1), overDisk: make(chan overDisk, 1)}
	if err := l.run(ctx, cfg); err != nil {
		l.log.Error("launcher ended", "error", err)
		return err
	}
	return nil
}

// takeLock tries for a moment, because someone who merely asks (record.Locked) holds it for an instant.
func takeLock(ctx context.Context, cfg Config) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := record.TryLock(cfg.Dir)
		if !errors.Is(err, record.ErrLocked) || try == 20 {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-cfg.Clock.After(10 * time.Millisecond):
		}
	}
}

// run decides from the records which life this is.
func (l *launcher) run(ctx context.Context, cfg Config) error {
	ends, err := l.settle()
	if err != nil || record.Exists(l.home.Dir, record.FileDone) {
		return err
	}
	var exit engine.Exit
	exited, err := record.Read(l.home.Dir, record.FileExit, &exit)
	if err != nil {
		return err
	}
	said, before, err := l.orders.Said()
	if err != nil {
		return err
	}
	if !exited && (before || record.Exists(l.home.Dir, record.FileStart)) {
		// A launcher before us was told to start and is gone: whether it did, only the engine can
		// find out. A second start is the one thing that must never happen.
		return errors.New("an earlier launcher was lost after its go; the engine must settle this replica")
	}
	group, gerr := cgroup.Load(l.home.Dir)
	wall := setup.Enclose(l.home, group, l.log)
	defer wall.Dismiss()
	var settled func() error
	var home net.Listener
	if !exited {
		wall.GetReady()
		home = l.openHome(&ends)
		settled = wall.Settle(ends)
	}
	if gerr != nil {
		l.log.Warn("cgroup unknown; processes are found by descent", "error", gerr)
	}
	l.spool, err = spool.Open(filepath.Join(l.home.Dir, record.FileLog), l.clock, l.log)
	if err != nil {
		return err
	}
	defer l.spool.F.Close()
	l.words = newCommands(newStopper(l.orders, l.home.Replica.StopGrace.Std(), l.log))
	if err := l.connect(cfg.Token, ends.Endpoints, said.Epoch, exited); err != nil {
		return err
	}
	tunnels := tunnel.New(tunnel.Config{
		Space: func() *network.Space { return wall.Place.Space }, Resolver: func() string { return setup.Resolver(l.home.Dir) }, Clock: l.clock,
		Least: pagesOf(l.home.Replica.Command).least,
	})
	l.shells = terminal.New(terminal.Config{
		Talk: l.client.Talk, Find: wall.Home.Find, UID: l.home.Tenant.UID, Mark: string(l.home.Replica.Name), Group: group, Clock: l.clock, Log: l.log,
		Apart:   func() bool { return wall.Place.Space.Descriptor() != 0 },
		Tunnels: tunnels,
	})
	defer l.shells.Close()
	r := l.newRunner(cfg, wall, ends)
	r.signals, r.token = l.watchSignals(tunnels), cfg.Token
	if l.home.Replica.Peer && !exited {
		stop, err := r.saves.OpenPeers()
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	l.handingOver = exited
	stopSignals := l.catchSignals(ctx, &wg)
	defer stopSignals()
	if home != nil {
		wg.Go(func() { l.callHome(ctx, home) })
	}
	self := record.Self()
	self.Cgroup, self.Version, self.HearsFull = wall.GroupPath(), cfg.Version, true
	record.Spare(l.home.Dir)
	// After this the engine can signal us; a stop it wished before is found by live.
	if err := record.Write(l.home.Dir, record.FileLauncher, self); err != nil {
		return err
	}
	linkDone := make(chan struct{})
	wg.Go(func() {
		defer close(linkDone)
		_ = l.client.Run(ctx)
	})
	if !exited {
		return l.whole(ctx, linkDone, r, settled)
	}
	l.client.Exited(exit)
	l.spool.Close()
	l.points.Finish()
	outs := l.outputs(nil)
	return l.handOver(ctx, linkDone, outs, outs.Scan())
}

// settle reads what the replica is and where it lives.
func (l *launcher) settle() (ends record.Link, err error) {
	if l.home.Replica, ends, err = l.orders.Spec(); err != nil {
		return ends, err
	}
	l.home.Folders = ends.Folders
	if l.home.Tenant = ends.Tenant; l.home.Tenant.UID != 0 {
		// Behind the wall the way through a link may be closed.
		real, err := filepath.EvalSymlinks(l.home.Dir)
		if err != nil {
			return ends, err
		}
		l.home.Dir = real
	}
	if len(l.home.Replica.Command) == 0 {
		return ends, errors.New("replica without a command")
	}
	return ends, nil
}

// newRunner puts together who runs the generations; it starts nothing.
func (l *launcher) newRunner(cfg Config, wall *setup.Enclosure, ends record.Link) *runner {
	n := max(l.home.Replica.Ranks, 1)
	ranks := rankset.New(rankset.Config{Ranks: n, Tell: l.client.Ranks, Curve: (&reports{l.points, map[int]stamp{}}).draw, Clock: l.clock, Log: l.log, Files: l.home.Replica.CheckpointFolder != "", Soon: l.home.Replica.Serve != nil})
	tree := process.Tree{Self: os.Getpid(), Group: wall.Group, Mark: []byte("FERMI_REPLICA=" + string(l.home.Replica.Name)), Log: l.log, Own: wall.Helpers}
	saves := keeper.New(keeper.Config{
		Replica: l.home.Replica, Ranks: ranks, Records: l.client, Slots: l.home.Slots, Code: l.home.Code, Steward: l.home.Steward, Stores: cfg.Stores, Tiers: ends.Tiers, Sign: signature.Source{Client: l.client}.Sign, Writers: tree.Writes, Note: l.spool.Notice,
		Wanted: l.words.wants, Stops: l.words.stop, Clock: l.clock, Log: l.log,
	})
	l.words.ranks, l.words.saves = ranks, saves
	supplies := setup.NewSupplies(wall, lend.Source{Client: l.client}, l.spool, ends, l.clock, l.log)
	supplies.Brings = ranks.Report.Brings
	return &runner{
		tools: l.tools, orders: l.orders, wall: wall, supplies: supplies, words: l.words, guests: guests{shells: l.shells}, ranks: ranks, saves: saves,
		standby: &process.Nursery{Log: l.log, Children: l.children, Ranks: n}, readings: cfg.Readings, children: l.children, overDisk: l.overDisk, course: course{left: l.leftOf(), origins: map[int]diagnose.Origins{}},
	}
}

// whole is the usual life: live, then hand over.
func (l *launcher) whole(ctx context.Context, linkDone <-chan struct{}, r *runner, settled func() error) error {
	outs := l.outputs(l.spool.Notice)
	exit := r.live(ctx, outs, settled)
	r.supplies.DropSecrets()
	if exit.Reason == engine.ReasonSucceeded {
		l.keepLeft(outs, r.left)
	}
	l.points.Finish()
	found := outs.Scan()
	l.spool.Close()
	exit.At = l.clock.Now()
	var start record.Start
	if ok, err := record.Read(l.home.Dir, record.FileStart, &start); ok && err == nil {
		exit.Ran = start.Ran()
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, retry.Most) {
		err := record.Write(l.home.Dir, record.FileExit, exit)
		if err == nil {
			break
		}
		// Without the record the exit did not happen; a full disk may be emptied.
		l.log.Error("exit can't be recorded; trying again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-l.clock.After(pause):
		}
	}
	l.log.Info("replica exited", "code", exit.Code, "reason", exit.Reason, "signal", exit.Signal)
	l.client.Exited(exit)
	if exit.Reason == engine.ReasonDiskLimit {
		l.makeRoom()
	}
	return l.handOver(ctx, linkDone, outs, found)
}

// fileLeft has the names of what is kept of the working folder, for a second life.
const fileLeft = "left.json"

// keepLeft has what a script that ended well left in its working folder uploaded, too.
func (l *launcher) keepLeft(outs *output.Set, left *output.Left) {
	if names := left.Take(l.spool.Notice); len(names) > 0 {
		if err := record.Write(l.home.Dir, fileLeft, names); err != nil {
			l.log.Warn("what is left in the working folder can't be recorded", "error", err)
		}
		outs.Also(l.home.Steward.In(l.codeOf()), output.LeftPrefix, names)
	}
}

// codeOf is the replica's own folder for code; "": the code lies in a folder that stays.
func (l *launcher) codeOf() string {
	if c := l.home.Replica.Code; c != nil && c.Folder != "" || l.home.Replica.Inside != "" {
		return ""
	}
	return filepath.Join(l.home.Dir, record.DirCode)
}

// leftOf looks after what the script leaves in its working folder.
func (l *launcher) leftOf() *output.Left {
	at := l.codeOf()
	if at == "" {
		return nil
	}
	r := l.home.Replica
	var skip []string
	for _, folder := range []string{r.CheckpointFolder, r.OutputLogs} {
		if folder != "" {
			skip = append(skip, filepath.Join(r.WorkingDir, folder))
		}
	}
	return output.NewLeft(l.home.Steward.In(at), skip...)
}

func (l *launcher) connect(token, endpoints string, epoch int64, exited bool) (err error) {
	state := engine.StateCreated
	if exited {
		state = engine.StateExited
	}
	words := link.Orders(l.words)
	if o, ok := l.orders.(interface{ Through(link.Orders) link.Orders }); ok {
		words = o.Through(words)
	}
	l.client, err = link.NewClient(link.ClientConfig{
		Name: l.home.Replica.Name, Token: token, Endpoints: endpoints, Epoch: epoch, State: state,
		Spool: l.spool, Orders: words, Log: l.log, Clock: l.clock, Calls: func(id string) { l.shells.Answer(id) }, Beside: l.points.Ship,
	})
	return err
}

// outputs finds the folders again, also in a second life.
func (l *launcher) outputs(note func(string, ...any)) *output.Set {
	sources := []output.Source{{Folder: l.home.Steward.In(filepath.Join(l.home.Dir, record.DirOutput))}}
	if base, sub, err := l.home.Code(); err == nil {
		if dir, ok := output.LogsFolder(filepath.Join(base, sub), l.home.Replica.WorkingDir, l.home.Replica.OutputLogs); ok {
			sources = append(sources, output.Source{Folder: l.home.Steward.In(dir), Prefix: "logs/"})
		}
	}
	outs := output.New(sources, l.client, l.clock, l.log, note)
	var names []string
	if ok, err := record.Read(l.home.Dir, fileLeft, &names); ok && err == nil {
		outs.Also(l.home.Steward.In(l.codeOf()), output.LeftPrefix, names)
	}
	return outs
}

// catchSignals makes the launcher deaf to what a terminal sends, and turns SIGTERM into a stop.
// Notify, not Ignore: an ignored signal would stay ignored in the user's process.
func (l *launcher) catchSignals(ctx context.Context, wg *sync.WaitGroup) (restore func()) {
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	full := make(chan os.Signal, 1)
	signal.Notify(full, unix.SIGUSR1)
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-deaf:
			case <-term:
				l.terminate()
			case <-full:
				l.filled()
			case <-child:
				select {
				case l.children <- struct{}{}:
				default:
				}
			}
		}
	})
	return func() {
		signal.Stop(deaf)
		signal.Stop(term)
		signal.Stop(child)
		signal.Stop(full)
	}
}

// terminate is SIGTERM: stop the tree; or, when that has ended already, give up the hand-over soon.
func (l *launcher) terminate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.handingOver {
		if l.words.stop.Look() {
			return
		}
		if l.orders.AnyStop() {
			l.log.Warn("a stop ordered by a leader whose time is over was ignored")
			return
		}
		l.words.stop.ask(l.home.Replica.StopGrace.Std())
		return
	}
	if !l.givingUp {
		l.givingUp = true
		time.AfterFunc(l.patience, func() { close(l.giveUp) })
	}
}

// handOver brings what is left to a server, for as long as that takes, and says done.
func (l *launcher) handOver(ctx context.Context, linkDone <-chan struct{}, outs *output.Set, found map[string]output.Mark) error {
	l.mu.Lock()
	l.handingOver = true
	l.mu.Unlock()
	upload, cancel := context.WithCancel(ctx)
	defer cancel()
	uploaded := make(chan struct{})
	go func() {
		defer close(uploaded)
		_ = outs.Finish(upload, found)
	}()
	why := ""
	var late <-chan time.Time // points are not worth more than that
	for files, log, points := (<-chan struct{})(uploaded), l.client.Shipped(), l.points.Drained(); files != nil || log != nil || points != nil; {
		if files == nil && log == nil && late == nil {
			late = l.clock.After(pointsPatience)
		}
		select {
		case <-points:
			points = nil
			continue
		case <-late:
			points, why = nil, "the last points of curves could not be handed over"
			continue
		case <-files:
			files = nil
			continue
		case <-log:
			log = nil
			continue
		case <-l.giveUp:
			why = "told to end while the server was away"
		case <-ctx.Done():
		}
		break
	}
	cancel()
	<-uploaded
	if ctx.Err() != nil {
		return ctx.Err()
	}
	files, bytes, incomplete := outs.Total(found)
	size, _ := l.spool.Size()
	done := record.Done{OutputFiles: files, OutputBytes: bytes, LogBytes: min(size, l.client.Durable()), At: l.clock.Now()}
	done.Incomplete = joinReasons(why, incomplete, l.lostLines())
	if err := record.Write(l.home.Dir, record.FileDone, done); err != nil {
		return err
	}
	l.client.Done(done.LogBytes, files, bytes)
	select { // the record counts; the message is only quicker
	case <-linkDone:
	case <-l.clock.After(2 * time.Second):
	case <-ctx.Done():
	}
	return nil
}

func (l *launcher) lostLines() string {
	if n := l.spool.Lost(); n > 0 {
		return fmt.Sprintf("the disk was full: %d lines of output were dropped", n)
	}
	return ""
}

func joinReasons(list ...string) string {
	s := ""
	for _, r := range list {
		if r != "" && s != "" {
			s += "; "
		}
		s += r
	}
	return s
}
