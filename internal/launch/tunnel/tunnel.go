package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

const (
	// most is how many connections a replica may have at a time.
	most = 512
	// chunk is how much of a connection is in our hands, each way.
	chunk = 32 << 10
	// dialFor is how long a dial may take.
	dialFor = 10 * time.Second
	// stuckFor is how long a write may wait before we ask whether anybody is still there.
	stuckFor = 15 * time.Second
)

// Stream is the launcher's side of a conversation.
type Stream interface {
	Send(*talkpb.Frame) error
	Recv() (*talkpb.Frame, error)
	CloseSend() error
	Context() context.Context
}

// Config is what a Set needs.
type Config struct {
	// Space is the replica's network; nil: the machine's own.
	Space func() *network.Space
	// Resolver is the name server that the replica reaches; "": the machine's own.
	Resolver func() string
	// Least is how many bytes a piece that is sent to a port must have to be a sign of work: open pages send small ones again and again. 0: any, and
	// what comes back is one too. nil: 0.
	Least func(port int) int
	Clock clock.Clock
}

// Set are the connections of a replica. Safe for concurrent use.
type Set struct {
	cfg Config

	mu   sync.Mutex
	open map[net.Conn]struct{}
	used time.Time // when bytes came last
}

// New has none.
func New(cfg Config) *Set { return &Set{cfg: cfg, open: map[net.Conn]struct{}{}} }

// HangUp ends all connections.
func (s *Set) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
}

// Used is when bytes went through last, and how many connections there are.
func (s *Set) Used() (time.Time, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.open)
}

func (s *Set) touch() {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = now
}

// add keeps a connection, where there is room.
func (s *Set) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= most {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *Set) drop(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	_ = c.Close()
}

// Serve makes a connection and carries its bytes until both directions have ended, or either side is gone. secret is told with its opening.
func (s *Set) Serve(stream Stream, d *talkpb.Dial, secret string) error {
	conn, err := s.dial(stream.Context(), d)
	if err == nil && !s.add(conn) {
		_ = conn.Close()
		err = fault.New(fault.TooMany, "TooManyConnections", fault.T("It has %d connections through Fermi already.", "经由 Fermi 的连接已达 %d 个。", most))
	}
	if err != nil {
		e := fault.From(err)
		said := stream.Send(&talkpb.Frame{Message: &talkpb.Frame_Refused{Refused: &talkpb.Refused{Reason: e.Reason, En: e.Message.EN, Zh: e.Message.ZH}}})
		_ = stream.CloseSend()
		for said == nil { // until the server has heard it
			if _, err := stream.Recv(); err != nil {
				break
			}
		}
		return said
	}
	defer s.drop(conn)
	p := &pipe{set: s, stream: stream, conn: conn.(*net.TCPConn)}
	if s.cfg.Least != nil {
		p.least = s.cfg.Least(int(d.GetPort()))
	}
	if err := p.say(&talkpb.Frame{Message: &talkpb.Frame_Opened{Opened: &talkpb.Opened{Fresh: true, Secret: secret}}}); err != nil {
		return err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.hear()
	}()
	err = p.tell()
	if err != nil {
		_ = conn.Close() // nobody hears it: the listener ends, too
	}
	<-heard
	return err
}

// pipe is one connection.
type pipe struct {
	set    *Set
	stream Stream
	conn   *net.TCPConn
	least  int
	mu     sync.Mutex // of Send
}

// touch counts what was sent to the port as work.
func (p *pipe) touch(bytes int) {
	if bytes >= p.least {
		p.set.touch()
	}
}

func (p *pipe) say(f *talkpb.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream.Send(f)
}

// tell hands over what the program in the replica says, and its end; an error is that nobody listens.
func (p *pipe) tell() error {
	for {
		buf := make([]byte, chunk) // gRPC keeps what it is given
		n, err := p.conn.Read(buf)
		if n > 0 {
			if p.least == 0 {
				p.touch(n)
			}
			if err := p.say(&talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Data: buf[:n]}}}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return p.say(&talkpb.Frame{Message: &talkpb.Frame_End{End: &talkpb.End{}}})
		case err != nil:
			return p.say(&talkpb.Frame{Message: &talkpb.Frame_Close{Close: &talkpb.Close{}}})
		}
	}
}

// hear hands over what the client says, until the server ends the conversation.
func (p *pipe) hear() {
	defer p.conn.Close()
	deaf := false // the program takes no more
	for {
		f, err := p.stream.Recv()
		if err != nil {
			return
		}
		switch m := f.GetMessage().(type) {
		case *talkpb.Frame_Data:
			p.touch(len(m.Data.GetData()))
			if !deaf && !p.write(m.Data.GetData()) {
				deaf = true
			}
		case *talkpb.Frame_End:
			_ = p.conn.CloseWrite()
		case *talkpb.Frame_Close:
			_ = p.conn.SetLinger(0)
			_ = p.conn.Close()
			deaf = true
		}
	}
}

// write waits for a program that is slow as long as anybody is there to wait.
func (p *pipe) write(data []byte) bool {
	for len(data) > 0 {
		_ = p.conn.SetWriteDeadline(time.Now().Add(stuckFor))
		n, err := p.conn.Write(data)
		data = data[n:]
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if p.say(&talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{}}}) != nil {
				return false
			}
		case err != nil:
			return false
		}
	}
	return true
}

// dial connects from the replica's network.
func (s *Set) dial(ctx context.Context, d *talkpb.Dial) (net.Conn, error) {
	if d.GetPort() < 1 || d.GetPort() > 65535 || len(d.GetHost()) > 255 {
		return nil, fault.New(fault.Invalid, "BadPort", fault.T("A port is a number from 1 to 65535.", "端口必须是 1 到 65535 之间的数字。"))
	}
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	addresses, err := s.resolve(ctx, d.GetHost())
	if err != nil {
		return nil, fault.New(fault.NotFound, "NoSuchHost", fault.T("The name %q is not known there.", "无法解析名称 %q。", d.GetHost())).Because(err)
	}
	for _, a := range addresses {
		var c net.Conn
		if c, err = s.connect(ctx, "tcp", netip.AddrPortFrom(a, uint16(d.GetPort())).String()); err == nil {
			return c, nil
		}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fault.New(fault.Unavailable, "NobodyListens", fault.T("Nothing listens on port %d there.", "端口 %d 上没有程序在监听。", d.GetPort())).Because(err)
	}
	return nil, fault.New(fault.Unavailable, "NoConnection", fault.T("Port %d of %s could not be reached from there.", "无法从其中连接 %[2]s 的端口 %[1]d。", d.GetPort(), d.GetHost())).Because(err)
}

// Dial connects to a port of the replica's own loopback.
func (s *Set) Dial(ctx context.Context, port int) (net.Conn, error) {
	return s.connect(ctx, "tcp", netip.AddrPortFrom(loopback[0], uint16(port)).String())
}

// connect dials a literal address: such a dial makes its socket itself, in the replica's network.
func (s *Set) connect(ctx context.Context, kind, address string) (c net.Conn, err error) {
	derr := s.cfg.Space().Do(func() error {
		c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, kind, address)
		return nil
	})
	return c, errors.Join(derr, err)
}

var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// resolve is what a name means in the replica.
func (s *Set) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" || strings.EqualFold(host, "localhost") {
		return loopback, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.WithZone("")}, nil
	}
	server := s.cfg.Resolver()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
		if server != "" {
			address = server
		}
		return s.connect(ctx, kind, address)
	}}
	return r.LookupNetIP(ctx, "ip", host)
}
