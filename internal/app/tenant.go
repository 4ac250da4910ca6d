package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/tenant"
	"github.com/fermi-cluster/fermi/internal/engine/localengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/store"
)

// What a node's status says of tenants.
const (
	tenancyIsolated = "isolated"
	tenancySingle   = "single-tenant"
)

// walls is what this machine can do to keep projects apart.
type walls struct {
	missing []string
	err     error // nothing can be kept apart
}

func (p *part) probe() walls {
	missing, err := inside.Probe(cmp.Or(p.cfg.FirstUID, localengine.FirstAuto), p.private(), p.cfg.Data)
	if err != nil && !errors.Is(err, inside.ErrNotRoot) {
		p.cfg.Log.Warn("projects can't be kept apart on this machine; only the owner may start processes", "error", err)
	}
	return walls{missing, err}
}

// private are the folders that no user's process may see.
func (p *part) private() []string {
	return slices.Compact([]string{p.cfg.Data, p.cfg.Shared})
}

// soleOwner is who alone may start processes here; "" when projects are kept apart.
func (p *part) soleOwner() string {
	if p.walls().err != nil {
		return adminName
	}
	return ""
}

// uid is a project's, 0 where none is needed.
func (p *part) uid(ctx context.Context, project string, fence store.Epoch) (int, error) {
	if p.walls().err != nil {
		return 0, nil
	}
	return p.tenants.UID(ctx, project, fence)
}

// uids says where the projects' uids come from: the range that was set, or the machine's book.
func (p *part) uids() tenant.Config {
	c := tenant.Config{Store: p.store, First: p.cfg.FirstUID, Last: p.cfg.LastUID, Burn: p.burnUID}
	if p.cfg.FirstUID == 0 {
		c.Take = p.book().Take
	}
	return c
}

func (p *part) book() localengine.UIDBook {
	return localengine.UIDBook{Dir: p.cfg.UIDBook, Data: p.cfg.Shared}
}

// claimUIDs writes into the machine's book what the projects have already, so that no other instance gives it to
// its own. Nothing depends on it but them: trouble is logged.
func (p *part) claimUIDs(ctx context.Context) {
	if p.cfg.UIDBook == "" || p.walls().err != nil {
		return
	}
	used, err := tenant.Used(ctx, p.store, 0)
	if err != nil || len(used) == 0 {
		return
	}
	clashes, err := p.book().Claim(used)
	if err != nil {
		p.cfg.Log.Warn("the uids of projects were not written into the machine's book", "error", err)
	}
	for _, c := range clashes {
		p.cfg.Log.Warn("a project has the uid of a project of another instance on this machine: its processes can reach the other's files", "uid", c.UID, "other", c.Data)
	}
}

func (p *part) burnUID(least int) (int, error) {
	if e := p.engine.Load(); e != nil {
		return e.BurnUID(least)
	}
	return 0, fault.New(fault.Unavailable, "NotLeading", fault.T("This server does not lead.", "本服务器不是主节点。"))
}

// inventory is the nodes with what is true of tenants on the machine that runs their processes.
func (p *part) inventory(ctx context.Context) ([]api.Node, error) {
	nodes, err := p.cfg.Inventory(ctx)
	tenancy, why := p.walls().say()
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
	case w.err != nil:
		return tenancySingle, fault.T("This system does not let projects be kept apart (%[2]v): only user %[1]s may start processes here.",
			"本系统不允许隔离项目（%[2]v）：只有用户 %[1]s 可以在此启动进程。", adminName, w.err)
	case slices.Contains(w.missing, inside.MissingSockets):
		return tenancyIsolated, fault.T("Abstract unix sockets are shared between projects: this kernel (before 6.12, or without Landlock) can't part them.",
			"各项目共享抽象 unix 套接字：当前内核（早于 6.12 或未启用 Landlock）无法隔离。")
	}
	return tenancyIsolated, fault.Text{}
}
