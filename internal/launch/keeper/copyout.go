package keeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
)

// How gently states are handed over: a frame at a time, and after each a rest as long as it took, so that
// never more than half a core is used; at most copyRate bytes a second.
const (
	copyRate    = 512 << 20
	copyRest    = 50 * time.Millisecond // at most, after one frame of a peer that is slow
	copyAgain   = 200 * time.Millisecond
	copyPause   = 10 * time.Second // between tries, at most
	dialPatient = 5 * time.Second
)

// send hands the step that the leader wishes to be safe to the peer, until ctx ends. It never holds
// anybody up: ranks save into other slots meanwhile.
func (p *peers) send(ctx context.Context) {
	lowly()
	pause := copyAgain
	var done shm.State // the generation's number stands for the rank
	for {
		job, g, step, ok := p.job(ctx)
		now := shm.State{Rank: int(g.Number), Step: step}
		if !ok || now == done {
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			}
			pause = copyAgain
			continue
		}
		err := p.handAll(job, g, step)
		if err == nil {
			done = now
			continue
		}
		if job.Err() == nil {
			p.log.Warn("the peer has no copy yet", "step", step, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			pause = copyAgain
		case <-time.After(pause):
			pause = min(2*pause, copyPause)
		}
	}
}

// job is what is to be sent now; its context ends when that changes.
func (p *peers) job(ctx context.Context) (job context.Context, g link.Generation, step int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.cut()
	}
	job, p.cut = context.WithCancel(ctx)
	return job, p.g, p.wish, p.wish > 0 && p.g.Peer != "" && p.tls != nil
}

// handAll hands over the step of every rank of ours.
func (p *peers) handAll(ctx context.Context, g link.Generation, step int64) error {
	for local := range p.ranks {
		if err := p.hand(ctx, g, local, step); err != nil {
			return err
		}
	}
	return nil
}

func (p *peers) hand(ctx context.Context, g link.Generation, local int, step int64) error {
	s := shm.State{Rank: g.FirstRank + local, Step: step}
	p.mu.Lock()
	memory := p.memory
	p.mu.Unlock()
	slot, err := memory.Own(local, s, g.World)
	if err != nil {
		return err
	}
	defer slot.Close()
	conn, err := p.ask(ctx, g.Peer, askPut, s)
	if errors.Is(err, errRefused(peerHasIt)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := slot.Send(&gentle{end: ctx.Done(), w: conn, last: time.Now()}); err != nil {
		return err
	}
	return heard(conn)
}

// ask connects to another launcher and asks for something; the answer was yes. The connection ends with ctx.
func (p *peers) ask(ctx context.Context, address string, what byte, s shm.State) (net.Conn, error) {
	p.mu.Lock()
	cfg := p.tls
	p.mu.Unlock()
	if cfg == nil {
		return nil, errors.New("there is no key for peers")
	}
	plain, err := (&net.Dialer{Timeout: dialPatient}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := &asked{Conn: tls.Client(&steady{plain}, cfg)}
	conn.end = context.AfterFunc(ctx, func() { plain.Close() })
	word := binary.BigEndian.AppendUint32([]byte{what}, uint32(s.Rank))
	_, err = conn.Write(binary.BigEndian.AppendUint64(word, uint64(s.Step)))
	if err == nil {
		err = heard(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// asked is a connection that ends with a context.
type asked struct {
	net.Conn
	end func() bool
}

func (a *asked) Close() error {
	a.end()
	return a.Conn.Close()
}

// errRefused is a peer's no, in words.
type errRefused byte

func (e errRefused) Error() string {
	switch byte(e) {
	case peerNotWanted:
		return "the peer does not want it"
	case peerNoRoom:
		return "the peer has no room for it"
	case peerNotHere:
		return "the peer does not have it"
	}
	return fmt.Sprintf("the peer said %d", byte(e))
}

// heard waits for a yes.
func heard(r io.Reader) error {
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	if b[0] != peerOK {
		return errRefused(b[0])
	}
	return nil
}

// gentle rests after each frame.
type gentle struct {
	end  <-chan struct{} // of what is sent
	w    io.Writer
	last time.Time
}

func (g *gentle) Write(b []byte) (int, error) {
	n, err := g.w.Write(b)
	took := time.Since(g.last)
	least := time.Duration(float64(len(b)) / copyRate * float64(time.Second))
	select {
	case <-g.end:
		return n, context.Canceled
	case <-time.After(max(min(took, copyRest), least-took)):
	}
	g.last = time.Now()
	return n, err
}
