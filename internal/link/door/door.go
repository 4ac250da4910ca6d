package door

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"
)

// Attended has the kernel ask, every so often, whether the other machine is still there.
func Attended(conn net.Conn, every time.Duration) net.Conn {
	inner := conn
	if t, ok := conn.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: every, Interval: time.Second, Count: 3})
	}
	return conn
}

// A door takes everybody in at once, but lets only so many speak first: a handshake costs, and when all
// launchers of a large task come together theirs must not hold up what else the server does, such as staying
// the leader. They wait here and not in the kernel, which turns away who comes when thousands wait. Each has
// its turn until its first word was read, and none for longer than a moment.
const (
	doorWidth  = 256
	doorMoment = 500 * time.Millisecond
)

// Door is a listener with such a door.
type Door struct {
	net.Listener
	turns    chan struct{}
	patience time.Duration // longest wait for a turn
	every    time.Duration // as of Attended
}

// New is the door before l.
func New(l net.Listener, patience, every time.Duration) *Door {
	return &Door{l, make(chan struct{}, doorWidth), patience, every}
}

// Accept takes the next one in; it speaks when it has its turn.
func (d *Door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guest{Conn: Attended(conn, d.every), door: d, gone: make(chan struct{})}, nil
}

// guest is a connection that came through a door.
type guest struct {
	net.Conn
	door  *Door
	first sync.Once
	err   error  // no turn came
	done  func() // gives the turn back
	bye   sync.Once
	gone  chan struct{} // closed with the connection
}

// turn waits for the guest's turn, once.
func (g *guest) turn() error {
	g.first.Do(func() {
		g.done = func() {}
		late := time.NewTimer(g.door.patience)
		defer late.Stop()
		select {
		case g.door.turns <- struct{}{}:
			over := sync.OnceFunc(func() { <-g.door.turns })
			end := time.AfterFunc(doorMoment, over)
			g.done = sync.OnceFunc(func() { end.Stop(); over() })
		case <-late.C:
			g.err = os.ErrDeadlineExceeded
		case <-g.gone:
			g.err = net.ErrClosed
		}
	})
	return g.err
}

func (g *guest) Read(b []byte) (int, error) {
	if err := g.turn(); err != nil {
		return 0, err
	}
	n, err := g.Conn.Read(b)
	g.done()
	return n, err
}

func (g *guest) Write(b []byte) (int, error) {
	if err := g.turn(); err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}

// Close gives the turn back by ending the read that has it.
func (g *guest) Close() error {
	g.bye.Do(func() { close(g.gone) })
	return g.Conn.Close()
}
