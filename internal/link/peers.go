package link

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// Server is one server of the cluster.
type Server struct {
	Name    string
	Address string // where its peers dial it
	Epoch   int64  // that it leads with, or would
}

// orphanLimit is how long launchers stay with a server that finds no leader: longer than it takes to
// elect one, so that their streams outlive a leader. A server that is cut off gives them up at once.
const orphanLimit = 10 * time.Second

// maxAnswer bounds one answer of the leader.
const maxAnswer = 16 << 20

// Tails is the part of a logbook that servers show each other.
type Tails interface {
	// Tail emits what is in memory of a task's log and not yet in the shared store, then more as it
	// comes, until ctx ends; without data it says how far the shared store goes. synced is called
	// once, when everything was emitted that there was. data may be kept.
	Tail(ctx context.Context, taskID string, emit func(replica string, offset int64, data []byte, durable int64) error, synced func() error) error
}

// PeersConfig is what Peers need; all but Zone and Keys must be given.
type PeersConfig struct {
	Hub  *Hub
	Key  []byte          // the cluster's link key
	Keys func() [][]byte // where it can change: that of now first, then older ones; nil: it can't
	Name string          // ours
	Self string          // our own address
	Zone string          // that we stand in; "" is unknown
	// Contact says why this server could not even know of a leader; nil: it could.
	Contact func() error
	Log     *slog.Logger
	Clock   clock.Clock
}

// Peers keeps this server together with the others: it answers them, holds one connection to each,
// and speaks for its launchers to whoever leads. Safe for concurrent use.
type Peers struct {
	cfg   PeersConfig
	creds credentials.TransportCredentials

	mu      sync.Mutex
	servers []Server // the leader first
	conns   map[string]*grpc.ClientConn
	moved   chan struct{} // has one after Set
}

// NewPeers derives the key that servers know each other by; it dials nobody yet.
func NewPeers(cfg PeersConfig) (*Peers, error) {
	if cfg.Keys == nil {
		cfg.Keys = func() [][]byte { return [][]byte{cfg.Key} }
	}
	creds := peerCredentials(cfg.Keys)
	return &Peers{cfg: cfg, creds: creds, conns: map[string]*grpc.ClientConn{}, moved: make(chan struct{}, 1)}, nil
}

// Set says which servers live, the leader first.
func (p *Peers) Set(servers []Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = slices.Clone(servers)
	for addr, conn := range p.conns {
		if !slices.ContainsFunc(servers, func(s Server) bool { return s.Address == addr }) {
			conn.Close()
			delete(p.conns, addr)
		}
	}
	poke(p.moved)
}

// leader is who leads, unless nobody does or we do.
func (p *Peers) leader() (Server, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.servers) == 0 || p.servers[0].Address == p.cfg.Self || p.servers[0].Address == "" {
		return Server{}, false
	}
	return p.servers[0], true
}

func (p *Peers) others() []Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.servers), func(s Server) bool { return s.Address == p.cfg.Self || s.Address == "" })
}

// conn is the one connection to a server; it is kept until the server leaves.
func (p *Peers) conn(addr string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[addr]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
		}),
		grpc.WithAuthority("fermi"), grpc.WithTransportCredentials(p.creds), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 2 * time.Second}),
		// The timeout is also TCP_USER_TIMEOUT: a peer behind a cut cable is noticed by the next beat.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: hearing.SilenceLimit / 2}),
	)
	if err != nil {
		return nil, err
	}
	p.conns[addr] = c
	return c, nil
}

// Run forwards launchers to whoever leads until ctx ends.
func (p *Peers) Run(ctx context.Context) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.Close()
		}
	}()
	var lost time.Time // when the last leader was
	for ctx.Err() == nil {
		if s, ok := p.leader(); ok {
			connected, err := p.followOne(ctx, s)
			if connected {
				lost = time.Time{}
			}
			p.cfg.Log.Debug("forwarding ended", "leader", s.Name, "error", err)
		}
		now := p.cfg.Clock.Now()
		if lost.IsZero() || p.cfg.Hub.roll.isLeading() {
			lost = now
		}
		if now.Sub(lost) > orphanLimit || p.cfg.Contact() != nil {
			p.cfg.Hub.roll.giveUp()
		}
		select {
		case <-ctx.Done():
		case <-p.moved:
		case <-p.cfg.Clock.After(100*time.Millisecond + rand.N(100*time.Millisecond)):
		}
	}
	return nil
}

// followOne is one session with one leader; it ends early when another leads.
func (p *Peers) followOne(ctx context.Context, s Server) (connected bool, err error) {
	conn, err := p.conn(s.Address)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.moved:
				if now, ok := p.leader(); !ok || now != s {
					cancel()
					return
				}
			}
		}
	}()
	connected, err = (&forwarding{p.cfg.Hub}).follow(ctx, conn, p.cfg.Name, s.Epoch)
	cancel()
	<-ended
	return connected, err
}

// Ask brings what only the leader knows; fault Unavailable when there is none to ask.
func (p *Peers) Ask(ctx context.Context, kind, taskID string, body []byte) ([]byte, error) {
	s, ok := p.leader()
	if !ok {
		return nil, noLeader(nil)
	}
	conn, err := p.conn(s.Address)
	if err != nil {
		return nil, noLeader(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a, err := linkpb.NewPeerClient(conn).Ask(ctx, &linkpb.Question{Kind: kind, TaskId: taskID, Json: body})
	if err != nil {
		return nil, noLeader(err)
	}
	return a.GetJson(), nil
}

func noLeader(err error) error {
	return fault.New(fault.Unavailable, "NoLeader", fault.T("The leading server does not answer at the moment.", "主节点暂时没有响应。")).
		WithHint(fault.T("One is elected within seconds; try again.", "几秒内会选出主节点，请稍后重试。")).Because(err)
}

// Follow brings what the other servers hold of a task's log until ctx ends. take gets data or, with
// none, how far the shared store goes; its errors are its own affair. synced is called once, when
// everybody who lives has shown what there was.
func (p *Peers) Follow(ctx context.Context, taskID string, take func(replica string, offset int64, data []byte), synced func()) {
	var all, first sync.WaitGroup
	var mu sync.Mutex
	followed := map[string]bool{}
	begin := func(s Server, done func()) {
		mu.Lock()
		defer mu.Unlock()
		if followed[s.Address] {
			done()
			return
		}
		followed[s.Address] = true
		all.Go(func() {
			defer done()
			p.tails(ctx, s, taskID, take, done)
			mu.Lock()
			defer mu.Unlock()
			delete(followed, s.Address)
		})
	}
	for _, s := range p.others() {
		first.Add(1)
		begin(s, sync.OnceFunc(first.Done))
	}
	all.Go(func() { first.Wait(); synced() })
	for ctx.Err() == nil { // servers come and go
		select {
		case <-ctx.Done():
		case <-p.cfg.Clock.After(500 * time.Millisecond):
			for _, s := range p.others() {
				begin(s, func() {})
			}
		}
	}
	all.Wait()
}

// tails asks one server again and again while it lives.
func (p *Peers) tails(ctx context.Context, s Server, taskID string, take func(string, int64, []byte), synced func()) {
	for ctx.Err() == nil && p.lives(s) {
		err := p.tail(ctx, s, taskID, take, synced)
		p.cfg.Log.Debug("log tail ended", "server", s.Name, "task", taskID, "error", err)
		select {
		case <-ctx.Done():
		case <-p.cfg.Clock.After(200 * time.Millisecond):
		}
	}
}

func (p *Peers) lives(s Server) bool {
	return slices.ContainsFunc(p.others(), func(o Server) bool { return o.Address == s.Address })
}

func (p *Peers) tail(ctx context.Context, s Server, taskID string, take func(string, int64, []byte), synced func()) error {
	conn, err := p.conn(s.Address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := linkpb.NewPeerClient(conn).Tail(ctx, &linkpb.TailRequest{TaskId: taskID})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetSynced() {
			synced()
			continue
		}
		if parts, err := ParseName(nameOf(m)); err != nil || parts.TaskID != taskID || m.GetOffset() < 0 {
			return message.Refuse("log data of another task")
		}
		take(strings.Clone(m.GetReplica()), m.GetOffset(), m.GetData())
	}
}
