package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/apart"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/control/tenant"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/recipe"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/safe"
)

// What a node's status says of tenants.
const (
	tenancyIsolated = "isolated"
	tenancySingle   = "single-tenant"
)

// ground is the machine on which projects are kept apart.
type ground struct {
	cfg     Config
	store   *store.Store
	leads   func() bool
	safe    *safe.Safe // what servers that share no folder have in common
	tenants *tenant.Register
	walls   func() walls
}

func newGround(cfg Config, truth *store.Store, s *safe.Safe, leads func() bool) *ground {
	g := &ground{cfg: cfg, store: truth, safe: s, leads: leads}
	g.walls = sync.OnceValue(g.probe)
	g.tenants = tenant.New(g.uids())
	return g
}

// walls is what this machine can do to keep projects apart.
type walls struct {
	missing []string
	err     error            // nothing can be kept apart
	network *network.Network // nil with err
}

var errHostNetwork = errors.New("network is host")

func (g *ground) probe() (w walls) {
	w.missing, w.network, w.err = g.tryWalls()
	if w.err != nil && !errors.Is(w.err, inside.ErrNotRoot) && !errors.Is(w.err, errHostNetwork) {
		g.cfg.Log.Warn("projects can't be kept apart on this machine; only the owner may start processes", "error", w.err)
	}
	return w
}

// tryWalls builds one, with a network of its own, and makes the network of the instance.
func (g *ground) tryWalls() ([]string, *network.Network, error) {
	switch {
	case os.Geteuid() != 0:
		return nil, nil, inside.ErrNotRoot
	case g.cfg.Network == conf.NetworkHost:
		return nil, nil, errHostNetwork
	}
	space, err := network.New()
	if err != nil {
		return nil, nil, err
	}
	defer space.Close()
	missing, err := inside.Probe(firstUID(g.cfg), g.private(), g.cfg.Data, space.Descriptor())
	if err != nil {
		return nil, nil, err
	}
	replicas := filepath.Join(engineDir(g.cfg), "replicas")
	n, err := network.Open(network.Config{
		Dir: filepath.Join(engineDir(g.cfg), "network"), Pool: cmp.Or(g.cfg.Network, conf.NetworkAuto), Log: g.cfg.Log.With("part", "network"),
		Alive: func(replica string) bool {
			_, err := os.Lstat(filepath.Join(replicas, replica))
			return !errors.Is(err, fs.ErrNotExist)
		},
	})
	return missing, n, err
}

// private are the folders that no user's process may see.
func (g *ground) private() []string {
	return slices.Compact([]string{g.cfg.Data, g.cfg.Shared})
}

// soleOwner is who alone may start processes here; "" when projects are kept apart.
func (g *ground) soleOwner() string {
	if g.walls().err != nil {
		return adminName
	}
	return ""
}

// uid is a project's, 0 where none is needed.
func (g *ground) uid(ctx context.Context, project string, fence store.Epoch) (int, error) {
	if g.walls().err != nil && !isApart(g.cfg) {
		return 0, nil
	}
	return g.tenants.UID(ctx, project, fence)
}

// uids says where the projects' uids come from: the range that was set, or the machine's book.
func (g *ground) uids() tenant.Config {
	if isApart(g.cfg) {
		return tenant.Config{Store: g.store, Take: func(used []int) (int, error) { return apart.TakeUID(g.safe, used) }}
	}
	c := tenant.Config{Store: g.store, First: g.cfg.FirstUID, Last: g.cfg.LastUID - 1, Burn: g.burnUID} // the last keeps the images
	if g.cfg.FirstUID == 0 {
		c.Take = uidBook(g.cfg).Take
	}
	return c
}

// imageUID is who keeps the images of this machine: the last of a range that was set, otherwise one of the book. 0: nobody,
// and images are refused.
func (g *ground) imageUID(ctx context.Context) int {
	switch {
	case g.walls().err != nil:
		return 0
	case g.cfg.FirstUID != 0:
		return g.cfg.LastUID
	}
	used, err := tenant.Used(ctx, g.store, 0)
	uid := 0
	if err == nil {
		uid, err = uidBook(g.cfg).Images(used)
	}
	if err != nil {
		g.cfg.Log.Warn("no uid is set aside for images; tasks with one are refused", "error", err)
	}
	return uid
}

// claimUIDs writes into the machine's book what the projects have already, so that no other instance gives it to
// its own. Nothing depends on it but them: trouble is logged.
func (g *ground) claimUIDs(ctx context.Context) {
	if g.cfg.UIDBook == "" || g.walls().err != nil {
		return
	}
	used, err := tenant.Used(ctx, g.store, 0)
	if err != nil || len(used) == 0 {
		return
	}
	clashes, err := uidBook(g.cfg).Claim(used)
	if err != nil {
		g.cfg.Log.Warn("the uids of projects were not written into the machine's book", "error", err)
	}
	for _, c := range clashes {
		g.cfg.Log.Warn("a project has the uid of a project of another instance on this machine: its processes can reach the other's files", "uid", c.UID, "other", c.Data)
	}
}

// inventory is the nodes with what is true of tenants on the machine that runs their processes.
func (g *ground) inventory(ctx context.Context) ([]api.Node, error) {
	nodes, err := g.cfg.Inventory(ctx)
	tenancy, why := g.walls().say()
	nodes = slices.Clone(nodes)
	for i := range nodes {
		s := &nodes[i].Status
		s.Tenancy = tenancy
		s.Message = fault.Text{EN: strings.TrimSpace(s.Message.EN + " " + why.EN), ZH: s.Message.ZH + why.ZH}
	}
	return nodes, err
}

// say is what the node's status tells.
func (w walls) say() (string, fault.Text) {
	switch {
	case errors.Is(w.err, inside.ErrNotRoot):
		return tenancySingle, fault.T("Fermi does not run as root, so projects are not kept apart: only user %s may start processes here.",
			"Fermi 未以 root 运行，无法隔离项目：只有用户 %s 可以在此启动进程。", adminName)
	case errors.Is(w.err, errHostNetwork):
		return tenancySingle, fault.T("network is host, so projects are not kept apart: only user %s may start processes here.",
			"network 设置为 host，无法隔离项目：只有用户 %s 可以在此启动进程。", adminName)
	case w.err != nil:
		return tenancySingle, fault.T("This system does not let projects be kept apart (%[2]v): only user %[1]s may start processes here.",
			"本系统不允许隔离项目（%[2]v）：只有用户 %[1]s 可以在此启动进程。", adminName, w.err)
	case slices.Contains(w.missing, inside.MissingSockets):
		return tenancyIsolated, fault.T("Abstract unix sockets are shared between projects: this kernel (before 6.12, or without Landlock) can't part them.",
			"各项目共享抽象 unix 套接字：当前内核（早于 6.12 或未启用 Landlock）无法隔离。")
	}
	if w.network != nil {
		return tenancyIsolated, fault.T("Replicas have addresses of network %s; they reach the API at %s.", "副本使用网络 %s 中的地址，API 地址为 %s。", w.network.Pool(), w.network.API())
	}
	return tenancyIsolated, fault.Text{}
}

// deviceFiles are what a replica with these devices may open: the cards' own files and the driver's.
func deviceFiles(devices []api.Device) []string {
	return append(inventory.CardFiles(devices), recipe.ControlFiles(devices)...)
}
