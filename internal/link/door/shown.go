package door

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// Shown is a connection as a handler of a call sees it: who is at its other end is known by then.
type Shown struct{ conn net.Conn }

// ShownBy is what a connection will show when something was read from it.
func ShownBy(conn net.Conn) Shown { return Shown{conn} }

// AuthType names it for gRPC.
func (Shown) AuthType() string { return "fermi" }

// Certificates are those that the other end showed; none where info is of another kind, or it showed none. They were checked by nobody.
func Certificates(info any) []*x509.Certificate {
	s, ok := info.(Shown)
	if !ok {
		return nil
	}
	conn := s.conn
	if g, ok := conn.(*guest); ok {
		conn = g.Conn
	}
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	return t.ConnectionState().PeerCertificates
}
