package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/app/diskguard"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/fermi-cluster/fermi/internal/run"
)

// Config is one agent.
type Config struct {
	Member    *agency.Member
	Data      string // its own folder
	Exe       string // the fermi binary
	Version   string
	Address   string // where other machines reach this one
	Labels    map[string]string
	MachineID string
	Folders   []api.NamedFolder
	Network   string // as a server's
	Forward   int    // port at which gateways reach replicas of services here; 0: none
	Tunnel    int    // UDP port for what goes to other zones encrypted; 0: nothing does
	Log       *slog.Logger
}

// The files and folders of an agent, beside agency's.
const (
	dirEngine      = "engine"
	dirTokens      = "tokens"      // of launchers, by replica
	dirCheckpoints = "checkpoints" // on this machine's disk
	fileEndpoints  = "link.endpoints"
	fileStore      = "checkpoints.keys" // of the shared store, as servers told
	fileMark       = ".fermi-shared"
)

// agent is the parts of one.
type agent struct {
	cfg      Config
	walls    walls
	instance string

	mu      sync.Mutex
	set     agentengine.Settings
	shared  record.SharedTier
	problem fault.Text // of the shared store
	adapter engine.Engine
	road    string // where gateways reach replicas; "": nobody listens
	// roadProblem is why nobody does, where somebody should.
	roadProblem fault.Text
	unkept      *agentengine.Settings // what the disk had no room for

	upgrades *upgrades
	disk     *diskguard.Guard
	hand     *agentengine.Hand
	sealer   sealer
}

// newAgent makes the parts of one, and the folders that they need; rehearsed is for rehearsals alone.
func newAgent(cfg Config, rehearsed func()) (*agent, error) {
	a := &agent{cfg: cfg, instance: id.Default.Random(16), upgrades: newUpgrades(cfg)}
	for _, dir := range []string{dirEngine, dirTokens, dirCheckpoints} {
		if err := os.MkdirAll(filepath.Join(cfg.Data, dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := a.writeTargets(); err != nil {
		return nil, err
	}
	a.walls = a.probe()
	var err error
	if a.sealer, err = openSealer(cfg); err != nil {
		return nil, err
	}
	a.disk = guard(cfg, func(bad *fault.Error) {
		a.mu.Lock()
		unkept, adapter := a.unkept, a.adapter
		a.mu.Unlock()
		if bad == nil && unkept != nil {
			if err := a.settle(*unkept); err != nil {
				cfg.Log.Warn("what a server said could not be kept", "error", err)
			}
		}
		lookAt(adapter) // and says so
	})
	a.hand = agentengine.NewHand(agentengine.HandConfig{
		Open: a.open, Last: func() (int64, error) { return record.CurrentEpoch(filepath.Join(a.dir(), record.DirEpochs)) },
		Hello: a.hello, Admit: a.admit, Forget: func(name engine.Name) { _ = os.Remove(a.tokenFile(name)) }, Learn: a.learn, Settle: a.settle, Erase: a.erase,
		Upgrade: a.upgrades.begin, Measure: measure, Rehearse: rehearsed, Log: cfg.Log.With("part", "engine"), Clock: clock.Real,
	})
	return a, nil
}

// attend adds to g what servers give orders to.
func attend(g *run.Group, a *agent) {
	begun := make(chan struct{})
	g.Add("engine", func(ctx context.Context) error { return a.hand.Run(ctx, func() { close(begun) }) })
	g.Add("servers", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-begun:
		}
		return a.cfg.Member.Run(ctx, a.hand.Attend)
	})
}

// Run is an agent until ctx ends, or until it is to be another program: then the error is a *Successor. What it started goes on.
func Run(ctx context.Context, cfg Config) error {
	a, err := newAgent(cfg, nil)
	if err != nil {
		return err
	}
	defer a.walls.leave(cfg.Log)
	a.upgrades.last = ended(a.upgrades.last)
	first, home := a.listen(), a.openHome()
	var g run.Group
	g.Add("home", func(ctx context.Context) error { return a.callHome(ctx, home) })
	g.Add("road", func(ctx context.Context) error { return a.forward(ctx, first) })
	attend(&g, a)
	g.Add("network", a.walls.keep)
	g.Add("tunnel", func(ctx context.Context) error {
		return a.sealer.keep(ctx, func() {
			a.mu.Lock()
			adapter := a.adapter
			a.mu.Unlock()
			lookAt(adapter)
		})
	})
	g.Add("upgrade", a.upgrades.run)
	g.Add("disk", a.disk.Run)
	cfg.Log.Info("agent", "node", cfg.Member.Node(), "address", cfg.Address, "version", cfg.Version)
	return g.Run(ctx)
}

// Rehearse comes up as Run does until a server has taken this agent and the machine's engine knows what is there; it obeys no order.
func Rehearse(ctx context.Context, cfg Config) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	well := false
	a, err := newAgent(cfg, func() {
		well = true
		end()
	})
	if err != nil {
		return err
	}
	defer a.walls.close()
	var g run.Group
	attend(&g, a)
	if err := g.Run(ctx); err != nil || well {
		return err
	}
	return fault.From(ctx.Err())
}

// lookAt has the machine's engine say anew how the machine is.
func lookAt(adapter engine.Engine) {
	if e, ok := adapter.(interface{ LookAtNodes() }); ok {
		e.LookAtNodes()
	}
}

func (a *agent) dir() string { return filepath.Join(a.cfg.Data, dirEngine) }

// open makes the machine's engine for a leader.
func (a *agent) open(epoch int64) (engine.Adapter, error) {
	e, err := a.newEngine(epoch)
	if err == nil {
		a.mu.Lock()
		a.adapter = e
		a.mu.Unlock()
	}
	return e, err
}

func (a *agent) newEngine(epoch int64) (engine.Adapter, error) {
	return hostengine.New(hostengine.Config{
		Dir: a.dir(), Exe: a.cfg.Exe, Endpoints: filepath.Join(a.cfg.Data, fileEndpoints), Epoch: epoch, Mint: a.token, Inventory: a.inventory,
		Hide: []string{a.cfg.Data}, Tiers: a.tiers, Network: a.walls.network, Standing: hostengine.Standing{Owner: a.walls.owner(), Advertise: a.cfg.Address},
		DeviceFiles: func(devices []api.Device) []string {
			return append(inventory.CardFiles(devices), recipe.ControlFiles(devices)...)
		},
		Images: hostengine.Images{UID: a.walls.imageUID, Most: a.mostImages, IDs: hostengine.UIDBook{Dir: uidBook, Data: a.cfg.Data}.Inner(a.cfg.Log, func() ([]int, error) { return nil, nil })}, Folders: a.cfg.Folders,
		Log: a.cfg.Log.With("part", "engine"), Clock: clock.Real,
	})
}

// hello is what the agent says of itself.
func (a *agent) hello(ctx context.Context) (agentengine.Hello, error) {
	nodes, err := a.inventory(ctx)
	if err != nil {
		return agentengine.Hello{}, err
	}
	epoch, err := record.CurrentEpoch(filepath.Join(a.dir(), record.DirEpochs))
	return agentengine.Hello{
		Upgrade: a.upgrades.now(),
		Homes:   hostengine.Homes{Dir: a.dir()}.List(), Version: a.cfg.Version, MachineID: a.cfg.MachineID, BootID: nodes[0].Status.BootID, Instance: a.instance, Address: a.cfg.Address,
		Now: clock.Real.Now(), Epoch: epoch, Node: nodes[0],
	}, err
}

// inventory is this machine as its node.
func (a *agent) inventory(ctx context.Context) ([]api.Node, error) {
	n, err := inventory.Local(ctx)
	if err != nil {
		return nil, err
	}
	n.Meta.Name, n.Spec.Zone, n.Spec.Number = a.cfg.Member.Node(), a.cfg.Member.Zone(), 0
	n.Status.Agent = &joined.AgentStatus{Version: a.cfg.Version, Address: a.cfg.Address, Forward: a.roadNow(), Addresses: ownAddresses(), Tunnel: a.sealer.say()}
	n.Spec.Rack, n.Spec.Leaf, n.Spec.Spot = a.cfg.Labels["rack"], a.cfg.Labels["leaf"], joined.IsSpot(a.cfg.Labels)
	tenancy, why := a.walls.say()
	n.Status.Tenancy = tenancy
	a.mu.Lock()
	problem, road := a.problem, a.roadProblem
	a.mu.Unlock()
	full := a.disk.State()
	if full != nil {
		n.Status.Ready, n.Status.Reason, n.Status.Message = false, full.Reason, fault.Text{EN: full.Message.EN + " " + full.Hint.EN, ZH: full.Message.ZH + full.Hint.ZH}
	}
	for _, t := range []fault.Text{why, problem, road, a.sealer.problem()} {
		n.Status.Message = fault.Text{EN: strings.TrimSpace(n.Status.Message.EN + " " + t.EN), ZH: n.Status.Message.ZH + t.ZH}
	}
	return []api.Node{n}, nil
}

// admit changes a replica to what this machine can do, and keeps its launcher's token.
func (a *agent) admit(r *engine.Replica, token string) error {
	switch {
	case a.walls.err != nil:
		r.UID = 0 // everybody is who the agent is; hostengine refuses all but the owner
	case r.UID == 0:
		return fault.New(fault.Conflict, "NoProjectUID", fault.T(
			"The servers don't keep projects apart, and this machine's agent is root: nothing may run here as root.", "服务器未隔离项目，而本机代理以 root 运行：不允许任务以 root 身份运行。")).
			WithHint(fault.T("Run the servers as root too, or this agent as an ordinary user.", "请以 root 运行服务器，或以普通用户运行该代理。"))
	}
	if err := a.fits(r); err != nil {
		return err
	}
	nameFast(r, inventory.RDMAPorts)
	path := a.tokenFile(r.Name)
	if had, err := os.ReadFile(path); err == nil && string(had) == token {
		return nil
	}
	return write(path, []byte(token))
}

func (a *agent) tokenFile(name engine.Name) string {
	return filepath.Join(a.cfg.Data, dirTokens, filepath.Base(string(name)))
}

// token is what a server gave for a replica's launcher.
func (a *agent) token(name engine.Name) string {
	raw, err := os.ReadFile(a.tokenFile(name))
	if err != nil {
		a.cfg.Log.Error("the token of a launcher is not there", "replica", name, "error", err)
	}
	return string(raw)
}

// learn takes where servers are.
func (a *agent) learn(targets []string) error {
	if err := a.cfg.Member.Learn(targets); err != nil {
		return err
	}
	return a.writeTargets()
}

// settle takes what a server says beside orders. What a full disk does not keep is kept when there is room: the machine is not away for that.
func (a *agent) settle(s agentengine.Settings) error {
	a.mu.Lock()
	same := reflect.DeepEqual(s, a.set)
	a.unkept = nil
	a.mu.Unlock()
	if same {
		return nil
	}
	a.sealer.want(s, a.cfg.Member.Node(), a.cfg.Member.Zone(), a.cfg.Log)
	shared, problem, err := a.sharedStore(s)
	if err == nil {
		err = a.learn(s.Targets)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		a.cfg.Log.Warn("what a server said could not be kept; it is when the disk has room", "error", err)
		a.unkept = &s
		return nil
	}
	if err != nil {
		return err
	}
	a.set, a.shared, a.problem = s, shared, problem
	return nil
}

// writeTargets makes servers known to launchers.
func (a *agent) writeTargets() error {
	return write(filepath.Join(a.cfg.Data, fileEndpoints), []byte(strings.Join(a.cfg.Member.Targets(), "\n")+"\n"))
}

// sharedStore is the store for checkpoints of all machines, as it is reached from here; zero with the reason where it is not.
func (a *agent) sharedStore(s agentengine.Settings) (t record.SharedTier, problem fault.Text, err error) {
	if len(s.Shared) == 0 {
		return t, problem, nil
	}
	if err := json.Unmarshal(s.Shared, &t); err != nil {
		return t, problem, err
	}
	if strings.HasPrefix(t.Place, "s3://") {
		t.Credentials = filepath.Join(a.cfg.Data, fileStore)
		return t, problem, write(t.Credentials, s.Keys)
	}
	here, err := os.ReadFile(filepath.Join(t.Place, fileMark))
	if err == nil && s.Mark != "" && strings.TrimSpace(string(here)) == s.Mark {
		return t, problem, nil
	}
	return record.SharedTier{}, fault.T("The servers' folder for checkpoints, %s, is not mounted here: checkpoints of this machine stay on its own disk.",
		"服务器的检查点目录 %s 未在本机挂载：本机的检查点仅保存在本机磁盘。", t.Place), nil
}

// tiers are where checkpoints of this machine go.
func (a *agent) tiers(string) record.Tiers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return record.Tiers{Local: filepath.Join(a.cfg.Data, dirCheckpoints), Shared: a.shared}
}

// erase deletes what the disk has of work that is gone: checkpoints, and a home.
func (a *agent) erase(taskID string) error {
	if !api.IsName(taskID) {
		return nil
	}
	if err := (hostengine.Homes{Dir: a.dir()}).Drop(context.Background(), taskID); err != nil {
		return err
	}
	err := os.RemoveAll(filepath.Join(a.cfg.Data, dirCheckpoints, taskID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (a *agent) mostImages(project string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set.ImageMost[project]
}

// write makes a private file that appears whole. One that is so already needs no room.
func write(path string, content []byte) error {
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, content) {
		return nil
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
