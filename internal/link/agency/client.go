package agency

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/agency/agencypb"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// The files of an agent's folder.
const (
	fileKey    = "agent.key"
	fileMember = "agent.json"
)

const (
	dialIn     = 5 * time.Second
	joinIn     = 20 * time.Second
	renewEvery = 12 * time.Hour
	firstPause = 200 * time.Millisecond
	// mostPause is that of launchers too: an election takes seconds, and whoever has waited through it is soon back.
	mostPause   = 2 * time.Second
	refusedWait = 30 * time.Second
	maxMessage  = 16 << 20
)

// Token is what `fermi node add` prints: the secret, and the key that the servers show.
type Token struct{ Secret, Pin string }

// String is the token as people carry it.
func (t Token) String() string { return t.Secret + "." + t.Pin }

// ParseToken reads one.
func ParseToken(text string) (Token, error) {
	secret, pin, ok := strings.Cut(strings.TrimSpace(text), ".")
	if ok {
		_, err := endpoint.Split("tls://host:1#" + pin)
		ok = err == nil && secret != ""
	}
	if !ok {
		return Token{}, fault.New(fault.Invalid, "BadJoinToken", fault.T("This is no join token, or only a part of one.", "这不是加入令牌，或不完整。")).
			WithHint(fault.T("Copy the whole line that `fermi node add` printed.", "请完整复制 `fermi node add` 输出的令牌。"))
	}
	return Token{secret, pin}, nil
}

// Member is a machine that joined: what it keeps of that. Safe for concurrent use.
type Member struct {
	dir   string
	log   *slog.Logger
	clock clock.Clock
	key   ed25519.PrivateKey

	mu   sync.Mutex
	card card
	good string // the server that took a call last
}

// card is what is kept.
type card struct {
	Node string `json:"node"`
	Zone string `json:"zone"`
	// Given are the addresses that somebody typed, Told those that servers named; Pin is the key that they show.
	Given       []string `json:"given"`
	Told        []string `json:"told,omitempty"`
	Pin         string   `json:"pin"`
	Certificate []byte   `json:"certificate"` // DER
}

// Open is the membership that a folder keeps; nil: none.
func Open(dir string, log *slog.Logger) (*Member, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Member{dir: dir, log: log, clock: clock.Real}
	raw, err := os.ReadFile(filepath.Join(dir, fileMember))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &m.card); err != nil || m.card.Node == "" || len(m.card.Certificate) == 0 {
		return nil, fault.New(fault.Invalid, "AgentGarbled", fault.T("%s can't be read.", "无法读取 %s。", filepath.Join(dir, fileMember))).
			WithHint(fault.T("Delete it and join again with a new token.", "请删除该文件，并用新令牌重新加入。")).Because(err)
	}
	if m.key, err = readKey(dir); err != nil {
		return nil, err
	}
	return m, nil
}

// Join exchanges the token for a certificate at the first address that answers, and keeps it in dir.
func Join(ctx context.Context, dir string, addresses []string, token Token, w Wish, log *slog.Logger) (*Member, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	key, err := readKey(dir)
	if err != nil {
		return nil, err
	}
	csr, err := request(key)
	if err != nil {
		return nil, err
	}
	m := &Member{dir: dir, log: log, clock: clock.Real, key: key, card: card{Given: addresses, Pin: token.Pin}}
	var last error
	for _, address := range addresses {
		got, err := m.ask(ctx, address, token.Secret, w, csr)
		if err == nil {
			m.card.Node, m.card.Zone, m.card.Certificate = got.GetNode(), got.GetZone(), got.GetDer()
			return m, m.save()
		}
		last = err
		if c := fault.CodeOf(err); ctx.Err() != nil || c != fault.Unavailable && c != fault.Internal {
			break
		}
	}
	return nil, last
}

func (m *Member) ask(ctx context.Context, address, secret string, w Wish, csr []byte) (*agencypb.Certificate, error) {
	conn, err := m.dial(address)
	if err != nil {
		return nil, unreachable(address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, joinIn)
	defer cancel()
	got, err := agencypb.NewAgencyClient(conn).Join(ctx, &agencypb.JoinRequest{
		Token: secret, Csr: csr, Name: w.Name, Zone: w.Zone, Labels: w.Labels, MachineId: w.MachineID, Version: w.Version, Address: w.Address, Now: m.clock.Now().Unix(),
	})
	if err != nil {
		return nil, unreachable(address, err)
	}
	return got, refusal(got)
}

func unreachable(address string, err error) error {
	return fault.New(fault.Unavailable, "ServerAway", fault.T(
		"No server that holds the token's key answers at %s.", "%s 处没有持有该令牌密钥的服务器应答。", address)).
		WithHint(fault.T("Give the address of --link-listen of `fermi up` or `fermi server`, and a token of that cluster.", "请填写 `fermi up` 或 `fermi server` 的 --link-listen 地址，并使用该集群的令牌。")).Because(err)
}

// Node is what the machine is called.
func (m *Member) Node() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.card.Node
}

// Zone is where it joined.
func (m *Member) Zone() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.card.Zone
}

// Certificate is what this machine shows.
func (m *Member) Certificate() tls.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return tls.Certificate{Certificate: [][]byte{m.card.Certificate}, PrivateKey: m.key}
}

// Trusts says whether a key is the servers'.
func (m *Member) Trusts(key ed25519.PublicKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	pin, err := base64.RawURLEncoding.DecodeString(m.card.Pin)
	return err == nil && key.Equal(ed25519.PublicKey(pin))
}

// Targets are where servers are reached, as endpoint writes them.
func (m *Member) Targets() (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.addresses() {
		out = append(out, "tls://"+a+"#"+m.card.Pin)
	}
	return out
}

// addresses is for holders of the lock.
func (m *Member) addresses() (out []string) {
	for _, a := range slices.Concat(m.card.Given, m.card.Told) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Reach adds addresses that somebody typed at a later start.
func (m *Member) Reach(addresses []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(addresses) == 0 || slices.Equal(addresses, m.card.Given) {
		return nil
	}
	m.card.Given = addresses
	return m.save()
}

// Learn takes what a server says of where servers are, and of the key that they show.
func (m *Member) Learn(targets []string) error {
	var told []string
	pin := ""
	for _, t := range targets {
		rest, ok := strings.CutPrefix(t, "tls://")
		address, its, _ := strings.Cut(rest, "#")
		if _, err := endpoint.Split(t); err != nil || !ok {
			continue
		}
		pin = cmp.Or(pin, its)
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() && !ip.IsLoopback() {
				told = append(told, address)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if pin == "" || pin == m.card.Pin && slices.Equal(told, m.card.Told) {
		return nil
	}
	m.card.Pin, m.card.Told = pin, told
	return m.save()
}

// save is for holders of the lock.
func (m *Member) save() error {
	raw, err := json.MarshalIndent(m.card, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(m.dir, fileMember), raw)
}

func write(path string, content []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// readKey is the agent's own key; it is made once and never leaves the machine.
func readKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, fileKey)
	raw, err := os.ReadFile(path)
	if err == nil {
		block, _ := pem.Decode(raw)
		if block != nil {
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				if own, ok := key.(ed25519.PrivateKey); ok {
					return own, nil
				}
			}
		}
		return nil, fault.New(fault.Invalid, "AgentKeyGarbled", fault.T("%s can't be read.", "无法读取 %s。", path)).
			WithHint(fault.T("Delete it and join again with a new token.", "请删除该文件，并用新令牌重新加入。"))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

var errEnded = errors.New("the connection has ended")

// dial makes a connection that shows our certificate, if there is one, to a server that shows the key we know.
func (m *Member) dial(address string) (*grpc.ClientConn, error) {
	m.mu.Lock()
	pin, cert := m.card.Pin, m.card.Certificate
	m.mu.Unlock()
	cfg, err := endpoint.ClientTLS("tls://" + address + "#" + pin)
	if err != nil {
		return nil, err
	}
	cfg.ClientSessionCache = nil // a session that was begun with another certificate would go on with it
	if len(cert) > 0 {
		cfg.Certificates = []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: m.key}}
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialIn, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: agentengine.BeatEvery, Interval: time.Second, Count: 5}}, Config: cfg}
	var used atomic.Bool // a visit is one connection: gRPC would knock again at a server that has just died, before the others are asked
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errEnded
			}
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithAuthority("fermi"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
}

// Attend serves one stream until it ends; greeted is called when the server has taken us.
type Attend func(ctx context.Context, s agentengine.Stream, greeted func()) error

// Run keeps a stream to the leader until ctx ends.
func (m *Member) Run(ctx context.Context, attend Attend) error {
	pause, said, lost := firstPause, "", "" // the server that we were attached to last: a machine without power answers nobody for a while
	for ctx.Err() == nil {
		m.mu.Lock()
		addresses := m.addresses()
		m.mu.Unlock()
		slices.SortStableFunc(addresses, func(a, b string) int {
			switch lost {
			case a:
				return 1
			case b:
				return -1
			}
			return 0
		})
		var last error
		for _, address := range addresses {
			welcomed, err := m.visit(ctx, address, attend)
			if ctx.Err() != nil {
				return nil
			}
			if welcomed {
				pause, said, last, lost = firstPause, "", err, address
				m.log.Info("the server is not reached any more; trying again", "server", address, "error", err)
				break
			}
			if last == nil || fault.CodeOf(err) != fault.Unavailable { // what a server said goes before that another one is not there
				last = err
			}
		}
		wait := jitter(pause)
		if c := fault.CodeOf(last); c == fault.Unauthenticated || c == fault.Conflict || c == fault.Invalid {
			wait = jitter(refusedWait)
		}
		if last != nil && last.Error() != said {
			said = last.Error()
			m.log.Warn("this machine is not attached; trying again", "servers", addresses, "error", last)
		}
		pause = min(2*pause, mostPause)
		select {
		case <-ctx.Done():
		case <-m.clock.After(wait):
		}
	}
	return nil
}

// jitter spreads agents that lost their server together.
func jitter(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d)))
	if err != nil {
		return d
	}
	return d/2 + time.Duration(n.Int64())
}

// visit is one stream to one server.
func (m *Member) visit(ctx context.Context, address string, attend Attend) (welcomed bool, err error) {
	conn, err := m.dial(address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	client := agencypb.NewAgencyClient(conn)
	s, err := client.Attach(ctx)
	if err != nil {
		return false, fault.New(fault.Unavailable, "ServerAway", fault.T("No server answers at %s.", "%s 处没有服务器应答。", address)).Because(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	greeted := func() {
		welcomed = true
		m.log.Info("attached", "server", address)
		wg.Go(func() { m.renew(ctx, client) })
	}
	err = attended(attend(ctx, dialled{s}, greeted), address)
	return welcomed, err
}

func attended(err error, address string) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.New(fault.Unavailable, "ServerAway", fault.T("The connection to the server at %s has ended.", "与 %s 处服务器的连接已断开。", address)).Because(err)
}

// renew asks for another certificate now and then; the server says when it is time.
func (m *Member) renew(ctx context.Context, client agencypb.AgencyClient) {
	for ctx.Err() == nil {
		csr, err := request(m.key)
		if err == nil {
			var got *agencypb.Certificate
			if got, err = client.Renew(ctx, &agencypb.RenewRequest{Csr: csr}); err == nil {
				err = refusal(got)
			}
			if err == nil && len(got.GetDer()) > 0 {
				m.mu.Lock()
				m.card.Certificate = got.GetDer()
				err = m.save()
				m.mu.Unlock()
				m.log.Info("the certificate was renewed")
			}
		}
		if err != nil && ctx.Err() == nil {
			m.log.Warn("the certificate could not be renewed; trying again later", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-m.clock.After(renewEvery):
		}
	}
}

// dialled is a stream as agentengine sees it.
type dialled struct{ s agencypb.Agency_AttachClient }

func (d dialled) Send(f agentengine.Frame) error { return d.s.Send(wire(f)) }
func (d dialled) Recv() (agentengine.Frame, error) {
	f, err := d.s.Recv()
	if err != nil {
		return agentengine.Frame{}, err
	}
	return plain(f), nil
}
