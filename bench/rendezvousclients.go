package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// idleLauncher is a launcher whose ranks are there as soon as they are ordered.
type idleLauncher struct {
	client *link.Client
	index  int
	heard  atomic.Int64 // bytes, as they come out of the connection's encryption

	mu     sync.Mutex
	said   link.Ranks
	arrive func() // its first connection stands
}

func (l *idleLauncher) Go(_ int64, g link.Generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said.Generation == 0 {
		l.client.Started(time.Now(), os.Getpid())
	}
	if g.Number > l.said.Generation {
		l.said.Generation, l.said.Failed = g.Number, nil
		l.client.Ranks(l.said)
	}
}

func (l *idleLauncher) Watermark(link.Watermark) {}
func (l *idleLauncher) Stop(time.Duration)       {}
func (l *idleLauncher) Probe(link.Probe)         {}

// fail says that its rank died.
func (l *idleLauncher) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said.Failed = &link.RankExit{Rank: l.index, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled, At: time.Now().UTC()}
	l.client.Ranks(l.said)
}

// dial counts what is sent to this launcher. It comes from the address of its node, of which each has eight
// launchers: with one address for all, the kernel's search for a free port would be most of what connecting costs.
func (l *idleLauncher) dial(cfg *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	node := l.index / 8
	from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(node>>8), byte(node))}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&tls.Dialer{NetDialer: &net.Dialer{LocalAddr: from}, Config: cfg}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.arrive()
		return &countedConn{conn, &l.heard}, nil
	}
}

type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// noSpool is the log of ranks that say nothing.
type noSpool struct{}

func (noSpool) ReadAt([]byte, int64) (int, error) { return 0, nil }
func (noSpool) Size() (int64, bool)               { return 0, false }
func (noSpool) Changed() <-chan struct{}          { return nil }

// rendezvousClients is a process of launchers "FROM-TO"; it ends with its input.
func rendezvousClients(ctx context.Context, role string) error {
	var from, to int
	if _, err := fmt.Sscanf(role, "%d-%d", &from, &to); err != nil {
		return fmt.Errorf("%q: %w", role, err)
	}
	target, err := endpoint.Target("127.0.0.1:1", []byte(rendezvousKey)) // whose key to expect; where is in the file of endpoints
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	tokens, quiet := link.NewTokens([]byte(rendezvousKey)), slog.New(slog.DiscardHandler)
	endpoints, err := filepath.Abs(endpointsFile("."))
	if err != nil {
		return err
	}
	starting := make(chan struct{}, 32) // what is measured begins with open streams
	launchers := make([]*idleLauncher, 0, to-from)
	for i := from; i < to; i++ {
		name := engine.NameOf(rendezvousTask, "worker", i, 1)
		starting <- struct{}{}
		l := &idleLauncher{index: i, said: link.Ranks{Port: 20000 + i}, arrive: sync.OnceFunc(func() { <-starting })}
		own, err := endpoint.ClientTLS(target)
		if err != nil {
			return err
		}
		if l.client, err = link.NewClient(link.ClientConfig{
			Name: name, Token: tokens.Mint(name), Endpoints: endpoints, State: engine.StateCreated, Spool: noSpool{}, Orders: l,
			Log: quiet, Clock: clock.Real, Dial: l.dial(own),
		}); err != nil {
			return err
		}
		l.client.Ranks(l.said)
		launchers = append(launchers, l)
		wg.Go(func() { _ = l.client.Run(ctx) })
	}
	return obey(launchers)
}

// obey does what the bench says until it says no more.
func obey(launchers []*idleLauncher) error {
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		var i int
		if n, _ := fmt.Sscanf(s.Text(), "fail %d", &i); n == 1 {
			launchers[i%len(launchers)].fail()
			continue
		}
		var most int64
		for _, l := range launchers {
			most = max(most, l.heard.Swap(0))
		}
		fmt.Println("bytes", most)
	}
	return nil
}
