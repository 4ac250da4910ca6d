package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// TestResume: a session begun with one server goes on with another that has the same key, and not with one
// that has not.
func TestResume(t *testing.T) {
	cert, roots := certificate(t, "fermi")
	client := ClientTLS(roots, "fermi")
	for _, each := range []struct {
		key  string
		want bool
	}{{"one", false}, {"one", true}, {"another", false}} {
		server, err := ServerTLS(cert, []byte(each.key))
		if err != nil {
			t.Fatal(err)
		}
		if got := shake(t, server, client); got != each.want {
			t.Errorf("with key %s: resumed %v", each.key, got)
		}
	}
}

// shake makes a connection, reads a byte over it, with which the ticket has come, and says whether the session was resumed.
func shake(t *testing.T, server, client *tls.Config) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		conn, err := tls.NewListener(l, server).Accept()
		if err == nil {
			_, err = conn.Write([]byte{1})
			defer conn.Close()
		}
		said <- err
	}()
	defer l.Close()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	return conn.ConnectionState().DidResume
}

func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}
