package sshrelay

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hashicorp/yamux"
	"github.com/spf13/cobra"
)

// Command is what the launcher starts; people don't.
func Command(both func(en, zh string) string) *cobra.Command {
	return &cobra.Command{
		Use: "ssh-relay", Hidden: true, Short: both("Forward ports of an SSH client (started by the launcher)", "转发 SSH 客户端的端口（由启动器启动）"), Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return Serve(stdio{os.Stdin, os.Stdout}) },
	}
}

// stdio are the program's own ends; closing them ends its reads.
type stdio struct{ in, out *os.File }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// Serve does what the door wishes until conn ends; then nothing listens any more.
func Serve(conn io.ReadWriteCloser) error {
	mux, err := yamux.Server(conn, config())
	if err != nil {
		return err
	}
	p := &program{mux: mux, listeners: make(chan struct{}, mostListeners), streams: make(chan struct{}, mostStreams)}
	defer p.all.Wait()
	defer mux.Close()
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return nil //nolint:nilerr // the door has hung up
		}
		p.all.Go(func() { p.answer(Stream{st}) })
	}
}

type program struct {
	mux                *yamux.Session
	listeners, streams chan struct{} // places taken
	all                sync.WaitGroup
}

var errTooMany = errors.New("too many forwardings")

// answer is one wish's life.
func (p *program) answer(c Stream) {
	defer c.Close()
	var r Request
	if readHead(c, &r) != nil {
		return
	}
	if r.Kind == KindDial {
		p.dial(c, r.Path)
		return
	}
	if !take(p.listeners) {
		_ = writeHead(c, Answer{Error: errTooMany.Error()})
		return
	}
	defer func() { <-p.listeners }()
	l, a, done, err := listen(r)
	if err != nil {
		_ = writeHead(c, Answer{Error: err.Error()})
		return
	}
	defer done()
	defer l.Close()
	if writeHead(c, a) != nil {
		return
	}
	p.all.Go(func() {
		_, _ = io.Copy(io.Discard, c) // until the door ends it
		_ = l.Close()
	})
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.arrive(r.ID, conn) })
	}
}

func take(room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	default:
		return false
	}
}

// listen makes what listens; done removes what was made for it.
func listen(r Request) (l net.Listener, a Answer, done func(), err error) {
	done = func() {}
	switch r.Kind {
	case KindTCP:
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))); err == nil {
			a.Port = l.Addr().(*net.TCPAddr).Port
		}
	case KindUnix:
		if !filepath.IsAbs(r.Path) {
			return nil, a, nil, errors.New("the path of a socket is absolute")
		}
		l, err = private(r.Path)
		a.Path = r.Path
	case KindAgent:
		dir, derr := os.MkdirTemp("", "ssh-") // only its maker may enter it
		if derr != nil {
			return nil, a, nil, derr
		}
		done = func() { _ = os.RemoveAll(dir) }
		a.Path = filepath.Join(dir, "agent")
		if l, err = private(a.Path); err != nil {
			done()
		}
	default:
		err = errors.ErrUnsupported
	}
	return l, a, done, err
}

// private is a socket that nobody but its maker may use.
func private(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			_ = l.Close()
		}
	}
	return l, err
}

// arrive brings the door a connection.
func (p *program) arrive(id string, conn net.Conn) {
	defer conn.Close()
	if !take(p.streams) {
		return
	}
	defer func() { <-p.streams }()
	st, err := p.mux.OpenStream()
	if err != nil {
		return
	}
	c := Stream{st}
	defer c.Close()
	a := Arrival{ID: id}
	if from, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		a.Host, a.Port = from.IP.String(), from.Port
	}
	if writeHead(c, a) == nil {
		join(c, conn.(half))
	}
}

// dial connects to a socket.
func (p *program) dial(c Stream, path string) {
	if !take(p.streams) {
		_ = writeHead(c, Answer{Error: errTooMany.Error()})
		return
	}
	defer func() { <-p.streams }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		_ = writeHead(c, Answer{Error: err.Error()})
		return
	}
	defer conn.Close()
	if writeHead(c, Answer{}) == nil {
		join(c, conn.(half))
	}
}

// half can end one direction before the other.
type half interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// join carries bytes both ways until both directions have ended, or one broke.
func join(a, b half) {
	var both sync.WaitGroup
	carry := func(to, from half) {
		if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
		_ = to.CloseWrite()
	}
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}
