package hostengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Images is about the images of a machine.
type Images struct {
	// UID keeps them; no project has it.
	UID int
	// IDs is the first of the numbers that users inside the images of the project with this uid have; 0, or nil: there are none.
	IDs func(uid int) int
	// Most is how many bytes of them a project may have, 0 without a limit; nil: none has one.
	Most func(project string) int64
}

// Config is what an engine needs.
type Config struct {
	// Dir holds replicas/<name>/. Several servers may share it.
	Dir string
	// Exe is the fermi binary; launchers are `Exe launch --dir FOLDER`.
	Exe string
	// Endpoints is the path of the file in which launchers find the servers.
	Endpoints string
	// Epoch is our leadership; launchers obey the newest one only.
	Epoch int64
	// Mint makes the token with which a replica's launcher speaks to a server.
	Mint func(engine.Name) string
	// Inventory lists the nodes whose replicas run here; nil: the machine itself.
	Inventory func(context.Context) ([]api.Node, error)
	Log       *slog.Logger
	Clock     clock.Clock
	// Hide are the platform's folders, which a project's processes must not see.
	Hide []string
	// Images is about the images of this machine.
	Images Images
	// Folders are those of the machine that an operator named.
	Folders []api.NamedFolder
	// Tiers are the places that checkpoints of a node go to; nil: none.
	Tiers func(node string) record.Tiers
	// DeviceFiles are the device files that a replica with these devices may open beside the usual ones; nil: none.
	DeviceFiles func([]api.Device) []string
	Standing
	// Network gives replicas their addresses; nil: they use the machine's network.
	Network *network.Network
	// Remote gives launchers their orders over the link, as those get them that have no folder of ours; nil: in their folders.
	Remote *Remote
}

// Standing is how the machine stands to people and to other machines.
type Standing struct {
	// Owner is the one whose replicas are started where projects can't be kept apart; "" starts all.
	Owner string
	// Advertise is where other machines reach this one; "": nobody else does.
	Advertise string
}

// Remote is how launchers get their orders over the link.
type Remote struct {
	// Stop tells the launcher, if it is attached; the keeper repeats it.
	Stop func(name engine.Name, grace time.Duration) error
	// Far: nothing but the link reaches the launchers. One that does not hear is not killed.
	Far bool
}

const (
	safetyTick   = 5 * time.Second // a keeper that heard nothing looks again
	defaultPause = 100 * time.Millisecond
	defaultDeaf  = 10 * time.Second
	adopters     = 8
)

// Engine is the host engine. Safe for concurrent use.
type Engine struct {
	cfg Config
	// pause is the first wait before a launcher that failed is started again; it grows fourfold.
	pause time.Duration
	// deaf is how long after an order to stop without any grace a launcher may live on: it hears nothing, and is killed.
	deaf time.Duration

	ready   chan struct{}
	stopped chan struct{} // closed when Run has ended
	keep    chan *replica // to Run: start a keeper
	unknown chan engine.Name
	relist  chan struct{} // room for one: ask for the nodes again

	// What is known of replicas and nodes.
	*engine.Board
	index     *index
	dirs      *folders
	addresses *addresses
	starter   *starter
}

// replica is one folder as we know it.
type replica struct {
	name engine.Name
	dir  string
	task string
	node string
	// What a launcher's group is made from.
	resources api.Resources
	devices   []api.Device
	virtual   bool
	inside    engine.Name // "": it has a group of its own
	// hostNetwork: it is on the machine's network because its gang is on several machines.
	hostNetwork bool
	uid         int
	network     record.Network // zero: it uses the machine's, or that of its host
	renewed     time.Time      // of network; its keeper's, after it was adopted
	address     string         // where others reach its processes

	poke  chan struct{} // room for one: look again
	ended chan struct{} // closed when its keeper has ended
}

// New makes an engine on cfg.Dir and its folder. It starts nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.Mint == nil || !filepath.IsAbs(cfg.Dir) || !filepath.IsAbs(cfg.Exe) || !filepath.IsAbs(cfg.Endpoints) {
		return nil, fault.New(fault.Internal, "BadEngineConfig", fault.T(
			"The host engine needs absolute paths of its folder, its program and its endpoints file, and a source of tokens.",
			"主机引擎需要数据目录、程序与端点文件的绝对路径以及令牌来源。"))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Inventory == nil {
		cfg.Inventory = thisMachine
	}
	board := engine.NewBoard()
	e := &Engine{
		cfg: cfg, pause: defaultPause, deaf: defaultDeaf, Board: board, index: newIndex(board),
		ready: make(chan struct{}), stopped: make(chan struct{}),
		keep: make(chan *replica), unknown: make(chan engine.Name, 64), relist: make(chan struct{}, 1),
		dirs: &folders{root: filepath.Join(cfg.Dir, "replicas"), trash: make(chan string, 64), log: cfg.Log},
	}
	e.addresses = &addresses{network: cfg.Network, advertise: cfg.Advertise, dirs: e.dirs, index: e.index, clock: cfg.Clock, log: cfg.Log}
	e.starter = &starter{cfg: &e.cfg, dirs: e.dirs, addresses: e.addresses}
	if err := os.MkdirAll(e.dirs.root, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "EngineFolder", fault.T(
			"The folder for replicas could not be made.", "无法创建副本目录。")).Because(err)
	}
	return e, nil
}

// Run adopts everything on disk, then keeps it. It ends with ctx and leaves all launchers running.
// Call it once.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer close(e.stopped)
	defer wg.Wait()
	start := func(r *replica) {
		wg.Go(func() { e.runKeeper(ctx, r) })
	}
	if err := e.reign(); err != nil {
		return err
	}
	wg.Go(func() { e.reportNodes(ctx) })
	scanned := e.dirs.modified()
	if err := e.adoptAll(start); err != nil {
		return fmt.Errorf("adopt replicas: %w", err)
	}
	close(e.ready)
	if e.index.exposed("") > 0 {
		e.LookAtNodes()
	}
	wg.Go(e.dirs.sweep)
	if e.cfg.Network != nil {
		wg.Go(func() { _ = e.cfg.Network.SweepOn(ctx) })
	}
	tick := e.cfg.Clock.After(safetyTick)
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-e.keep:
			start(r)
		case name := <-e.unknown:
			e.adoptLogged(name, start)
		case dir := <-e.dirs.trash:
			wg.Go(func() { e.dirs.delete(dir) })
		case <-tick:
			tick = e.cfg.Clock.After(safetyTick)
			// Another server on this directory may have made or removed folders.
			if now := e.dirs.modified(); !now.Equal(scanned) {
				scanned = now
				if err := e.rescan(start); err != nil {
					e.cfg.Log.Warn("replica folders could not be listed", "error", err)
				}
			}
		}
	}
}

// reign makes our epoch the one whose orders count, before we give any.
func (e *Engine) reign() error {
	dir := filepath.Join(e.cfg.Dir, record.DirEpochs)
	if err := record.EnterEpoch(dir, e.cfg.Epoch); err != nil {
		return fmt.Errorf("enter epoch %d: %w", e.cfg.Epoch, err)
	}
	now, err := record.CurrentEpoch(dir)
	if err == nil && now > e.cfg.Epoch {
		err = fault.New(fault.Unavailable, "NewerLeader", fault.T(
			"A leader of epoch %d has been here; ours is %d.", "已有纪元 %d 的主节点在此运行，本节点纪元为 %d。", now, e.cfg.Epoch))
	}
	return err
}

// Ready is closed when everything on disk was adopted.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Poke says that somebody heard of new records. It never blocks.
func (e *Engine) Poke(name engine.Name) {
	if r := e.index.find(name); r != nil {
		r.wake()
		return
	}
	select {
	case e.unknown <- name:
	default: // the rescan will find it
	}
}

func (r *replica) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// adopt reads a folder and takes it into the index. added is false when it was there already; nil
// when there is no such folder.
func (e *Engine) adopt(name engine.Name) (r *replica, added bool, err error) {
	if r := e.index.find(name); r != nil {
		return r, false, nil
	}
	dir := e.dirs.of(name)
	var spec engine.Replica
	ok, err := record.Read(dir, record.FileReplica, &spec)
	if err == nil && ok && spec.Name != name {
		err = fmt.Errorf("it says that it is %q", spec.Name)
	}
	if err != nil {
		return nil, false, fault.New(fault.Internal, "ReplicaGarbled", fault.T(
			"The folder of replica %s cannot be read.", "无法读取副本 %s 的目录。", name)).Because(err)
	}
	if !ok {
		return nil, false, nil
	}
	seen, err := look(dir, e.cfg.Epoch)
	if err != nil {
		return nil, false, fmt.Errorf("look at replica %s: %w", name, err)
	}
	var ends record.Link
	if _, err := record.Read(dir, record.FileEndpoint, &ends); err != nil {
		e.cfg.Log.Warn("what the machine added to a replica can't be read", "replica", name, "error", err)
	}
	r = &replica{
		name: name, dir: dir, task: spec.TaskID, node: spec.Node, resources: spec.Resources, devices: spec.Devices, virtual: spec.Virtual, inside: spec.Inside, uid: spec.UID, network: ends.Network, hostNetwork: spec.HostNetwork,
		poke: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if r.address, err = e.addresses.of(r); err != nil {
		return nil, false, err
	}
	if seen.exit == nil {
		if err := e.addresses.renew(r); err != nil {
			return nil, false, fmt.Errorf("renew the address of replica %s: %w", name, err)
		}
	}
	r, added = e.index.add(r, seen.observation(r, e.addresses.launcher()), seen.exit == nil && e.addresses.misses(r))
	return r, added, nil
}

// observe takes down what a keeper saw.
func (e *Engine) observe(r *replica, s seen) {
	if e.index.put(r, s.observation(r, e.addresses.launcher())) {
		e.LookAtNodes() // they say how many such there are
	}
}

// adoptAll reads every folder, several at once: at a restart there may be thousands.
func (e *Engine) adoptAll(start func(*replica)) error {
	names, err := e.dirs.list()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	next := make(chan engine.Name)
	for range adopters {
		wg.Go(func() {
			for name := range next {
				e.adoptLogged(name, start)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
	return nil
}

func (e *Engine) adoptLogged(name engine.Name, start func(*replica)) {
	if !validName(name) {
		return
	}
	r, added, err := e.adopt(name)
	if err != nil {
		e.cfg.Log.Error("replica could not be adopted", "replica", name, "error", err)
		return
	}
	if added {
		start(r)
	}
}

// rescan adopts folders that another server made and forgets those that it removed.
func (e *Engine) rescan(start func(*replica)) error {
	names, err := e.dirs.list()
	if err != nil {
		return err
	}
	there := make(map[engine.Name]bool, len(names))
	for _, name := range names {
		there[name] = true
		if e.index.find(name) == nil {
			e.adoptLogged(name, start)
		}
	}
	for _, r := range e.index.without(there) {
		// A folder made after the list was read is there all the same.
		if !record.Exists(r.dir, record.FileReplica) {
			e.index.drop(r)
			r.wake()
		}
	}
	return nil
}

// waitReady holds a caller until the index is whole.
func (e *Engine) waitReady(ctx context.Context) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-e.stopped:
	}
	select {
	case <-e.stopped:
		return errStopped
	default:
		return nil
	}
}

var errStopped = fault.New(fault.Unavailable, "EngineStopped",
	fault.T("The host engine is shutting down.", "主机引擎正在关闭。"))

var (
	_ engine.Adapter  = (*Engine)(nil)
	_ engine.Prompted = (*Engine)(nil)
	_ engine.Briefed  = (*Engine)(nil)
)

// errNotDone is what Remove answers before the end.
func errNotDone(name engine.Name) error {
	return fault.New(fault.Conflict, "ReplicaNotDone", fault.T(
		"Replica %s has not handed over everything yet.", "副本 %s 尚未完成交接。", name))
}

var errNameTaken = errors.New("folder exists")
