package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// certify writes NAME.pem and NAME.key into dir, signed by the authority (its own when nil).
func certify(t *testing.T, dir, name string, ca *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: ca == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		ca, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// secureEtcd is one that wants a certificate of its authority. A free port may be somebody else's before etcd has it: then others are tried.
func secureEtcd(t *testing.T, dir string) string {
	t.Helper()
	for try := 0; ; try++ {
		e, at, err := startEtcd(t, dir)
		if err == nil {
			t.Cleanup(e.Close)
			<-e.Server.ReadyNotify()
			return at
		}
		if try == 5 {
			t.Fatal(err)
		}
	}
}

func startEtcd(t *testing.T, dir string) (e *embed.Etcd, at string, err error) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ZapLoggerBuilder, cfg.UnsafeNoFsync = filepath.Join(dir, "etcd"), embed.NewZapLoggerBuilder(zap.NewNop()), true
	client := url.URL{Scheme: "https", Host: freePort(t)}
	peer := url.URL{Scheme: "http", Host: freePort(t)}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: filepath.Join(dir, "etcd.pem"), KeyFile: filepath.Join(dir, "etcd.key"), TrustedCAFile: filepath.Join(dir, "ca.pem"), ClientCertAuth: true,
	}
	e, err = embed.StartEtcd(cfg)
	return e, client.String(), err
}

// TestMutualTLS: a wrong certificate is refused, and once the file holds the right one the same client
// gets in; a wrong authority is refused by us.
func TestMutualTLS(t *testing.T) {
	dir := filepath.Dir(folder(t))
	ca, signer := certify(t, dir, "ca", nil, nil)
	certify(t, dir, "etcd", ca, signer)
	certify(t, dir, "stranger", nil, nil)
	endpoint := secureEtcd(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	certify(t, dir, "fermi", nil, nil) // signed by nobody etcd knows
	tries := func(o Outside, within time.Duration) error {
		c, err := Dial(o)
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err = New(Config{Client: c}).Now(ctx)
		return err
	}
	good := Outside{Endpoints: []string{endpoint}, CA: file("ca.pem"), Cert: file("fermi.pem"), Key: file("fermi.key")}
	c, err := Dial(good)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := New(Config{Client: c})
	now := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := s.Now(ctx)
		return err
	}
	if err := now(time.Second); !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Timeout) {
		t.Errorf("a stranger's certificate: %v", err)
	}
	certify(t, dir, "fermi", ca, signer) // renewed
	eventually(t, "the renewed certificate is used", func() bool { return now(2*time.Second) == nil })
	if err := tries(good, patience); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]Outside{
		"no certificate":     {Endpoints: good.Endpoints, CA: good.CA},
		"another authority":  {Endpoints: good.Endpoints, CA: file("stranger.pem"), Cert: good.Cert, Key: good.Key},
		"a key for nothing":  {Endpoints: good.Endpoints, CA: good.CA, Cert: good.Cert, Key: file("etcd.key")},
		"an empty authority": {Endpoints: good.Endpoints, CA: file("etcd.key"), Cert: good.Cert, Key: good.Key},
		"an absent file":     {Endpoints: good.Endpoints, CA: file("nowhere"), Cert: good.Cert, Key: good.Key},
	} {
		if err := tries(o, time.Second); err == nil {
			t.Errorf("%s got in", name)
		}
	}
	if err := tries(Outside{Endpoints: good.Endpoints, CA: file("nowhere")}, time.Second); fault.ReasonOf(err) != "BadEtcdCertificate" {
		t.Errorf("an absent file: %v", err)
	}
}

// TestContact: a store that is cut off from etcd knows it, and knows when it is back.
func TestContact(t *testing.T) {
	srv := etcd(t, folder(t))
	w := newWire(t, srv)
	s := New(Config{Client: dial(t, w.endpoint())})
	if err := s.Contact(); fault.ReasonOf(err) != "CutOff" {
		t.Errorf("before the first contact: %v", err)
	}
	start(t, s)
	eventually(t, "contact", func() bool { return s.Contact() == nil })
	rev := mustCommit(t, s, Create(task("one")))
	if now, err := s.Now(t.Context()); err != nil || now < rev {
		t.Errorf("now is %d after a write at %d (%v)", now, rev, err)
	}
	w.cut()
	eventually(t, "cut off", func() bool { return fault.Is(s.Contact(), fault.Unavailable) })
	w.mend()
	eventually(t, "contact again", func() bool { return s.Contact() == nil })
}

// TestMembers: everybody who stands is told of, the leader first.
func TestMembers(t *testing.T) {
	client := etcd(t, folder(t)).Client()
	a, b := New(Config{Client: client}), New(Config{Client: client})
	reigns := make(chan reign, 4)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan []Member, 64)
	done := make(chan struct{})
	go func() { defer close(done); b.WatchMembers(ctx, func(list []Member) { told <- list }) }()
	hear := func(want ...string) {
		t.Helper()
		for {
			select {
			case list := <-told:
				same := len(list) == len(want)
				for i := range list {
					same = same && list[i].Name == want[i]
				}
				if same {
					return
				}
			case <-time.After(patience):
				t.Fatalf("never heard of %v", want)
			}
		}
	}
	stopA := stand(t, a, "a", reigns)
	first := next(t, reigns)
	hear("a")
	stand(t, b, "b", reigns)
	hear("a", "b")
	if list, err := a.Members(t.Context()); err != nil || len(list) != 2 || list[0].Epoch != first.epoch {
		t.Errorf("%v %v", list, err)
	}
	if err := stopA(); err != nil {
		t.Error(err)
	}
	hear("b")
	cancel()
	<-done
}
