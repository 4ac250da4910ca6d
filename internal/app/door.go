package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/run"
)

// allRemote has the launchers of this machine treated as those of others: their orders come over the link, and that is over TLS. For
// tests: $FERMI_LINK is tls or far.
func allRemote() bool { return os.Getenv("FERMI_LINK") == "tls" || isFar() }

// isFar has them treated as on machines that only the link reaches: no signal gets there either. For tests: $FERMI_LINK is far.
func isFar() bool { return os.Getenv("FERMI_LINK") == "far" }

// remoteFile is where targets are for launchers that are not on this machine.
func remoteFile(cfg Config) string { return filepath.Join(cfg.Shared, "link.remote") }

// endpointsFile is where the launchers of this machine find servers.
func endpointsFile(cfg Config) string {
	if allRemote() {
		return remoteFile(cfg)
	}
	return filepath.Join(cfg.Shared, "link.endpoints")
}

// remote is how launchers of this machine get their orders; nil: in their folders.
func remote(hub *link.Hub) *hostengine.Remote {
	if !allRemote() {
		return nil
	}
	return &hostengine.Remote{Stop: hub.Stop, Far: isFar()}
}

// serveSecureLink answers launchers that are not on this machine, where there is an address for them, and makes it known.
func serveSecureLink(ctx context.Context, cfg Config, hub *link.Hub, tokens *link.Tokens, more ...func(grpc.ServiceRegistrar)) error {
	at := cfg.Doors.Launchers
	switch {
	case at == "" && allRemote():
		at = "localhost:0"
	case at == "":
		return nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return fault.New(fault.Conflict, "AddressInUse", fault.T("Can't listen on %s for launchers.", "无法在 %s 上监听启动器。", at)).
			WithHint(fault.T("Choose another address with --link-listen.", "可用 --link-listen 换一个地址。")).Because(err)
	}
	var g run.Group
	g.Add("serve", func(ctx context.Context) error {
		return hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(tokens.Keys)), more...)
	})
	if isApart(cfg) { // the members tell it, and this one is soon one of them
		target, err := endpoint.Target(l.Addr().String(), tokens.Keys()[0])
		if err == nil {
			err = endpoint.Add(remoteFile(cfg), "", target)
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
		return g.Run(ctx)
	}
	announce := endpoint.Announcement{File: remoteFile(cfg), Own: filepath.Join(cfg.Data, "link.remote.own"), Keys: tokens.Keys}
	g.Add("announce", func(ctx context.Context) error { return announce.Run(ctx, l.Addr()) })
	return g.Run(ctx)
}

// serveLink opens the socket that launchers dial and makes it known to them.
func (p *part) serveLink(ctx context.Context) error {
	path := filepath.Join(p.cfg.Data, "link.sock")
	if len(path) > 100 {
		return fault.New(fault.Invalid, "PathTooLong", fault.T("The data folder's path is too long for a socket: %s", "数据目录路径过长，无法创建套接字：%s", path)).
			WithHint(fault.T("Use a shorter --data path (at most 90 characters).", "请使用更短的 --data 路径（不超过 90 个字符）。"))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	if err := endpoint.Add(filepath.Join(p.cfg.Shared, "link.endpoints"), "", "unix://"+path); err != nil {
		return err
	}
	return p.hub.Serve(ctx, l, p.curves.Register, p.lend.Register)
}

// specOf is what the launcher of a replica is told over the link: by the leader's engine.
func (l *live) specOf(ctx context.Context, name engine.Name) ([]byte, error) {
	var told json.RawMessage
	if asked, err := l.others.ask(ctx, askSpec, string(name), &told); asked {
		return told, err
	}
	return l.spec(ctx, string(name))
}

func (l *live) spec(ctx context.Context, name string) (json.RawMessage, error) {
	return l.engine.Spec(ctx, engine.Name(name))
}
