// Package doors is several listeners as one.
//
// Place: layer 6, a part of the assembly. Promise: who comes in by any door is served alike, and all are closed together.
// Enemies: a connection that is taken in and forgotten.
package doors

import (
	"errors"
	"net"
	"sync"
)

// Doors are several listeners as one.
type Doors struct {
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

// New has one listener, and accepts from it at once.
func New(first net.Listener) *Doors {
	d := &Doors{first: first, conns: make(chan accepted), end: make(chan struct{})}
	go d.accept(first)
	return d
}

// Add opens one more; it is closed with the others.
func (d *Doors) Add(l net.Listener) {
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
func (d *Doors) accept(l net.Listener) {
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

// Accept is the next connection of any.
func (d *Doors) Accept() (net.Conn, error) {
	select {
	case a := <-d.conns:
		return a.conn, a.err
	case <-d.end:
		return nil, net.ErrClosed
	}
}

// Close closes all.
func (d *Doors) Close() error {
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

// Addr is the first one's.
func (d *Doors) Addr() net.Addr { return d.first.Addr() }
