package agent

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

// owner is who may start processes on a machine that keeps nobody apart.
const owner = "admin"

// uidBook is the machine's book of uids, as of servers.
const uidBook = "/var/lib/fermi"

// walls is what this machine can do to keep projects apart.
type walls struct {
	missing  []string
	err      error            // nothing can be kept apart
	network  *network.Network // nil with err
	imageUID int
}

var errHostNetwork = errors.New("network is host")

func (a *agent) probe() (w walls) {
	w.missing, w.network, w.err = a.tryWalls()
	if w.err != nil {
		a.cfg.Log.Warn("projects can't be kept apart on this machine; only the owner may start processes", "error", w.err)
		return w
	}
	uid, err := hostengine.UIDBook{Dir: uidBook, Data: a.cfg.Data}.Images(nil)
	if err != nil {
		a.cfg.Log.Warn("no uid is set aside for images; tasks with one are refused", "error", err)
	}
	w.imageUID = uid
	return w
}

func (a *agent) tryWalls() ([]string, *network.Network, error) {
	switch {
	case os.Geteuid() != 0:
		return nil, nil, inside.ErrNotRoot
	case a.cfg.Network == conf.NetworkHost:
		return nil, nil, errHostNetwork
	}
	space, err := network.New()
	if err != nil {
		return nil, nil, err
	}
	defer space.Close()
	missing, err := inside.Probe(hostengine.FirstAuto, []string{a.cfg.Data}, a.cfg.Data, space.Descriptor())
	if err != nil {
		return nil, nil, err
	}
	replicas := filepath.Join(a.dir(), "replicas")
	n, err := network.Open(network.Config{
		Dir: filepath.Join(a.dir(), "network"), Pool: cmp.Or(a.cfg.Network, conf.NetworkAuto), Log: a.cfg.Log.With("part", "network"),
		Alive: func(replica string) bool {
			_, err := os.Lstat(filepath.Join(replicas, replica))
			return !errors.Is(err, fs.ErrNotExist)
		},
	})
	return missing, n, err
}

func (w walls) owner() string {
	if w.err != nil {
		return owner
	}
	return ""
}

// keep sees to the network of replicas until ctx ends.
func (w walls) keep(ctx context.Context) error {
	if w.network == nil {
		<-ctx.Done()
		return nil
	}
	return w.network.Keep(ctx)
}

// leave removes the network if no replica is left that uses it.
func (w walls) leave(log *slog.Logger) {
	if w.network == nil {
		return
	}
	if err := w.network.Leave(); err != nil {
		log.Warn("the network of the replicas is left on the machine", "error", err)
	}
	w.close()
}

// close leaves the network to who comes next.
func (w walls) close() {
	if w.network != nil {
		w.network.Close()
	}
}

// say is what the node's status tells.
func (w walls) say() (string, fault.Text) {
	switch {
	case w.err != nil:
		return "single-tenant", fault.T("Projects are not kept apart here (%[2]v): only user %[1]s may start processes.", "此处未隔离项目（%[2]v）：只有用户 %[1]s 可以启动进程。", owner, w.err)
	case slices.Contains(w.missing, inside.MissingSockets):
		return "isolated", fault.T("Abstract unix sockets are shared between projects: this kernel (before 6.12, or without Landlock) can't part them.",
			"各项目共享抽象 unix 套接字：当前内核（早于 6.12 或未启用 Landlock）无法隔离。")
	}
	return "isolated", fault.Text{}
}
