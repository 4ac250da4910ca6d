package agency

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/link/agency/agencypb"
)

// Processes of replicas call the API at one address of their own machine. On one that joined its agent takes the connection and carries it here, by the
// road that launchers use: the machine need not reach the API's own port, and nothing but what its agent carries comes this way.

// maxPiece bounds what one frame carries.
const maxPiece = 32 << 10

const openCall = "/fermi.agency.v1.Calls/Open"

// calls is the service; its messages are frames with a body alone.
var calls = grpc.ServiceDesc{
	ServiceName: "fermi.agency.v1.Calls", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Open", ServerStreams: true, ClientStreams: true,
		Handler: func(desk any, s grpc.ServerStream) error { return desk.(*Desk).call(s) },
	}},
}

// tell sends what a connection says to the other end of a call, until its end.
func tell(s interface{ SendMsg(m any) error }, conn io.Reader) error {
	buf := make([]byte, maxPiece)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := s.SendMsg(&agencypb.Frame{Body: buf[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// hear is what the other end says, until its end.
func hear(s interface{ RecvMsg(m any) error }, conn io.Writer) {
	for {
		var f agencypb.Frame
		if s.RecvMsg(&f) != nil {
			return
		}
		if _, err := conn.Write(f.GetBody()); err != nil {
			return
		}
	}
}

// Calls are the connections that agents carry.
type Calls struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

// Calls lets replicas of machines that joined call who accepts from it; one at a time.
func (d *Desk) Calls() *Calls {
	c := &Calls{conns: make(chan net.Conn), end: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = c
	return c
}

// Accept is the next one.
func (c *Calls) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.end:
		return nil, net.ErrClosed
	}
}

// Close takes no more.
func (c *Calls) Close() error {
	c.once.Do(func() { close(c.end) })
	return nil
}

// Addr is no address.
func (*Calls) Addr() net.Addr { return from("agents") }

type from string

func (from) Network() string  { return "fermi" }
func (f from) String() string { return string(f) }

// called is a connection that came from the machine at this address.
type called struct {
	net.Conn
	machine net.Addr
}

func (c called) RemoteAddr() net.Addr { return c.machine }

// call serves one.
func (d *Desk) call(s grpc.ServerStream) error {
	ctx := s.Context()
	if _, _, err := d.caller(ctx); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	d.mu.Lock()
	to := d.calls
	d.mu.Unlock()
	p, ok := peer.FromContext(ctx)
	if to == nil || !ok {
		return status.Error(codes.Unavailable, "nobody takes calls here")
	}
	ours, theirs := net.Pipe()
	select {
	case to.conns <- called{theirs, p.Addr}:
	case <-to.end:
		return status.Error(codes.Unavailable, "nobody takes calls any more")
	case <-ctx.Done():
		return ctx.Err()
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(serving, func() { _ = ours.Close() })()
	// What is left to hear ends with this call, which nobody waits for.
	go func() {
		hear(s, ours)
		end()
	}()
	_ = tell(s, ours)
	return nil
}

// Carry carries a connection of a replica to a server's API until one of both ends it; it closes the connection. An error: no server takes it.
func (m *Member) Carry(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	m.mu.Lock()
	addresses, good := m.addresses(), m.good
	m.mu.Unlock()
	if i := slices.Index(addresses, good); i > 0 {
		addresses = slices.Concat(addresses[i:], addresses[:i])
	}
	var errs []error
	for _, address := range addresses {
		over, err := m.carryTo(ctx, address, conn)
		if over {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// carryTo carries it to one server; over is false where nothing was said to that one.
func (m *Member) carryTo(ctx context.Context, address string, conn net.Conn) (over bool, err error) {
	line, err := m.dial(address)
	if err != nil {
		return false, err
	}
	defer line.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := line.NewStream(ctx, &calls.Streams[0], openCall)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	m.good = address
	m.mu.Unlock()
	var heard sync.WaitGroup
	defer heard.Wait()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	heard.Go(func() {
		hear(s, conn)
		end()
	})
	if err := tell(s, conn); errors.Is(err, io.EOF) {
		_ = s.CloseSend() // a client that has said all may still hear
		heard.Wait()
	}
	end()
	return true, nil
}
