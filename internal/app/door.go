package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/curve"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/run"
)

// allRemote has the launchers of this machine treated as those of others: their orders come over the link, and that is over TLS. For
// tests: $FERMI_LINK is tls.
func allRemote() bool { return os.Getenv("FERMI_LINK") == "tls" }

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
	return &hostengine.Remote{Stop: hub.Stop}
}

// serveSecureLink answers launchers that are not on this machine, where there is an address for them, and makes it known.
func serveSecureLink(ctx context.Context, cfg Config, hub *link.Hub, curves *curve.Desk, tokens *link.Tokens) error {
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
		return hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(tokens.Keys)), curves.Register)
	})
	announce := endpoint.Announcement{File: remoteFile(cfg), Own: filepath.Join(cfg.Data, "link.remote.own"), Keys: tokens.Keys}
	g.Add("announce", func(ctx context.Context) error { return announce.Run(ctx, l.Addr()) })
	return g.Run(ctx)
}

// specOf is what the launcher of a replica is told over the link: by the leader's engine.
func (l *live) specOf(ctx context.Context, name engine.Name) ([]byte, error) {
	var told json.RawMessage
	if asked, err := (*part)(l).ask(ctx, askSpec, string(name), &told); asked {
		return told, err
	}
	return l.spec(ctx, string(name))
}

func (l *live) spec(ctx context.Context, name string) (json.RawMessage, error) {
	return l.engine.Spec(ctx, engine.Name(name))
}
