package link

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// attended has the kernel ask whether the other machine is still there.
func attended(conn net.Conn) net.Conn {
	inner := conn
	if t, ok := conn.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: beatEvery, Interval: time.Second, Count: 3})
	}
	return conn
}

// A door lets so many in at once, each until its first word was read, and none longer than a moment.
// When all launchers of a large task come at once the others wait in the kernel: handshakes never hold up
// what else the server does, such as staying the leader.
const (
	doorWidth  = 256
	doorMoment = 500 * time.Millisecond
)

type door struct {
	net.Listener
	slots chan struct{}
}

func newDoor(l net.Listener) *door { return &door{l, make(chan struct{}, doorWidth)} }

func (d *door) Accept() (net.Conn, error) {
	d.slots <- struct{}{} // each is given back within a moment
	conn, err := d.Listener.Accept()
	if err != nil {
		<-d.slots
		return nil, err
	}
	in := sync.OnceFunc(func() { <-d.slots })
	late := time.AfterFunc(doorMoment, in)
	return &guest{attended(conn), sync.OnceFunc(func() { late.Stop(); in() })}, nil
}

// guest is a connection that came through a door.
type guest struct {
	net.Conn
	in func()
}

func (g *guest) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.in()
	return n, err
}

func (g *guest) Close() error {
	g.in()
	return g.Conn.Close()
}
