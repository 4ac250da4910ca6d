package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/app/doors"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// openToReplicas lets replicas reach the API, at the one address of the machine that is open to them, and keeps their
// network as it should be. It is plain HTTP: between a replica and its own machine there is nobody. Another server of
// this machine may have the door; then it is tried again, until that one has ended.
func (g *ground) openToReplicas(ctx context.Context, all *doors.Doors, admitted chan<- struct{}) error {
	n := g.walls().network
	if n == nil {
		close(admitted)
		return nil
	}
	port := netip.MustParseAddrPort(all.Addr().String()).Port()
	if err := n.Admit(port); err != nil {
		return err
	}
	close(admitted)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = n.Keep(ctx) })
	at := netip.AddrPortFrom(n.API(), port)
	for {
		l, err := net.Listen("tcp4", at.String())
		if err == nil {
			g.cfg.Log.Info("replicas reach the API", "address", at)
			all.Add(l)
			<-ctx.Done()
			return nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.Real.After(time.Second):
		}
	}
}

// leaveNetwork removes it from the machine if no replica is left that uses it.
func (g *ground) leaveNetwork() {
	n := g.walls().network
	if n == nil {
		return
	}
	if err := n.Leave(); err != nil {
		g.cfg.Log.Warn("the network of the replicas is left on the machine", "error", err)
	}
	n.Close()
}
