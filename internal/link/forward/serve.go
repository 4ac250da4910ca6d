package forward

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/accept"
)

// Bounds of one connection, and of all.
const (
	greetIn   = 5 * time.Second // from the connection to the replica's answer to our dial
	dialIn    = 2 * time.Second
	maxAsk    = 512
	maxAnswer = 255
	mostConns = 4096
)

// ask is the first that a gateway says.
type ask struct {
	Replica string `json:"replica"`
	Port    int    `json:"port"`
}

// Server is the agent's end. Safe for concurrent use.
type Server struct {
	// Certificate is the agent's own; Trusts says whether a key is the servers'.
	Certificate func() tls.Certificate
	Trusts      func(ed25519.PublicKey) bool
	// Find is the address, without a port, of a replica that lives here.
	Find func(replica string) (host string, err error)
	Log  *slog.Logger
}

// Run serves l until ctx ends, and closes it.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	failed := func(err error) { s.Log.Warn("a connection to a replica was not taken", "error", err) }
	return accept.Serve(ctx, l, mostConns, failed, func(ctx context.Context, conn net.Conn) {
		if err := s.serve(ctx, conn); err != nil && ctx.Err() == nil {
			s.Log.Debug("a connection to a replica has ended", "from", conn.RemoteAddr().String(), "error", err)
		}
	})
}

func (s *Server) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c := s.Certificate()
			return &c, nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !s.Trusts(pub) {
				return errors.New("the caller does not hold the servers' key")
			}
			return nil
		},
	}
}

// serve is one connection.
func (s *Server) serve(ctx context.Context, raw net.Conn) error {
	conn := tls.Server(raw, s.tls())
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(greetIn))
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	a, err := readAsk(conn)
	if err != nil {
		return err
	}
	to, err := s.reach(ctx, a)
	if err != nil {
		return errors.Join(err, answer(conn, err.Error()))
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = to.Close() })()
	if err := answer(conn, ""); err != nil {
		return err
	}
	_ = raw.SetDeadline(time.Time{})
	pipe(conn, to)
	return nil
}

// reach connects to what was asked for.
func (s *Server) reach(ctx context.Context, a ask) (net.Conn, error) {
	host, err := s.Find(a.Replica)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialIn}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(a.Port)))
}

// halves is a connection of which one direction can end before the other.
type halves interface {
	net.Conn
	CloseWrite() error
}

// pipe passes bytes both ways until both have ended, or one has failed.
func pipe(a, b net.Conn) {
	var wg sync.WaitGroup
	one := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if h, ok := to.(halves); ok && err == nil && h.CloseWrite() == nil {
			return
		}
		_ = a.Close()
		_ = b.Close()
	}
	wg.Go(func() { one(a, b) })
	wg.Go(func() { one(b, a) })
	wg.Wait()
}

func readAsk(r io.Reader) (a ask, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return a, err
	}
	n := binary.BigEndian.Uint16(head[:])
	if n > maxAsk {
		return a, errors.New("the caller asks at too great length")
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return a, err
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, err
	}
	if a.Port < 1 || a.Port > 65535 || a.Replica == "" {
		return a, errors.New("the caller names no replica, or no port")
	}
	return a, nil
}

// answer says that bytes pass now, or why not.
func answer(w io.Writer, why string) error {
	why = why[:min(len(why), maxAnswer)]
	_, err := w.Write(append([]byte{byte(len(why))}, why...))
	return err
}
