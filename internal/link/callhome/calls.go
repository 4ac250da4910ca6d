package callhome

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency/agencypb"
)

// maxPiece bounds what one frame carries.
const maxPiece = 32 << 10

// Stream is how such a stream is described, on both sides; its messages are frames with a body alone.
func Stream(handler grpc.StreamHandler) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: "Open", ServerStreams: true, ClientStreams: true, Handler: handler}
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

// Calls are the connections that were carried here, for who accepts them; one at a time.
type Calls struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

var _ net.Listener = (*Calls)(nil)

// New has none yet.
func New() *Calls { return &Calls{conns: make(chan net.Conn), end: make(chan struct{})} }

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
func (*Calls) Addr() net.Addr { return from("replicas") }

type from string

func (from) Network() string  { return "fermi" }
func (f from) String() string { return string(f) }

// called is a connection that came from the machine at this address.
type called struct {
	net.Conn
	machine net.Addr
}

func (c called) RemoteAddr() net.Addr { return c.machine }

// Take serves the connection that a stream carries, until one of both ends it. Who may carry one was judged before.
func (c *Calls) Take(s grpc.ServerStream) error {
	ctx := s.Context()
	p, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unavailable, "nobody knows where this comes from")
	}
	ours, theirs := net.Pipe()
	select {
	case c.conns <- called{theirs, p.Addr}:
	case <-c.end:
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

// Carry carries a connection over a line until one of both ends it, and may close it. opened, which may be nil, is called once there is a stream; false: there
// was none, and nothing of the connection was read.
func Carry(ctx context.Context, line grpc.ClientConnInterface, method string, conn net.Conn, opened func()) (bool, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	desc := Stream(nil)
	s, err := line.NewStream(ctx, &desc, method)
	if err != nil {
		return false, err
	}
	if opened != nil {
		opened()
	}
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

// The service of launchers, whose pod is a machine of its own. The hub asks each call for the token of a replica.
const service = "fermi.link.v1.CallHome"

// Register is for Hub.Serve.
func (c *Calls) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{Stream(func(_ any, s grpc.ServerStream) error { return c.Take(s) })},
	}, c)
}

// Source is a launcher's link that carries connections, too.
type Source struct{ *link.Client }

// tries is how many servers are asked.
const tries = 3

// Carry carries a connection of the replica until one of both ends it, and closes it. An error: no server takes it.
func (s Source) Carry(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	var err error
	for range tries {
		err = s.Client.Bulk(func(line *grpc.ClientConn) error {
			_, err := Carry(ctx, line, "/"+service+"/Open", conn, nil)
			return err
		})
		if err == nil {
			break
		}
	}
	return err
}
