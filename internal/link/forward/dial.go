package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A machine without power says nothing, and nobody but its silence tells. Who waits for an answer hears within some seconds, and asks
// another replica.
var patience = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}

const unheard = 3 * time.Second

// impatient ends a connection whose bytes nobody acknowledges.
func impatient(_, _ string, c syscall.RawConn) (err error) {
	if bad := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unheard.Milliseconds()))
	}); bad != nil {
		return bad
	}
	return err
}

// Dialer is the gateway's end. Safe for concurrent use.
type Dialer struct {
	// Show has the certificate of who holds the link key, for the client's side.
	Show *tls.Config
	// NodeOf is whose agent's a certificate is; an error where it is nobody's, or not any more.
	NodeOf func(ctx context.Context, cert *x509.Certificate) (node string, err error)
}

// Dial connects to a port of a replica through the agent of its node. Errors are of operation "dial": nothing was sent to the replica.
func (d *Dialer) Dial(ctx context.Context, node, agent, replica string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, greetIn)
	defer cancel()
	conn, err := d.dial(ctx, node, agent, ask{replica, port})
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "fermi", Err: err}
	}
	return conn, nil
}

func (d *Dialer) dial(ctx context.Context, node, agent string, a ask) (*line, error) {
	to := net.Dialer{Timeout: dialIn, KeepAliveConfig: patience, Control: impatient}
	raw, err := to.DialContext(ctx, "tcp", agent)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, d.tls(ctx, node))
	if err := greet(ctx, raw, conn, a); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return &line{conn, raw.(*net.TCPConn)}, nil
}

// line is a connection that was made. Who keeps it can look whether the other side has closed it: below TLS, where it says so first.
type line struct {
	*tls.Conn
	below *net.TCPConn
}

// SyscallConn is that of the connection below.
func (l *line) SyscallConn() (syscall.RawConn, error) { return l.below.SyscallConn() }

func (d *Dialer) tls(ctx context.Context, node string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetClientCertificate: d.Show.GetClientCertificate,
		InsecureSkipVerify: true, //nolint:gosec // names and authorities mean nothing here; VerifyConnection looks at who signed
		VerifyConnection: func(cs tls.ConnectionState) error {
			whose, err := d.NodeOf(ctx, cs.PeerCertificates[0])
			if err == nil && whose != node {
				err = fmt.Errorf("the agent of node %s answers in the place of that of %s", whose, node)
			}
			return err
		},
	}
}

// greet asks for the replica and hears whether it is reached.
func greet(ctx context.Context, raw net.Conn, conn *tls.Conn, a ask) error {
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	if at, ok := ctx.Deadline(); ok {
		_ = raw.SetDeadline(at)
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)); err != nil {
		return err
	}
	var n [1]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil {
		return err
	}
	why := make([]byte, n[0])
	if _, err := io.ReadFull(conn, why); err != nil {
		return err
	}
	if len(why) > 0 {
		return errors.New(string(why))
	}
	return raw.SetDeadline(time.Time{})
}
