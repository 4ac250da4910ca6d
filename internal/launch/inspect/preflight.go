package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// How long a preflight may take, and how much it sends.
const (
	preflightFor  = 4 * time.Second // from the order to the report
	connectEvery  = 20 * time.Millisecond
	pings         = 5
	mostSent      = 1 << 20
	sendFor       = 100 * time.Millisecond
	maxPeers      = 64 // connections at a time
	preflightOpen = 30 * time.Second
)

// Rehearsal is the preflight of one launcher: it listens on the ports that its ranks will use, until
// they start, and connects to those of others.
type Rehearsal struct {
	mu      sync.Mutex
	ports   []int
	report  func(*preflight.Report)
	devices func() preflight.Devices // nil: none
	trial   *trial                   // nil: nothing is computed
	space   *network.Space           // of the ranks

	round  string
	end    func() // of the round: closes everything and waits
	closed bool
}

// Prepare comes before the leader knows the ports. devices asks the driver; nil: there are none.
func (r *Rehearsal) Prepare(report func(*preflight.Report), devices func() preflight.Devices, space *network.Space, ports ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports, r.report, r.devices, r.space = ports, report, devices, space
}

// Compute has the devices tried, too; nil: nothing is computed.
func (r *Rehearsal) Compute(t *trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trial = t
}

// Begin is the leader's order. The same round is done once.
func (r *Rehearsal) Begin(round preflight.Round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || round.ID == r.round {
		return
	}
	if r.end != nil {
		r.end()
	}
	ctx, cancel := context.WithTimeout(context.Background(), preflightOpen)
	var wg sync.WaitGroup
	r.round, r.end = round.ID, func() { cancel(); wg.Wait() }
	out := &preflight.Report{Round: round.ID}
	for _, port := range r.ports {
		var l net.Listener
		if err := r.space.Do(func() (err error) {
			l, err = net.Listen("tcp", ":"+strconv.Itoa(port))
			return err
		}); err != nil {
			out.Listen, out.Port = preflight.Taken, port
			continue
		}
		wg.Go(func() { answerPeers(ctx, l, round.ID) })
	}
	trial, space, report := r.trial, r.space, r.report
	tested, tried := testDevices(r.devices), make(chan preflight.Devices, 1)
	wg.Go(func() { tried <- trial.run(ctx) })
	wg.Go(func() {
		out.Results = connectAll(ctx, space, round)
		out.Devices = together(tested(ctx), <-tried)
		if ctx.Err() == nil {
			report(out)
		}
	})
}

// Stop frees the ports: the ranks start, or never will.
func (r *Rehearsal) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// words are how two launchers of a round know each other.
func words(round string) (question, reply [32]byte) {
	return sha256.Sum256([]byte("question " + round)), sha256.Sum256([]byte("reply " + round))
}

// answerPeers answers who knows the round, until ctx ends.
func answerPeers(ctx context.Context, l net.Listener, round string) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	gate := make(chan struct{}, maxPeers)
	for {
		gate <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			<-gate
			select {
			case <-ctx.Done():
			case <-time.After(connectEvery):
			}
			continue
		}
		wg.Go(func() {
			defer func() { <-gate }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			answerPeer(conn, round)
		})
	}
}

// answerPeer: the question and its reply, each ping back, then how much came in all. The peer hangs
// up first, so that the port is not kept by a closed connection.
func answerPeer(conn net.Conn, round string) {
	question, reply := words(round)
	var got [32]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil || got != question {
		return
	}
	if _, err := conn.Write(reply[:]); err != nil {
		return
	}
	var ping [1]byte
	for range pings {
		if _, err := io.ReadFull(conn, ping[:]); err != nil {
			return
		}
		if _, err := conn.Write(ping[:]); err != nil {
			return
		}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(conn, 2*mostSent))
	if err == nil {
		_, _ = conn.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
}

// connectAll tries the targets side by side.
func connectAll(ctx context.Context, space *network.Space, round preflight.Round) []preflight.Result {
	ctx, cancel := context.WithTimeout(ctx, preflightFor)
	defer cancel()
	out := make([]preflight.Result, len(round.Targets))
	var wg sync.WaitGroup
	for i, target := range round.Targets {
		wg.Go(func() { out[i] = reach(ctx, space, target, round.ID) })
	}
	wg.Wait()
	return out
}

// reach tries until the peer answers or the time is over: it may have had its order later. One that
// another program answers for is tried again too, and told apart in the end.
func reach(ctx context.Context, space *network.Space, target preflight.Target, round string) preflight.Result {
	r := preflight.Result{Target: target}
	for {
		why := tryPeer(ctx, space, &r, round)
		if why != preflight.Silent || r.Error == "" {
			r.Error = why // the end of the time is no news about a port that said something before
		}
		if why == "" {
			return r
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(connectEvery):
		}
	}
}

// tryPeer tries once; "": it answered.
func tryPeer(ctx context.Context, space *network.Space, r *preflight.Result, round string) (fault string) {
	var conn net.Conn
	if err := space.Do(func() (err error) { // targets are addresses, so this goroutine makes the socket
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", r.Address)
		return err
	}); err != nil {
		return dialFault(err)
	}
	defer conn.Close()
	if fault = meet(ctx, conn, round); fault == "" {
		measure(ctx, conn, r) // what it can't measure stays zero: the way is open
	}
	return fault
}

func dialFault(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return preflight.Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return preflight.Unreachable
	}
	return preflight.Silent
}

// meet asks who is there. Who says nothing may be slow; who hangs up or says something else is not ours.
func meet(ctx context.Context, conn net.Conn, round string) (fault string) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	question, reply := words(round)
	var got [32]byte
	_, err := conn.Write(question[:])
	if err == nil {
		_, err = io.ReadFull(conn, got[:])
	}
	switch {
	case err == nil && got == reply:
		return ""
	case err != nil && ctx.Err() != nil:
		return preflight.Silent
	}
	return preflight.Stranger
}

// measure pings, and sends for a moment where that is asked for.
func measure(ctx context.Context, conn net.Conn, r *preflight.Result) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	ping := [1]byte{'p'}
	for i := range pings {
		at := time.Now()
		if _, err := conn.Write(ping[:]); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, ping[:]); err != nil {
			return
		}
		if took := time.Since(at); i == 0 || took < r.Latency {
			r.Latency = max(took, 1)
		}
	}
	if r.Bandwidth {
		r.Rate = rate(conn)
	}
}

// rate is what arrives, a second; 0: it can't be said.
func rate(conn net.Conn) int64 {
	at, block := time.Now(), make([]byte, 64<<10)
	for sent := 0; sent < mostSent && time.Since(at) < sendFor; sent += len(block) {
		if _, err := conn.Write(block); err != nil {
			return 0
		}
	}
	if half, ok := conn.(*net.TCPConn); !ok || half.CloseWrite() != nil {
		return 0
	}
	var count [8]byte
	if _, err := io.ReadFull(conn, count[:]); err != nil {
		return 0
	}
	return int64(float64(binary.BigEndian.Uint64(count[:])) / max(time.Since(at).Seconds(), 1e-6))
}
