package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// openToReplicas lets replicas reach the API, at the one address of the machine that is open to them, and keeps their
// network as it should be. It is plain HTTP: between a replica and its own machine there is nobody. Another server of
// this machine may have the door; then it is tried again, until that one has ended.
func (p *part) openToReplicas(ctx context.Context, doors *doors) error {
	n := p.walls().network
	if n == nil {
		close(p.admitted)
		return nil
	}
	port := netip.MustParseAddrPort(doors.Addr().String()).Port()
	if err := n.Admit(port); err != nil {
		return err
	}
	close(p.admitted)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = n.Keep(ctx) })
	at := netip.AddrPortFrom(n.API(), port)
	for {
		l, err := net.Listen("tcp4", at.String())
		if err == nil {
			p.cfg.Log.Info("replicas reach the API", "address", at)
			doors.add(l)
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
func (p *part) leaveNetwork() {
	n := p.walls().network
	if n == nil {
		return
	}
	if err := n.Leave(); err != nil {
		p.cfg.Log.Warn("the network of the replicas is left on the machine", "error", err)
	}
	n.Close()
}

// doors are several listeners as one.
type doors struct {
	first net.Listener
	conns chan accepted
	end   chan struct{}
	once  sync.Once

	mu     sync.Mutex
	others []net.Listener
}

type accepted struct {
	conn net.Conn
	err  error
}

func newDoors(first net.Listener) *doors {
	d := &doors{first: first, conns: make(chan accepted), end: make(chan struct{})}
	go d.accept(first)
	return d
}

// add opens one more; it is closed with the others.
func (d *doors) add(l net.Listener) {
	d.mu.Lock()
	d.others = append(d.others, l)
	d.mu.Unlock()
	select {
	case <-d.end:
		l.Close()
	default:
		go d.accept(l)
	}
}

// accept ends with its listener.
func (d *doors) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		select {
		case d.conns <- accepted{conn, err}:
		case <-d.end:
			if err == nil {
				conn.Close()
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (d *doors) Accept() (net.Conn, error) {
	select {
	case a := <-d.conns:
		return a.conn, a.err
	case <-d.end:
		return nil, net.ErrClosed
	}
}

func (d *doors) Close() error {
	err := error(nil)
	d.once.Do(func() {
		close(d.end)
		err = d.first.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, l := range d.others {
			err = errors.Join(err, l.Close())
		}
	})
	return err
}

func (d *doors) Addr() net.Addr { return d.first.Addr() }
