package wire

import (
	"bufio"
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// The bounds of what is kept open.
const (
	mostIdle = 512 // a replica
	idleFor  = 60 * time.Second
	readSize = 4 << 10
)

// Pool keeps connections to replicas. Safe for concurrent use.
type Pool struct {
	// Dial makes a connection.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// MaxHeaders bounds the head of an answer.
	MaxHeaders int64

	mu     sync.Mutex
	idle   map[string][]*conn // by address, the newest last
	closed bool
}

// conn is one connection, in use by one question at a time.
type conn struct {
	net.Conn
	in      *bufio.Reader
	raw     syscall.RawConn // nil: it can't be looked at
	address string
	since   time.Time // idle since
	left    int64     // bytes that may be read of a head
	used    bool      // it carried a question before
}

// Read bounds what a head may have.
func (c *conn) Read(p []byte) (int, error) {
	if c.left >= 0 {
		if c.left == 0 {
			return 0, errHead
		}
		if int64(len(p)) > c.left {
			p = p[:c.left]
		}
	}
	n, err := c.Conn.Read(p)
	if c.left >= 0 {
		c.left -= int64(n)
	}
	return n, err
}

// get is a connection that was kept and still stands, or a new one.
func (p *Pool) get(ctx context.Context, address string) (*conn, error) {
	now := time.Now()
	for {
		p.mu.Lock()
		list := p.idle[address]
		if len(list) == 0 {
			p.mu.Unlock()
			break
		}
		c := list[len(list)-1]
		list[len(list)-1] = nil
		p.idle[address] = list[:len(list)-1]
		p.mu.Unlock()
		if now.Sub(c.since) < idleFor && c.stands() {
			return c, nil
		}
		_ = c.Close()
	}
	nc, err := p.Dial(ctx, address)
	if err != nil {
		return nil, &DialError{err}
	}
	c := &conn{Conn: nc, address: address, left: -1}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.in = bufio.NewReaderSize(c, readSize)
	return c, nil
}

// stands says that the other side has neither closed nor spoken unasked.
func (c *conn) stands() bool {
	if c.raw == nil {
		return true
	}
	silent := false
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && silent
}

// put keeps a connection that is done with its question.
func (p *Pool) put(c *conn) {
	c.since, c.used = time.Now(), true
	p.mu.Lock()
	if p.closed || len(p.idle[c.address]) >= mostIdle {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*conn{}
	}
	p.idle[c.address] = append(p.idle[c.address], c)
	p.mu.Unlock()
}

// Keep sweeps each time that a while is over, until ctx ends.
func (p *Pool) Keep(ctx context.Context, c clock.Clock, every time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.After(every):
			p.Sweep(time.Now())
		}
	}
}

// Sweep closes what was idle for too long.
func (p *Pool) Sweep(now time.Time) {
	var old []*conn
	p.mu.Lock()
	for address, list := range p.idle {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= idleFor { // the oldest are in front
			n++
		}
		old = append(old, list[:n]...)
		if n == len(list) {
			delete(p.idle, address)
		} else if n > 0 {
			p.idle[address] = append([]*conn(nil), list[n:]...)
		}
	}
	p.mu.Unlock()
	for _, c := range old {
		_ = c.Close()
	}
}

// Close closes all that is idle; what is in use is closed when it is done.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, list := range all {
		for _, c := range list {
			_ = c.Close()
		}
	}
}
