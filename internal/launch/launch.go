package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Config is what the command line and the engine give.
type Config struct {
	Dir   string // the replica's folder
	Token string // for the link; read from a file descriptor, never from the environment
	// Log is the launcher's own; nil: launcher.log in Dir.
	Log   *slog.Logger
	Clock clock.Clock // nil: the wall clock
	// GiveUp is how long a hand-over goes on after it was told to end by SIGTERM; 0: 60 s.
	GiveUp time.Duration
	// Readings asks the driver for devices; nil: there is nobody to ask.
	Readings engine.Readings
	// Stores opens the places that checkpoints go to; nil: they stay in memory.
	Stores Stores
	// Version is the program's, for the record.
	Version string
}

// launcher is the state of one Run.
type launcher struct {
	dir       string
	replica   engine.Replica
	token     string
	log       *slog.Logger
	clock     clock.Clock
	group     *cgroup.Group
	patience  time.Duration // Config.GiveUp
	readings  engine.Readings
	version   string
	spool     *spool
	epochs    string // record.Link.Epochs
	client    *link.Client
	stop      *stopper
	secrets   map[api.SecretRef]string // set before the process starts
	creds     credentials              // likewise
	gitTries  int                      // of prepare alone
	tenant    record.Tenant            // zero: the process is who we are
	folders   []api.NamedFolder        // record.Link.Folders
	steward   *steward.Steward         // whatever touches a path that the tenant named, or can change
	helpers   helpers                  // its processes
	images    string                   // record.Link.Images
	settled   func() (place, error)    // waits for place
	place     place                    // of live, before anything is opened for ranks
	imageUID  int                      // record.Link.ImageUID
	image     *rootfs.Image            // of prepare, before the first process starts; nil: the node's own system
	ranks     *ranks
	peers     *peers         // nil: states are kept here alone
	socket    *rankSocket    // of prepare, before the first process starts
	memory    string         // $FERMI_SHM, likewise
	last      *reservation   // the port of the running generation, should we lead it
	next      *reservation   // of the one after it
	ported    int64          // the generation that last is of
	serve     *reservation   // $FERMI_PORT
	own       []*reservation // of the recipe's processes
	rehearsal rehearsal
	standby   *standby // nil: none
	open      Stores
	folder    *saves                       // that the script saves to, where the task names one
	resume    string                       // $FERMI_RESUME_FROM; "": none
	flush     chan chan struct{}           // to the one that persists: settle what is committed, and close it
	stores    func() map[string]ckpt.Store // by tier
	said      int64                        // the generation that was ordered last

	goWritten sync.WaitGroup   // of later orders
	deadline  <-chan time.Time // of the whole attempt; nil: none
	timed     bool             // deadline was set
	spent     spent

	orders   *orders
	children chan struct{} // a child ended
	overDisk chan string   // it holds more on disk than it may: why it is ended
	probes   chan link.Probe
	giveUp   chan struct{} // closed: the hand-over has waited long enough

	mu          sync.Mutex
	handingOver bool
	givingUp    bool
}

const defaultGiveUp = 60 * time.Second

// Run is the launcher's life. It must be alone in its process: it becomes the subreaper and reaps
// every child. A replica that another launcher holds, or that is done, is no error.
func Run(ctx context.Context, cfg Config) error {
	// The cores are the training's. With more than one of them, Go keeps waking threads to look for work.
	cores.Have(max(1, runtime.NumCPU()/16))
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
	cfg.Dir = dir
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
	l := &launcher{
		dir: cfg.Dir, patience: cfg.GiveUp, readings: cfg.Readings, version: cfg.Version, open: cfg.Stores, token: cfg.Token, log: cfg.Log, clock: cfg.Clock, stop: newStopper(),
		folder: newFolder(), orders: newOrders(), flush: make(chan chan struct{}), children: make(chan struct{}, 1), overDisk: make(chan string), probes: make(chan link.Probe, 1), giveUp: make(chan struct{}),
	}
	if err := l.run(ctx); err != nil {
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
func (l *launcher) run(ctx context.Context) error {
	var ends record.Link
	for file, v := range map[string]any{record.FileReplica: &l.replica, record.FileEndpoint: &ends} {
		if ok, err := record.Read(l.dir, file, v); err != nil || !ok {
			return fmt.Errorf("replica folder without %s: %w", file, err)
		}
	}
	l.epochs, l.images, l.imageUID, l.folders = ends.Epochs, ends.Images, ends.ImageUID, ends.Folders
	l.steward = steward.New(nil)
	if l.tenant = ends.Tenant; l.tenant.UID != 0 {
		l.steward = steward.New(l.startHelper)
		// Behind the wall the way through a link may be closed.
		real, err := filepath.EvalSymlinks(l.dir)
		if err != nil {
			return err
		}
		l.dir = real
	}
	if len(l.replica.Command) == 0 {
		return errors.New("replica without a command")
	}
	if record.Exists(l.dir, record.FileDone) {
		return nil
	}
	var exit engine.Exit
	exited, err := record.Read(l.dir, record.FileExit, &exit)
	if err != nil {
		return err
	}
	if !exited && (record.Exists(l.dir, record.FileGo) || record.Exists(l.dir, record.FileStart)) {
		// A launcher before us was told to start and is gone: whether it did, only the engine can
		// find out. A second start is the one thing that must never happen.
		return errors.New("an earlier launcher was lost after its go; the engine must settle this replica")
	}
	if !exited {
		if l.tenant.UID != 0 {
			l.helpers.ready = inside.GetReady(2, string(l.replica.Name)) // for the steward and the ranks
		}
		l.settled = l.settleIn(ends.Network)
	}
	defer l.dismiss()
	if l.group, err = cgroup.Load(l.dir); err != nil {
		l.log.Warn("cgroup unknown; processes are found by descent", "error", err)
	}
	l.spool, err = openSpool(filepath.Join(l.dir, record.FileLog), l.clock, l.log)
	if err != nil {
		return err
	}
	defer l.spool.f.Close()
	if err := l.connect(ends, exited); err != nil {
		return err
	}
	l.ranks = newRanks(max(l.replica.Ranks, 1), l.client.Ranks)
	l.ranks.log = l.log
	l.ranks.files = l.replica.CheckpointFolder != ""
	if l.replica.Peer && !exited {
		if l.peers, err = openPeers(len(l.ranks.held), l.log, l.ranks.copied); err != nil {
			return err
		}
		defer l.peers.listener.Close()
	}
	l.stores = sync.OnceValue(func() map[string]ckpt.Store { return l.openStores(l.open, ends.Tiers) })
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	l.handingOver = exited
	stopSignals := l.catchSignals(ctx, &wg)
	defer stopSignals()
	self := record.Self()
	self.Cgroup, self.Version = l.cgroupPath(), l.version
	// After this the engine can signal us; a stop it wished before is found by live.
	if err := record.Write(l.dir, record.FileLauncher, self); err != nil {
		return err
	}
	linkDone := make(chan struct{})
	wg.Go(func() {
		defer close(linkDone)
		_ = l.client.Run(ctx)
	})
	if !exited {
		return l.whole(ctx, linkDone)
	}
	l.client.Exited(exit)
	l.spool.close()
	outs := l.outputs(nil)
	return l.handOver(ctx, linkDone, outs, outs.scan())
}

// whole is the usual life: live, then hand over.
func (l *launcher) whole(ctx context.Context, linkDone <-chan struct{}) error {
	outs := l.outputs(l.spool.notice)
	exit := l.live(ctx, outs)
	l.dropSecrets()
	found := outs.scan()
	l.spool.close()
	exit.At = l.clock.Now()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, maxRetry) {
		err := record.Write(l.dir, record.FileExit, exit)
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
	return l.handOver(ctx, linkDone, outs, found)
}

func (l *launcher) connect(ends record.Link, exited bool) (err error) {
	var said record.Go
	if _, err := record.Read(l.dir, record.FileGo, &said); err != nil {
		return err
	}
	state := engine.StateCreated
	if exited {
		state = engine.StateExited
	}
	l.client, err = link.NewClient(link.ClientConfig{
		Name: l.replica.Name, Token: l.token, Endpoints: ends.Endpoints, Epoch: said.Epoch, State: state,
		Spool: l.spool, Orders: l, Log: l.log, Clock: l.clock,
	})
	return err
}

func (l *launcher) cgroupPath() string {
	if l.group == nil || len(l.group.Paths) == 0 {
		return ""
	}
	return l.group.Paths[0]
}

// outputs finds the folders again, also in a second life.
func (l *launcher) outputs(note func(string, ...any)) *outputs {
	sources := []source{{folder: l.steward.In(filepath.Join(l.dir, record.DirOutput))}}
	if base, err := l.codeBase(); err == nil {
		if dir, ok := logsFolder(base.at(), l.replica.WorkingDir, l.replica.OutputLogs); ok {
			sources = append(sources, source{l.steward.In(dir), "logs/"})
		}
	}
	return newOutputs(sources, l.client, l.clock, l.log, note)
}

// Go is the leader's word, from the link.
func (l *launcher) Go(epoch int64, g link.Generation) {
	if g.Preflight != nil {
		l.rehearsal.begin(*g.Preflight)
		return
	}
	if l.peers != nil {
		l.peers.meet(g)
	}
	l.orders.give(order{epoch, g})
	l.ranks.tellRoles(g)
	l.ranks.tellInterval(g)
	l.ranks.freeze(g.Number, g.Frozen, g.Save)
}

// Watermark is the leader's word, from the link.
func (l *launcher) Watermark(w link.Watermark) {
	if kept, ok := l.ranks.watermark(w); ok && l.peers != nil {
		l.peers.keep(w.Generation, kept)
	}
}

// Stop is the leader's order, from the link.
func (l *launcher) Stop(grace time.Duration) { l.stop.ask(grace) }

// catchSignals makes the launcher deaf to what a terminal sends, and turns SIGTERM into a stop.
// Notify, not Ignore: an ignored signal would stay ignored in the user's process.
func (l *launcher) catchSignals(ctx context.Context, wg *sync.WaitGroup) (restore func()) {
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-deaf:
			case <-term:
				l.terminate()
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
	}
}

// terminate is SIGTERM: stop the tree; or, when that has ended already, give up the hand-over soon.
func (l *launcher) terminate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.handingOver {
		if l.wishedStop() {
			return
		}
		if record.AnyStop(l.dir) {
			l.log.Warn("a stop ordered by a leader whose time is over was ignored")
			return
		}
		l.stop.ask(l.replica.StopGrace.Std())
		return
	}
	if !l.givingUp {
		l.givingUp = true
		time.AfterFunc(l.patience, func() { close(l.giveUp) })
	}
}

// wishedStop obeys the order of the leader of the current epoch, if there is one.
func (l *launcher) wishedStop() bool {
	epoch, err := record.CurrentEpoch(l.epochs)
	if err != nil {
		l.log.Warn("the current epoch can't be read; nobody's stop counts until it can", "error", err)
		return false
	}
	var wish record.Stop
	ok, err := record.Read(l.dir, record.StopFile(epoch), &wish)
	if err != nil {
		l.log.Warn("the order to stop can't be read; taken as a stop", "error", err)
		wish.Grace = l.replica.StopGrace.Std()
	} else if !ok {
		return false
	}
	l.stop.ask(wish.Grace)
	return true
}

// handOver brings what is left to a server, for as long as that takes, and says done.
func (l *launcher) handOver(ctx context.Context, linkDone <-chan struct{}, outs *outputs, found map[string]mark) error {
	l.mu.Lock()
	l.handingOver = true
	l.mu.Unlock()
	upload, cancel := context.WithCancel(ctx)
	defer cancel()
	uploaded := make(chan struct{})
	go func() {
		defer close(uploaded)
		_ = outs.finish(upload, found)
	}()
	why := ""
	select {
	case <-both2(ctx, uploaded, l.client.Shipped()):
	case <-l.giveUp:
		why = "told to end while the server was away"
	case <-ctx.Done():
	}
	cancel()
	<-uploaded
	if ctx.Err() != nil {
		return ctx.Err()
	}
	files, bytes, incomplete := outs.total(found)
	size, _ := l.spool.Size()
	done := record.Done{OutputFiles: files, OutputBytes: bytes, LogBytes: min(size, l.client.Durable()), At: l.clock.Now()}
	done.Incomplete = joinReasons(why, incomplete, l.lostLines())
	if err := record.Write(l.dir, record.FileDone, done); err != nil {
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
	if n := l.spool.lost(); n > 0 {
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

// both2 is closed when both are; never after ctx ended.
func both2(ctx context.Context, a, b <-chan struct{}) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		for _, c := range []<-chan struct{}{a, b} {
			select {
			case <-c:
			case <-ctx.Done():
				return
			}
		}
		close(ch)
	}()
	return ch
}
