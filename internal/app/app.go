package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/app/cards"
	"github.com/fermi-cluster/fermi/internal/app/diskguard"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
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
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/quota"
	"github.com/fermi-cluster/fermi/internal/run"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
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
	// TLSCert and TLSKey are files; plain HTTP without them.
	TLSCert, TLSKey string
	// SelfSigned makes a certificate in Data when none is there.
	SelfSigned bool
	// Hosts are further names by which browsers may call this server.
	Hosts        []string
	Etcd         store.Outside // embedded when it has no endpoints
	EtcdPrefix   string
	Doors        conf.Doors
	Zone         string // that this server stands in, to measure the way to others; "" is unknown
	Past         restore.Past
	Checkpoints  record.SharedTier // zero: checkpoints stay on the nodes
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

// certificates are those of the door.
type certificates struct {
	cert   *tls.Certificate                // nil on plain HTTP
	served atomic.Pointer[tls.Certificate] // what new connections get
}

// part is everything one process holds.
type part struct {
	cfg     Config
	dir     *embedded.DataDir
	etcd    *embedded.Server // nil with an outside etcd
	client  *clientv3.Client
	store   *store.Store
	history history.History
	blob    *folder.Store
	logs    *logbook.Book
	hub     *link.Hub
	beside
	tokens  *link.Tokens
	keys    keyState
	box     *seal.Box
	shared  func() (ckpt.Store, error) // for checkpoints; nil, nil: there is none
	checks  *checks
	tenants *tenant.Register
	stored  *quota.Book
	walls   func() walls
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
	disk     *diskguard.Guard
	collect  func() // ends what collectLater began
	certificates
	// secretWait is how long the old secret.key stays after a change.
	secretWait time.Duration
}

// beside is who is heard beside the hub.
type beside struct {
	peers  *link.Peers // nil with an embedded etcd: there are no others
	peerL  net.Listener
	curves *curve.Desk
}

// Serve runs a control-plane process until ctx ends or a part of it dies.
func Serve(ctx context.Context, cfg Config) error {
	if cfg.Shared == "" {
		cfg.Shared = cfg.Data
	}
	p := &part{cfg: cfg, collect: collectLater(), checks: newChecks(), secretWait: secretWait, admitted: make(chan struct{})}
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
	return p.run(ctx, listener)
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
	if err := restore.Whole(p.cfg.Data, p.cfg.Shared, p.cfg.Past, p.outside()); err != nil {
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
	(*guarded)(p).guardDisk()
	p.walls = sync.OnceValue(p.probe)
	go p.walls() // ready when it is needed
	p.store = store.New(store.Config{
		Client: p.client, Log: p.cfg.Log.With("part", "store"), Clock: clock.Real, DiskFree: p.dir.Free, Metrics: p.cfg.Registry,
		Prefix: p.cfg.EtcdPrefix, LeaseSeconds: p.leaseSeconds(),
	})
	if err := p.assemble(); err != nil {
		return err
	}
	return p.dir.Raise(p.cfg.Version)
}

func (p *part) openEtcd(ctx context.Context) (err error) {
	if p.outside() {
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
	if p.blob, err = folder.Open(filepath.Join(p.cfg.Shared, "blobs")); err != nil {
		return err
	}
	if err := p.loadKeys(); err != nil {
		return err
	}
	logs := logbook.Config{Blob: p.blob, Log: p.cfg.Log.With("part", "logbook"), Clock: clock.Real}
	if p.outside() {
		logs.Others = func(ctx context.Context, taskID string, take func(string, int64, []byte), synced func()) {
			p.peers.Follow(ctx, taskID, take, synced)
		}
	}
	p.logs = logbook.New(logs)
	p.shared = p.openSharedTier()
	return nil
}

// assemble hands the parts to each other.
func (p *part) assemble() (err error) {
	cfg := p.cfg
	p.stored = quota.New(quota.Config{
		Store: p.store, History: p.history, Blob: p.blob, Shared: p.shared, Ready: p.store.Ready(), Work: p.workByID, Server: id.Default.Random(12), Log: cfg.Log,
		Images: func(uid int) int64 { return rootfs.Charged(filepath.Join(cfg.Shared, "engine", record.DirImages), uid) },
	})
	p.hub = link.NewHub(link.HubConfig{
		Keep: p.stored.Keep,
		Blob: p.blob, Logs: p.logs, Tokens: p.tokens, Log: cfg.Log.With("part", "link"), Clock: clock.Real,
		Notify: p.notify, Saved: func(taskID string, anew bool) { p.crew.Save.Saved(taskID, anew) }, SecretsOf: p.secretsOf, SecretsUsed: p.secretsUsed, Current: p.currentReplica,
		Fetched: link.Fetched{SpecOf: (*live)(p).specOf, ArchiveOf: p.archiveOf, ManifestOf: p.manifestOf, Calls: talk.NewCalls()},
		Answer:  p.answer, Tails: p.logs, Peered: p.outside(),
	})
	p.curves = curve.NewDesk(p.history, func(ctx context.Context, taskID string) error {
		_, err := p.workByID(ctx, taskID)
		return err
	}, cfg.Log.With("part", "curves"))
	if err := p.openPeers(); err != nil {
		return err
	}
	if p.cfg.Processes == 0 {
		p.cfg.Processes = processes()
	}
	p.place = placement.New(placement.Config{
		Store: p.store, Clock: clock.Real, IDs: id.Default, Log: cfg.Log.With("part", "placement"), Host: "this", Processes: p.cfg.Processes,
		Past: p.history, Quantum: cfg.Quantum,
	})
	p.could = placement.NewPossible(p.store, clock.Real, cfg.Log.With("part", "placement"))
	p.tenants = tenant.New(p.uids())
	gangs := train.NewGangs(p.store, &p.engine, p.hub)
	p.crew.Save = save.New(save.Config{
		Store: p.store, Hub: p.hub, Events: p.history, Gangs: gangs, Repo: p.repo, Room: p.stored.RoomForSave, Clock: clock.Real, Log: cfg.Log.With("part", "save"),
	})
	p.crew.Train = train.New(train.Config{
		UID: p.uid, Folders: p.tenants.Folders, Gangs: gangs, Checkpoints: p.crew.Save,
		Away: func(ctx context.Context, t *api.TrainingTask, node, kind string) error {
			return p.place.Away(ctx, t, node, kind)
		},
		Store: p.store, History: p.history, Engine: &p.engine, Hub: p.hub, Clock: clock.Real,
		Log: cfg.Log.With("part", "train"), EraseBytes: p.eraseBytes, ArchiveAfter: cfg.ArchiveAfter, Workers: 8,
		Recoveries: telemetry.NewRecoveries(cfg.Registry),
	})
	p.crew.Assemble(work.Config{
		Store: p.store, History: p.history, Engine: &p.engine, Hub: p.hub, Clock: clock.Real, Log: cfg.Log, EraseBytes: p.eraseBytes,
		UID: p.uid, Folders: p.tenants.Folders, ArchiveAfter: cfg.ArchiveAfter, Workers: 8, DropHome: homes(cfg).Drop,
	})
	p.nodes = node.New(node.Config{
		Store: p.store, Clock: clock.Real, IDs: id.Default, Log: cfg.Log.With("part", "node"), Zones: cfg.Zones, Nodes: p.engine.Nodes,
		Version: cfg.Version, Launchers: p.engine.All,
	})
	p.zones = zone.New(zone.Config{Store: p.store, Clock: clock.Real, Log: cfg.Log.With("part", "zone")})
	var contact func() error
	if p.outside() {
		contact = p.store.Contact
	}
	var imports server.Imports
	if cfg.Checkpoints.Place != "" {
		imports = (*vault)(p)
	}
	p.api, err = server.New(server.Config{
		Contact: contact,
		Store:   p.store, History: p.history, Blob: p.blob, Logs: p.logs, Live: (*live)(p), Checkpoints: (*vault)(p), Stored: p.stored, Imports: imports, Backup: p.backup, Rotate: p.rotate, Box: p.box,
		Log: cfg.Log.With("part", "server"), Clock: clock.Real, IDs: id.Default, Version: cfg.Version,
		Ready: p.ready, Metrics: cfg.Registry, Register: cfg.Registry, Hosts: hostNames(cfg, p.cert), SoleOwner: p.soleOwner, Folders: cfg.Folders, Refuse: p.could.Refuse, Console: web.Files(),
	})
	if err == nil {
		p.api.Carry(gateway.New(gateway.Config{Store: p.store, Clock: clock.Real, Log: cfg.Log.With("part", "gateway"), Register: cfg.Registry, Cookies: true}))
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
	base.Add("disk", p.disk.Run)
	base.Add("link", p.serveLink)
	base.Add("link over TLS", func(ctx context.Context) error { return serveSecureLink(ctx, p.cfg, p.hub, p.curves, p.tokens) })
	if p.etcd != nil {
		base.Add("etcd", p.watchEtcd)
	}
	if p.peers != nil {
		base.Add("peers", p.runPeers)
	}
	baseEnd := make(chan error, 1)
	go func() {
		defer endAbove()
		baseEnd <- base.Run(below)
	}()

	var faces run.Group
	doors := newDoors(listener)
	faces.Add("api", func(ctx context.Context) error { return p.api.Run(ctx, doors) })
	faces.Add("network", func(ctx context.Context) error { return p.openToReplicas(ctx, doors) })
	faces.Add("start", p.bootstrap)
	faces.Add("leader", p.campaign)
	faces.Add("checks", p.runChecks)
	faces.Add("keys", p.watchKeys)
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
	return p.store.Campaign(ctx, p.memberName(), p.lead)
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
	if err := (*aftermath)(p).settle(ctx, epoch); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-p.admitted:
	}
	eng, err := p.engines(ctx, epoch)
	if err != nil {
		return err
	}
	defer p.engine.Take(eng)()
	feed := engine.NewFeed()
	defer feed.Close()
	eng.Watch(feed)
	p.claimUIDs(ctx)
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
	work, err := p.workByID(ctx, taskID)
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
	return errors.Join(sealed.Delete(ctx, p.blob, "outputs/"+taskID+"/"), (*vault)(p).Erase(ctx, taskID), p.history.ForgetPoints(ctx, taskID))
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
	if e := p.disk.State(); e != nil {
		return e
	}
	return p.store.Healthy(context.Background())
}

func (p *part) close() {
	if p.could != nil {
		p.could.Close()
	}
	if p.walls != nil {
		p.leaveNetwork()
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
		_ = p.dir.Close()
	}
}

// secretFile reads up to most keys of 32 random bytes, or makes one.
func secretFile(path string, most int) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) > 0 && len(key)%32 == 0 && len(key) <= 32*most {
		return key, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s has %d bytes, not 32: restore it, or delete it and restart running tasks", path, len(key))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, 32)
	rand.Read(key)
	if err := writeOnce(path, key); errors.Is(err, fs.ErrExist) {
		return os.ReadFile(path) // another server was faster
	} else if err != nil {
		return nil, err
	}
	return key, nil
}

// writeOnce makes a private file that appears whole, and only if absent.
func writeOnce(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(content); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}
