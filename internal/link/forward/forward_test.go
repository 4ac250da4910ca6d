package forward_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/link/forward"
	"github.com/fermi-cluster/fermi/internal/seal"
)

const use = "test"

func own(t *testing.T, name string) tls.Certificate {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// start serves one replica, an echo, as the agent of node n1.
func start(t *testing.T, secret []byte) (agent string, port int) {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pin, err := seal.PublicKey(secret, use)
	if err != nil {
		t.Fatal(err)
	}
	cert := own(t, "n1")
	s := &forward.Server{
		Certificate: func() tls.Certificate { return cert }, Trusts: func(k ed25519.PublicKey) bool { return k.Equal(pin) }, Log: slog.New(slog.DiscardHandler),
		Find: func(replica string) (string, error) {
			if replica != "svc-0" {
				return "", errors.New("no such replica")
			}
			return "127.0.0.1", nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), echo.Addr().(*net.TCPAddr).Port
}

func dialer(secret []byte) *forward.Dialer {
	return &forward.Dialer{Show: seal.ShownTLS(func() [][]byte { return [][]byte{secret} }, use), NodeOf: func(_ context.Context, c *x509.Certificate) (string, error) {
		return c.Subject.CommonName, nil
	}}
}

func TestForward(t *testing.T) {
	secret, other := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32))
	agent, port := start(t, secret)
	d := dialer(secret)

	conn, err := d.Dial(t.Context(), "n1", agent, "svc-0", port)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		_, _ = conn.Write(text)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, text) { // one half is closed before the other
		t.Errorf("%d bytes of %d came back: %v", len(got), len(text), err)
	}
	_ = conn.Close()

	for what, try := range map[string]func() (net.Conn, error){
		"a replica that is not there": func() (net.Conn, error) { return d.Dial(t.Context(), "n1", agent, "svc-1", port) },
		"a port that nobody opened":   func() (net.Conn, error) { return d.Dial(t.Context(), "n1", agent, "svc-0", 1) },
		"no port":                     func() (net.Conn, error) { return d.Dial(t.Context(), "n1", agent, "svc-0", 0) },
		"a very long name":            func() (net.Conn, error) { return d.Dial(t.Context(), "n1", agent, strings.Repeat("x", 900), port) },
		"another node's agent":        func() (net.Conn, error) { return d.Dial(t.Context(), "n2", agent, "svc-0", port) },
		"somebody with another key":   func() (net.Conn, error) { return dialer(other).Dial(t.Context(), "n1", agent, "svc-0", port) },
		"somebody without a key": func() (net.Conn, error) {
			return (&forward.Dialer{Show: &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }}, NodeOf: dialer(secret).NodeOf}).Dial(t.Context(), "n1", agent, "svc-0", port)
		},
	} {
		conn, err := try()
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s is reached", what)
			continue
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("%s: %v is no error of dialling, so a question would not be asked elsewhere", what, err)
		}
	}
}
