package link

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
)

// ServerTLS is a server's side of the link over TLS. All servers of a cluster seal their tickets with one
// key, derived from the link's: a launcher that lost its server goes on with its session at the next one,
// for about half of what a new one costs. That decides how long it takes until all launchers of a large
// task are back. A new secret is agreed on each time all the same: who learns the key later reads nothing.
func ServerTLS(cert tls.Certificate, linkKey []byte) (*tls.Config, error) {
	raw, err := hkdf.Key(sha256.New, linkKey, nil, "fermi link tickets v1", 32)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	cfg.SetSessionTicketKeys([][32]byte{[32]byte(raw)})
	return cfg, nil
}

// ClientTLS is a launcher's side, for ClientConfig.Dial: the servers have one name, and it remembers one
// session.
func ClientTLS(roots *x509.CertPool, name string) *tls.Config {
	return &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
}
