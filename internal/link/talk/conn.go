package talk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
)

// frameBytes is the most that one frame of a connection carries.
const frameBytes = 32 << 10

// Conn is a connection into a replica's network, seen from the server. Reads, writes and closes may run side by side. It has no deadlines: Close
// ends what waits.
type Conn struct {
	// Secret is what the replica's notebook asks its callers for; "": it has none.
	Secret string
	stream Stream
	end    func()
	once   sync.Once
	shut   chan struct{}

	reading sync.Mutex
	rest    []byte
	over    error // of reading

	writing sync.Mutex
	done    bool // of writing
}

// Dial makes a connection from a replica's network to an address that its own processes would reach so; open begins the conversation. Fault as of
// the launcher: NobodyListens, NotRunning, …
func Dial(ctx context.Context, open func(context.Context) (Stream, func(), error), host string, port int) (*Conn, error) {
	s, end, err := open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, end)
	err = s.Send(&talkpb.Frame{Message: &talkpb.Frame_Dial{Dial: &talkpb.Dial{Host: host, Port: int32(port)}}})
	var f *talkpb.Frame
	if err == nil {
		f, err = s.Recv()
	}
	if !stop() || err != nil {
		end()
		if cause := ctx.Err(); cause != nil {
			return nil, fault.From(cause)
		}
		return nil, fault.New(fault.Unavailable, "LineLost", fault.T("The connection to the replica was lost; try again in a moment.", "与副本的连接中断，请稍后重试。")).Because(err)
	}
	if r := f.GetRefused(); r != nil {
		end()
		return nil, fault.New(fault.Unavailable, r.GetReason(), fault.Text{EN: r.GetEn(), ZH: r.GetZh()})
	}
	return &Conn{Secret: f.GetOpened().GetSecret(), stream: s, end: end, shut: make(chan struct{})}, nil
}

// Read gives what the program there says.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for len(c.rest) == 0 {
		if c.over != nil {
			return 0, c.over
		}
		f, err := c.stream.Recv()
		switch m := f.GetMessage().(type) {
		case *talkpb.Frame_Data:
			c.rest = m.Data.GetData()
		case *talkpb.Frame_End:
			c.over = io.EOF
		case *talkpb.Frame_Close:
			c.over = syscall.ECONNRESET
		}
		if err != nil {
			c.over = io.ErrUnexpectedEOF
			select {
			case <-c.shut:
				c.over = net.ErrClosed
			default:
			}
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write waits until the way to the replica has room.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for len(p) > 0 {
		if c.done {
			return n, net.ErrClosed
		}
		part := p[:min(len(p), frameBytes)]
		if err := c.stream.Send(&talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Data: bytes.Clone(part)}}}); err != nil {
			return n, errors.Join(net.ErrClosed, err)
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// CloseWrite says that no more comes; what the program says is still read.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.done {
		return nil
	}
	c.done = true
	return c.stream.Send(&talkpb.Frame{Message: &talkpb.Frame_End{End: &talkpb.End{}}})
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.shut)
		c.end()
	})
	return nil
}

// address is one that says nothing: the launcher knows where it dialled from.
type address struct{}

func (address) Network() string { return "replica" }
func (address) String() string  { return "replica" }

// LocalAddr and the rest make it a net.Conn.
func (*Conn) LocalAddr() net.Addr              { return address{} }
func (*Conn) RemoteAddr() net.Addr             { return address{} }
func (*Conn) SetDeadline(time.Time) error      { return nil }
func (*Conn) SetReadDeadline(time.Time) error  { return nil }
func (*Conn) SetWriteDeadline(time.Time) error { return nil }

// Joint carries bytes both ways between two connections until both directions have ended or one of them broke, and closes both.
func Joint(a, b HalfCloser) {
	var wg sync.WaitGroup
	carry := func(to, from HalfCloser) {
		if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
		_ = to.CloseWrite()
	}
	wg.Go(func() { carry(a, b) })
	wg.Go(func() { carry(b, a) })
	wg.Wait()
	_, _ = a.Close(), b.Close()
}

// HalfCloser is a connection of which one direction can end before the other.
type HalfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}
