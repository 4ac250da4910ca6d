package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/app/apart"
	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/app/cards"
	"github.com/fermi-cluster/fermi/internal/app/doors"
	"github.com/fermi-cluster/fermi/internal/app/gate"
	"github.com/fermi-cluster/fermi/internal/app/growth"
	"github.com/fermi-cluster/fermi/internal/app/hosts"
	"github.com/fermi-cluster/fermi/internal/app/keyfile"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/lending"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/app/rotation"
	"github.com/fermi-cluster/fermi/internal/app/sshgate"
	"github.com/fermi-cluster/fermi/internal/app/standing"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/control/fence"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/control/tenant"
	"github.com/fermi-cluster/fermi/internal/control/train"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/control/zone"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/current"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/curve"
	"github.com/fermi-cluster/fermi/internal/link/lend"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/internal/store/safe"
	"github.com/fermi-cluster/fermi/internal/telemetry"
	"github.com/fermi-cluster/fermi/web"
)

// Config is one control-plane process.
type Config struct {
	Name string // of this replica, for the election
	// Data is this process's own folder; Shared is where engine, blobs, history and link key are,
	// for several servers on one machine; Data when "".
	Data, Shared string
	Listen       string
	TLS          conf.TLS // plain HTTP where zero; a certificate of its own making is in Data
	Envs         devenv.Policy
	// Hosts are further names by which browsers may call this server.
	Hosts      []string
	Etcd       store.Outside // embedded when it has no endpoints
	EtcdPrefix string
	Doors      conf.Doors
	Zone       string // that this server stands in, to measure the way to others; "" is unknown
	Past       restore.Past
	Stores
	Zones        []api.Zone
	Inventory    func(context.Context) ([]api.Node, error)
	ArchiveAfter time.Duration
	Quantum      time.Duration // placement's
	// Network is conf.NetworkAuto, conf.NetworkHost or the addresses of replicas; "" is auto.
	Network string
	// FirstUID and LastUID bound the uids of projects, and the last keeps the images; 0: from the machine's book in the folder UIDBook.
	FirstUID, LastUID int
	UIDBook           string
	// Folders are those of the machine that an operator named.
	Folders   []api.NamedFolder
	Processes int // how many processes virtual nodes may start; the engine's guess when 0
	Exe       string
	Version   string
	Registry  *prometheus.Registry
	Log       *slog.Logger
	Out       io.Writer // for the person who started it
}

// Stores are where bytes lie that are not in Shared.
type Stores struct {
	Checkpoints record.SharedTier // zero: checkpoints stay on the nodes
	Bytes       record.SharedTier // all other bytes; zero: they are in Shared
	// KeyFile is the operator's, by which servers that share no folder seal the keys that they have in common.
	KeyFile string
}

// sshKeyFile is what the host key of SSH is made of.
const sshKeyFile = "ssh.key"

// certificates are those of the door.
type certificates struct {
	cert   *tls.Certificate                // nil on plain HTTP
	served atomic.Pointer[tls.Certificate] // what new connections get
	ssh    *sshgate.Gate                   // nil: there is none
}

// part is everything one process holds.
type part struct {
	cfg     Config
	dir     *embedded.DataDir
	etcd    *embedded.Server // nil with an outside etcd
	client  *clientv3.Client
	store   *store.Store
	history history.History
	blob    ckpt.Store
	logs    *logbook.Book
	hub     *link.Hub
	beside
	keys   *rotation.Keys
	admin  adminToken
	vault  *vault
	ground *ground
	others *company
	live   *live
	stored *quota.Book
	// admitted is closed when it is known where replicas reach the API.
	admitted chan struct{}
	place    *placement.Controller
	could    *placement.Possible
	crew     kinds.Crew // the controllers of all kinds of work
	nodes    *node.Controller
	zones    *zone.Controller
	api      *server.Server
	engine   current.Engine
	started  atomic.Bool
	disk     *guarded
	collect  func() // ends what collectLater began
	certificates
}

// beside is who is heard beside the hub.
type beside struct {
	hosts  *hosts.Hosts
	curves *curve.Desk
	given  *fence.Book // whose words count no more
	pods   *pods
	assets *asset.Repo
	lend   *lend.Desk
}

// Serve runs a control-plane process until ctx ends or a part of it dies.
func Serve(ctx context.Context, cfg Config) error {
	if cfg.Shared == "" {
		cfg.Shared = cfg.Data
	}
	if isApart(cfg) {
		cfg.Inventory = apart.NoNodes
	}
	p := &part{cfg: cfg, collect: collectLater(), admitted: make(chan struct{})}
	defer p.collect()
	defer p.close()
	if err := p.open(ctx); err != nil {
		return err
	}
	p.served.Store(p.cert)
	listener, err := listen(p.cfg, &p.served)
	if err != nil {
		return err
	}
	if p.ssh, err = sshgate.Open(p.cfg.Doors.SSH, func() ([]byte, error) { return keyfile.Read(filepath.Join(p.cfg.Shared, sshKeyFile), 1) }); err != nil {
		return errors.Join(err, listener.Close())
	}
	p.api.Enter(p.ssh.At, p.cfg.Doors.Content)
	if err := p.run(ctx, listener); err != nil {
		p.started.Store(false) // what died may still write: nobody says how it left the folder
		return err
	}
	return nil
}

// open makes the parts; nothing runs yet but etcd.
func (p *part) open(ctx context.Context) error {
	var err error
	if p.dir, err = embedded.OpenDataDir(p.cfg.Data); err != nil {
		return err
	}
	p.cfg.Data = p.dir.Path()
	if p.cfg.Shared, err = filepath.Abs(p.cfg.Shared); err != nil {
		return err
	}
	if err := restore.Whole(p.cfg.Data, p.cfg.Shared, p.cfg.Past, p.cfg.outside()); err != nil {
		return err
	}
	if err := checkRest(p.cfg); err != nil {
		return err
	}
	if p.cert, err = certificate(p.cfg); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { ready <- p.openEtcd(ctx) }() // beside the rest: it is the slow one
	restErr := p.openRest(ctx)
	if err := <-ready; err != nil {
		return err
	}
	if restErr != nil {
		return restErr
	}
	if err := p.openKeys(ctx); err != nil {
		return err
	}
	p.store = store.New(store.Config{
		Client: p.client, Log: p.cfg.Log.With("part", "store"), Clock: clock.Real, DiskFree: p.dir.Free, Metrics: p.cfg.Registry,
		Prefix: p.cfg.EtcdPrefix, LeaseSeconds: p.cfg.leaseSeconds(),
	})
	p.ground = newGround(p.cfg, p.store, safe.New(p.client, p.cfg.EtcdPrefix), p.engine.Leads)
	go p.ground.walls() // ready when it is needed
	p.others = &company{cfg: p.cfg, store: p.store, leads: p.engine.Leads}
	p.disk = newGuarded(p.cfg, p.dir, p.history, p.others.workByID)
	p.keys.Begin(rotation.Truth{Store: p.store, Replicas: p.engine.All})
	p.admin = adminToken{dir: p.cfg.Data, store: p.store}
	if err := p.assemble(); err != nil {
		return err
	}
	return p.dir.Raise(p.cfg.Version)
}

func (p *part) openEtcd(ctx context.Context) (err error) {
	if p.cfg.outside() {
		p.client, err = store.Dial(p.cfg.Etcd)
		return err
	}
	if p.etcd, err = embedded.Start(ctx, embedded.Config{Dir: p.dir.Etcd(), Log: p.cfg.Log.With("part", "etcd")}); err != nil {
		return err
	}
	p.client = p.etcd.Client()
	return nil
}

func (p *part) openRest(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Join(p.cfg.Shared, "engine"), 0o700); err != nil {
		return err
	}
	if p.history, err = p.cfg.Past.Open(ctx, filepath.Join(p.cfg.Shared, bundle.History), p.cfg.Log.With("part", "history")); err != nil {
		return err
	}
	if p.blob, err = openBytes(p.cfg); err != nil {
		return err
	}
	logs := logbook.Config{Blob: p.blob, Log: p.cfg.Log.With("part", "logbook"), Clock: clock.Real}
	if p.cfg.outside() {
		logs.Others = func(ctx context.Context, taskID string, take func(string, int64, []byte), synced func()) {
			p.others.peers.Follow(ctx, taskID, take, synced)
		}
	}
	p.logs = logbook.New(logs)
	p.assets = asset.New(p.blob, clock.Real, 0)
	p.vault = newVault(p.cfg, p.blob)
	return nil
}

// assemble hands the parts to each other.
func (p *part) assemble() (err error) {
	cfg := p.cfg
	p.stored = quota.New(quota.Config{
		Store: p.store, History: p.history, Blob: p.blob, Shared: p.vault.shared, Ready: p.store.Ready(), Work: p.others.workByID, Server: id.Default.Random(12), Log: cfg.Log,
		Images: func(uid int) int64 { return rootfs.Charged(filepath.Join(cfg.Shared, "engine", record.DirImages), uid) },
	})
	p.given = fence.NewBook(p.store)
	p.live = &live{envs: cfg.Envs, assets: p.assets, engine: &p.engine, crew: &p.crew, others: p.others, disk: p.disk, mint: p.keys.Tokens.Mint}
	told := &answers{live: p.live, others: p.others, crew: &p.crew}
	opener := &secrets{p.store, p.history, p.keys.Box, p.others.workByID, cfg.Log}
	p.hub = link.NewHub(link.HubConfig{
		Keep: p.stored.Keep,
		Blob: p.blob, Logs: p.logs, Tokens: p.keys.Tokens, Log: cfg.Log.With("part", "link"), Clock: clock.Real,
		Notify: p.notify, Saved: func(taskID string, anew bool) { p.crew.Save.Saved(taskID, anew) }, Secrets: link.Secrets{SecretsOf: opener.of, SecretsUsed: opener.used},
		Standing: link.Standing{Current: p.others.current, GivenUp: p.given.Refuse},
		Fetched:  link.Fetched{SpecOf: p.live.specOf, ArchiveOf: p.archiveOf, ManifestOf: p.vault.manifestOf, Calls: talk.NewCalls()},
		Answer:   told.to, Tails: p.logs, Peered: p.cfg.outside(),
	})
	p.pods = newPods(cfg, p.store, p.hub, p.others, p.keys.Tokens.Mint)
	for _, c := range p.pods.clusters {
		c.Accounts = opener.accounts
	}
	p.live.queues = &p.pods.queues
	p.curves = curve.NewDesk(p.history, func(ctx context.Context, of link.Parts) error {
		_, err := p.others.workByID(ctx, of.TaskID)
		return cmp.Or(err, p.given.Refuse(ctx, of))
	}, cfg.Log.With("part", "curves"))
	p.lend = lend.NewDesk(p.assets, lending.Book{Work: p.others.workByID, Project: p.store.Get, Current: p.others.current}.Names)
	p.hosts = hosts.New(hosts.Config{
		Store: p.store, Events: p.history, Keys: p.keys.Tokens.Keys, Targets: remoteFile(cfg), Shared: cfg.Checkpoints, Version: cfg.Version, Log: cfg.Log.With("part", "agents"), Ask: p.live.askJoin,
		Measured: func(from, to string, m api.MeasuredLatency) { p.zones.Measured(from, to, m) },
	})
	p.live.hub, p.live.hosts, told.hosts = p.hub, p.hosts, p.hosts
	if err := p.others.open(p.hub, p.keys.Tokens.Keys); err != nil {
		return err
	}
	if p.cfg.Processes == 0 {
		p.cfg.Processes = standing.Processes()
	}
	p.place = placement.New(placement.Config{
		Store: p.store, Clock: clock.Real, IDs: id.Default, Log: cfg.Log.With("part", "placement"), Host: "this", Processes: p.cfg.Processes,
		Past: p.history, Quantum: cfg.Quantum,
	})
	p.live.place = p.place
	p.could = placement.NewPossible(p.store, clock.Real, cfg.Log.With("part", "placement"))
	gangs := train.NewGangs(p.store, &p.engine, p.hub)
	p.crew.Save = save.New(save.Config{
		Store: p.store, Hub: p.hub, Events: p.history, Gangs: gangs, Repo: p.vault.repo, Room: p.stored.RoomForSave, Clock: clock.Real, Log: cfg.Log.With("part", "save"),
	})
	p.crew.Train = train.New(train.Config{
		UID: p.ground.uid, Folders: p.ground.tenants.Folders, Gangs: gangs, Checkpoints: p.crew.Save,
		Away: func(ctx context.Context, t *api.TrainingTask, node, kind string) error {
			return p.place.Away(ctx, t, node, kind)
		},
		Store: p.store, History: p.history, Engine: &p.engine, Hub: p.hub, Clock: clock.Real,
		Log: cfg.Log.With("part", "train"), EraseBytes: p.eraseBytes, ArchiveAfter: cfg.ArchiveAfter, Workers: 8,
		Recoveries: telemetry.NewRecoveries(cfg.Registry),
	})
	p.crew.Assemble(work.Config{
		Store: p.store, History: p.history, Engine: &p.engine, Hub: p.hub, Clock: clock.Real, Log: cfg.Log, EraseBytes: p.eraseBytes, Print: p.logs.Append,
		UID: p.ground.uid, Folders: p.ground.tenants.Folders, ArchiveAfter: cfg.ArchiveAfter, Workers: 8, DropHome: p.pods.dropHome(p.hosts.Erase), Output: kinds.ReadOutput(p.blob),
	}, cfg.Envs, far(p.hosts.Road()))
	p.nodes = node.New(node.Config{
		Store: p.store, Clock: clock.Real, IDs: id.Default, Log: cfg.Log.With("part", "node"), Zones: cfg.Zones, Nodes: p.engine.Nodes,
		Version: cfg.Version, Launchers: p.engine.All,
	})
	p.zones = zone.New(zone.Config{Store: p.store, Clock: clock.Real, Log: cfg.Log.With("part", "zone"), Trouble: p.pods.trouble})
	var contact func() error
	if p.cfg.outside() {
		contact = p.store.Contact
	}
	var imports server.Imports
	if cfg.Checkpoints.Place != "" {
		imports = p.vault
	}
	p.api, err = server.New(server.Config{
		Contact: contact,
		Store:   p.store, History: p.history, Blob: p.blob, Logs: p.logs, Live: p.live, Checkpoints: p.vault, Stored: p.stored, Imports: imports, Backup: p.backup, Rotate: p.keys.Rotate, Box: p.keys.Box,
		Log: cfg.Log.With("part", "server"), Clock: clock.Real, IDs: id.Default, Version: cfg.Version,
		Ready: p.ready, Metrics: cfg.Registry, Register: cfg.Registry, Hosts: hostNames(cfg, p.cert), SoleOwner: p.ground.soleOwner, Folders: cfg.Folders, Refuse: growth.Spare(cfg.Doors.Pods.Grow, p.could.Refuse), Console: web.Files(),
	})
	if err == nil {
		heard := func(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
			return heardLoad(ctx, p.others, &p.crew, r)
		}
		p.api.Carry(gateway.New(gateway.Config{Store: p.store, Far: far(p.hosts.Road()), Clock: clock.Real, Log: cfg.Log.With("part", "gateway"), Register: cfg.Registry, Cookies: true, Domain: cfg.Doors.Content, Refused: p.api.RefusedAtGateway, Report: heard}))
	}
	return err
}

// run starts everything and ends it in order: first the faces and the leadership, then what they
// stand on.
func (p *part) run(ctx context.Context, listener net.Listener) error {
	below, endBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer endBelow()
	above, endAbove := context.WithCancel(ctx)
	defer endAbove()

	var base run.Group
	base.Add("store", p.store.Run)
	base.Add("logbook", p.logs.Run)
	base.Add("stored", p.stored.Run)
	base.Add("disk", p.disk.disk.Run)
	base.Add("link", p.serveLink)
	base.Add("link over TLS", func(ctx context.Context) error {
		signs, err := p.signing()
		if err != nil {
			return err
		}
		return serveSecureLink(ctx, p.cfg, p.hub, p.keys.Tokens, p.curves.Register, p.lend.Register, p.hosts.Desk.Register, p.pods.desk().Register, p.pods.calls.Register, signs.Register)
	})
	if p.etcd != nil {
		base.Add("etcd", p.watchEtcd)
	}
	if p.others.peers != nil {
		base.Add("peers", p.others.run)
	}
	baseEnd := make(chan error, 1)
	go func() {
		defer endAbove()
		baseEnd <- base.Run(below)
	}()

	var faces run.Group
	all := doors.New(listener)
	all.Add(p.hosts.Desk.Calls())
	all.Add(p.pods.calls)
	faces.Add("api", func(ctx context.Context) error { return p.api.Run(ctx, all) })
	faces.Add("ssh", func(ctx context.Context) error { return p.ssh.Run(ctx, p.api.RunSSH) })
	faces.Add("network", func(ctx context.Context) error { return p.ground.openToReplicas(ctx, all, p.admitted) })
	faces.Add("start", p.bootstrap)
	faces.Add("leader", p.campaign)
	faces.Add("gateways", func(ctx context.Context) error {
		return gate.Hear(ctx, p.cfg.Data, func(ctx context.Context, r *serving.LoadReport) (*serving.LoadReply, error) {
			return heardLoad(ctx, p.others, &p.crew, r)
		})
	})
	faces.Add("checks", p.vault.runChecks)
	faces.Add("keys", func(ctx context.Context) error {
		return p.keys.Watch(ctx, func() {
			if err := p.ssh.Load(); err != nil {
				p.cfg.Log.Error("the host key of SSH was changed and can't be used; going on with the one from before", "error", err)
			}
		})
	})
	err := faces.Run(above)
	endBelow()
	return errors.Join(<-baseEnd, err)
}

func (p *part) watchEtcd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.etcd.Err():
		return err
	}
}

// campaign leads whenever it can.
func (p *part) campaign(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.store.Ready():
	}
	if p.etcd != nil {
		// The folder is ours alone, so a leader left in it is a dead predecessor: don't wait for it.
		if err := p.store.ForgetLeaders(ctx); err != nil {
			return err
		}
	}
	return p.store.Campaign(ctx, p.others.member(), p.lead)
}

// lead is what only the leader does.
func (p *part) lead(ctx context.Context, epoch store.Epoch) error {
	p.cfg.Log.Info("leading", "epoch", epoch.Revision)
	begun := clock.Real.Now()
	if err := tenant.Grant(ctx, p.store, epoch); err != nil { // before anybody is refused what their project uses
		return err
	}
	if n, err := store.TakeOver(ctx, p.store, epoch); err != nil {
		return err
	} else if n > 0 {
		p.cfg.Log.Info("placements of an earlier release were taken over", "placements", n)
	}
	if err := (&aftermath{p.cfg, p.store, p.history, p.keys.Box}).settle(ctx, epoch); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-p.admitted:
	}
	eng, give, err := p.engines(ctx, epoch)
	if err != nil {
		return err
	}
	defer give()
	grows, err := p.pods.growth(p.place.Why, p.history)
	if err != nil {
		return err
	}
	p.live.grows.Store(grows)
	defer p.engine.Take(eng)()
	feed := engine.NewFeed()
	defer feed.Close()
	eng.Watch(feed)
	p.ground.claimUIDs(ctx)
	var g run.Group
	g.Add("engine", eng.Run)
	g.Add("engine's feed", func(ctx context.Context) error { return follow(ctx, feed, p.nodes, &p.crew) })
	g.Add("maintenance", p.store.RunMaintenance)
	g.Add("nodes", func(ctx context.Context) error { return p.nodes.Run(ctx, epoch) })
	g.Add("zones", func(ctx context.Context) error { return p.zones.Run(ctx, epoch) })
	g.Add("cards", func(ctx context.Context) error {
		return cards.Run(ctx, cards.Config{Store: p.store, Events: p.history, Log: p.cfg.Log.With("part", "card"), Registry: p.cfg.Registry}, epoch)
	})
	g.Add("expiry", p.expire)
	g.Add("control", func(ctx context.Context) error {
		select { // nothing is judged before everything that runs was found again
		case <-ctx.Done():
			return nil
		case <-eng.Ready():
		}
		p.nodes.Look()
		found := eng.Replicas("")
		p.cfg.Log.Info("the folders of all replicas were read; those that run attach by themselves", "found", len(found), "attached", attached(p.hub, found), "after", clock.Real.Now().Sub(begun).Round(time.Millisecond))
		p.hub.Lead(epoch.Revision)
		defer p.hub.Lead(0)
		var c run.Group
		c.Add("placement", func(ctx context.Context) error { return p.place.Run(ctx, epoch) })
		c.Add("work", func(ctx context.Context) error { return p.crew.Run(ctx, epoch) })
		c.Add("fence", func(ctx context.Context) error {
			return fence.New(fence.Config{Store: p.store, Events: p.history, Engine: eng, Clock: clock.Real, Log: p.cfg.Log.With("part", "fence")}).Run(ctx, epoch)
		})
		c.Add("save", func(ctx context.Context) error { return p.crew.Save.Run(ctx, epoch) })
		c.Add("assets", lending.Depot{Repo: p.assets, Store: p.store, Log: p.cfg.Log.With("part", "assets")}.Collect)
		c.Add("models", p.api.PublishModels)
		c.Add("growth", grows.Run)
		c.Add("queues of clusters", func(ctx context.Context) error {
			return p.pods.queues.Run(ctx, epoch, func(id string) { p.crew.Notify(id, "") })
		})
		return c.Run(ctx)
	})
	err = g.Run(ctx)
	p.cfg.Log.Info("leading no more", "epoch", epoch.Revision, "error", err)
	return err
}

// attached is how many of them speak with a server.
func attached(hub *link.Hub, found []engine.Observation) (n int) {
	for _, o := range found {
		if hub.Attached(o.Name) {
			n++
		}
	}
	return n
}

// notify is the hub's word that a replica changed: the engine reads its records again, then the
// task gets a turn.
func (p *part) notify(taskID string, name engine.Name) {
	p.engine.Poke(name)
	p.crew.Notify(taskID, name)
}

func (p *part) archiveOf(ctx context.Context, taskID string) (string, error) {
	work, err := p.others.workByID(ctx, taskID)
	if err != nil {
		return "", err
	}
	if c := work.Workload().Program.Code; c != nil {
		return c.Archive, nil
	}
	return "", nil
}

func (p *part) eraseBytes(ctx context.Context, taskID string) error {
	if err := p.logs.Delete(ctx, taskID); err != nil {
		return err
	}
	defer p.stored.Forget(taskID)
	p.hosts.Erase(taskID)
	return errors.Join(sealed.Delete(ctx, p.blob, "outputs/"+taskID+"/"), p.vault.Erase(ctx, taskID), p.history.ForgetPoints(ctx, taskID))
}

// expire deletes logs and outputs whose time to be kept is over.
func (p *part) expire(ctx context.Context) error {
	for {
		rows, err := p.history.Expired(ctx, clock.Real.Now(), 100)
		for _, row := range rows {
			meta := row.Object.GetMeta()
			if err = p.eraseBytes(ctx, meta.ID); err != nil {
				break
			}
			row.Expires = time.Time{}
			if err = p.history.PutArchived(ctx, row); err != nil {
				break
			}
		}
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("expired outputs could not be deleted; trying again", "error", err)
		}
		if len(rows) == 100 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(10 * time.Minute):
		}
	}
}

func (p *part) ready() error {
	if !p.started.Load() {
		return fault.New(fault.Unavailable, "Starting", fault.T("The server is starting.", "服务正在启动。"))
	}
	if e := p.disk.disk.State(); e != nil {
		return e
	}
	return p.store.Healthy(context.Background())
}

func (p *part) close() {
	if p.could != nil {
		p.could.Close()
	}
	p.given.Close()
	if p.ground != nil {
		p.ground.leaveNetwork()
	}
	if p.history != nil {
		if err := p.history.Close(); err != nil {
			p.cfg.Log.Error("history was not closed well", "error", err)
		}
	}
	if p.etcd != nil {
		p.etcd.Close()
	} else if p.client != nil {
		_ = p.client.Close()
	}
	if p.dir != nil {
		if p.started.Load() {
			leaveRest(p.cfg)
		}
		_ = p.dir.Close()
	}
}
