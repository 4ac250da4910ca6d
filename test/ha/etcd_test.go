package ha

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// TestMain is also one etcd member, in a process of its own.
func TestMain(m *testing.M) {
	if text := os.Getenv("FERMI_TEST_MEMBER"); text != "" {
		fmt.Println("failed", serveMember(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// authority makes the certificates of one cluster.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{t: t, dir: dir}
	a.key, a.cert = a.make("ca", nil)
	return a
}

// issue writes NAME.pem and NAME.key, good for a server and a client.
func (a *authority) issue(name string, ips ...net.IP) { a.make(name, ips) }

func (a *authority) make(name string, ips []net.IP) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: ips, BasicConstraintsValid: true,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	must(a.t, os.WriteFile(a.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(a.t, os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	return key, cert
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member is one etcd server.
type member struct {
	Name, Dir, IP, Cluster, CA, Cert, Key string

	host *host
	cmd  *exec.Cmd
}

// serveMember is the child's side: it runs until it is killed.
func serveMember(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.ZapLoggerBuilder = m.Name, m.Dir, m.Cluster, embed.NewZapLoggerBuilder(zap.NewNop())
	cl, peer := url.URL{Scheme: "https", Host: m.IP + ":2379"}, url.URL{Scheme: "https", Host: m.IP + ":2380"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{cl}, []url.URL{cl}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	mutual := transport.TLSInfo{CertFile: m.Cert, KeyFile: m.Key, TrustedCAFile: m.CA, ClientCertAuth: true}
	cfg.ClientTLSInfo, cfg.PeerTLSInfo = mutual, mutual
	cfg.TickMs, cfg.ElectionMs = 100, 700 // as the guide says for servers near each other
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	fmt.Println("started")
	return <-e.Err()
}

func (m *member) start() error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	args := append(m.host.wrap(), os.Args[0])
	m.cmd = exec.Command(args[0], args[1:]...)
	m.cmd.Env = append(os.Environ(), "FERMI_TEST_MEMBER="+string(text))
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "started" {
		return fmt.Errorf("etcd member %s: %q %w", m.Name, line, err)
	}
	return nil
}

func (m *member) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

func (m *member) endpoint() string { return "https://" + m.IP + ":2379" }

// newEtcd starts three members, each in its namespace.
func newEtcd(t *testing.T, n *network, ca *authority, dir string) []*member {
	t.Helper()
	var ms []*member
	var cluster []string
	for i := range 3 {
		h := n.host(11 + i)
		name := fmt.Sprintf("e%d", i)
		ca.issue(name, net.ParseIP(h.ip))
		ms = append(ms, &member{
			Name: name, Dir: filepath.Join(dir, name), IP: h.ip, host: h,
			CA: ca.file("ca.pem"), Cert: ca.file(name + ".pem"), Key: ca.file(name + ".key"),
		})
		cluster = append(cluster, name+"=https://"+h.ip+":2380")
	}
	t.Cleanup(func() {
		for _, m := range ms {
			m.kill()
		}
	})
	started := make(chan error, len(ms))
	for _, m := range ms {
		m.Cluster = strings.Join(cluster, ",")
		go func() { started <- m.start() }() // a member waits for its quorum
	}
	for range ms {
		must(t, <-started)
	}
	return ms
}

// dialEtcd is the test's own look at the state.
func dialEtcd(t *testing.T, ms []*member, ca *authority) *clientv3.Client {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(ca.file("fermi.pem"), ca.file("fermi.key"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	var endpoints []string
	for _, m := range ms {
		endpoints = append(endpoints, m.endpoint())
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 1500 * time.Millisecond,
		TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}, Logger: zap.NewNop(),
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
