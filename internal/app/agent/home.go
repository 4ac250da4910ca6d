package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/accept"
)

// Replicas of this machine reach the API at one address here, as those of a server's own machine do; their connections are carried to a server.

const (
	fileHome = "api.port" // where that is, for replicas that outlive this agent
	homePort = 7070
	// mostCalls bounds the connections that are carried at once.
	mostCalls = 512
)

// openHome opens that address; nil: replicas have no network of their own here, or it can't be had.
func (a *agent) openHome() net.Listener {
	n := a.walls.network
	if n == nil {
		return nil
	}
	file := filepath.Join(a.cfg.Data, fileHome)
	l, err := listenAt(n.API(), homePorts(file)...)
	if err != nil {
		a.cfg.Log.Warn("replicas of this machine don't reach the API", "address", n.API(), "error", err)
		return nil
	}
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	if err := errors.Join(write(file, []byte(strconv.Itoa(int(port)))), n.Admit(port)); err != nil {
		a.cfg.Log.Warn("replicas of this machine don't reach the API", "address", l.Addr(), "error", err)
		_ = l.Close()
		return nil
	}
	a.cfg.Log.Info("replicas reach the API", "address", l.Addr())
	return l
}

// homePorts are the ports to try: that of before, the usual one, any.
func homePorts(file string) (out []uint16) {
	if raw, err := os.ReadFile(file); err == nil {
		if port, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 16); err == nil && port > 0 {
			out = append(out, uint16(port))
		}
	}
	return append(out, homePort, 0)
}

// listenAt listens at the first of these ports that nobody has.
func listenAt(at netip.Addr, ports ...uint16) (l net.Listener, err error) {
	for _, port := range ports {
		if l, err = net.Listen("tcp4", netip.AddrPortFrom(at, port).String()); err == nil || !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return l, err
}

// callHome carries the calls of replicas until ctx ends.
func (a *agent) callHome(ctx context.Context, l net.Listener) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	err := accept.Serve(ctx, l, mostCalls, nil, func(ctx context.Context, conn net.Conn) {
		if err := a.cfg.Member.Carry(ctx, conn); err != nil {
			a.cfg.Log.Debug("a call of a replica reached no server", "error", err)
		}
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
