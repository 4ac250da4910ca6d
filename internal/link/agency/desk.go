package agency

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/agency/agencypb"
	"github.com/fermi-cluster/fermi/internal/link/callhome"
	"github.com/fermi-cluster/fermi/internal/link/door"
)

// Wish is what a machine says that wants to join.
type Wish struct {
	Secret    string            `json:"secret"` // of its token
	Name      string            `json:"name"`
	Zone      string            `json:"zone,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	MachineID string            `json:"machineId,omitempty"`
	Version   string            `json:"version"`
	Address   string            `json:"address"`
}

// Joined is who it is from now on.
type Joined struct {
	Node string `json:"node"`
	ID   string `json:"id"`
	Zone string `json:"zone"`
}

// Engine is the leader's, which serves the agents.
type Engine interface {
	Attend(ctx context.Context, node string, hello agentengine.Hello, s agentengine.Stream) error
}

// DeskConfig is what a Desk needs.
type DeskConfig struct {
	// Keys are the link keys, that of now first.
	Keys func() [][]byte
	// Join uses a token up and makes the node.
	Join func(ctx context.Context, w Wish) (Joined, error)
	// Known is nil while a node with this joining is there.
	Known func(ctx context.Context, who Identity) error
	// Targets are where servers are reached; nil: agents are not told.
	Targets func() []string
	// Version is this server's.
	Version string
	// Program opens what this server runs, if its digest is this one; nil: agents get none.
	Program func(digest string) (io.Reader, error)
	Log     *slog.Logger
	Clock   clock.Clock
}

// Desk is a server's side. Safe for concurrent use.
type Desk struct {
	agencypb.UnimplementedAgencyServer
	cfg DeskConfig

	mu     sync.Mutex
	engine Engine          // nil while this server does not lead
	calls  *callhome.Calls // nil: nobody takes them
}

// NewDesk makes one; it starts nothing.
func NewDesk(cfg DeskConfig) *Desk {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	return &Desk{cfg: cfg}
}

// Register is for Hub.Serve. The service looks at certificates itself.
func (d *Desk) Register(r grpc.ServiceRegistrar) {
	agencypb.RegisterAgencyServer(r, d)
	r.RegisterService(&calls, d)
	r.RegisterService(&programs, d)
}

// Take makes e the engine that agents attach to, until give is called.
func (d *Desk) Take(e Engine) (give func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine = e
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.engine == e {
			d.engine = nil
		}
	}
}

// Join gives a machine its certificate.
func (d *Desk) Join(ctx context.Context, r *agencypb.JoinRequest) (*agencypb.Certificate, error) {
	if err := Compatible(d.cfg.Version, r.GetVersion()); err != nil {
		return refused(err), nil
	}
	if _, err := x509.ParseCertificateRequest(r.GetCsr()); err != nil {
		return refused(fault.New(fault.Invalid, "BadRequest", fault.T("The request for a certificate can't be read.", "无法读取证书请求。")).Because(err)), nil
	}
	who, err := d.cfg.Join(ctx, Wish{
		Secret: r.GetToken(), Name: r.GetName(), Zone: r.GetZone(), Labels: r.GetLabels(), MachineID: r.GetMachineId(), Version: r.GetVersion(), Address: r.GetAddress(),
	})
	if err != nil {
		return refused(err), nil
	}
	der, err := issue(d.cfg.Keys()[0], r.GetCsr(), Identity{who.Node, who.ID}, d.cfg.Clock.Now())
	if err != nil {
		return refused(err), nil
	}
	d.cfg.Log.Info("a machine joined", "node", who.Node, "zone", who.Zone, "address", r.GetAddress())
	return &agencypb.Certificate{Der: der, Node: who.Node, Zone: who.Zone}, nil
}

// Renew gives an agent another certificate when it is time.
func (d *Desk) Renew(ctx context.Context, r *agencypb.RenewRequest) (*agencypb.Certificate, error) {
	who, due, err := d.caller(ctx)
	if err != nil {
		return refused(err), nil
	}
	if !due {
		return &agencypb.Certificate{Node: who.Node}, nil
	}
	der, err := issue(d.cfg.Keys()[0], r.GetCsr(), who, d.cfg.Clock.Now())
	if err != nil {
		return refused(err), nil
	}
	return &agencypb.Certificate{Der: der, Node: who.Node}, nil
}

// caller is whose certificate was shown; an error where none was, or its node is gone.
func (d *Desk) caller(ctx context.Context) (who Identity, due bool, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return who, false, errStranger
	}
	certs := door.Certificates(p.AuthInfo)
	if len(certs) == 0 {
		return who, false, errStranger
	}
	if who, due, err = check(d.cfg.Keys(), certs[0], d.cfg.Clock.Now()); err != nil {
		return who, false, err
	}
	return who, due, d.cfg.Known(ctx, who)
}

// Attach serves an agent for as long as this server leads.
func (d *Desk) Attach(s agencypb.Agency_AttachServer) error {
	ctx := s.Context()
	who, _, err := d.caller(ctx)
	if err != nil {
		return s.Send(wire(agentengine.Refuse(err)))
	}
	first, err := s.Recv()
	if err != nil {
		return err
	}
	hello, err := agentengine.ReadHello(plain(first))
	if err != nil {
		return s.Send(wire(agentengine.Refuse(err)))
	}
	d.mu.Lock()
	e := d.engine
	d.mu.Unlock()
	if e == nil {
		var targets []string
		if d.cfg.Targets != nil {
			targets = d.cfg.Targets() // an agent may know no other server
		}
		return s.Send(wire(agentengine.SendOn(errNotLeading, targets)))
	}
	if err := e.Attend(ctx, who.Node, hello, served{s}); err != nil && ctx.Err() == nil {
		return status.Error(codes.Aborted, err.Error())
	}
	return nil
}

// served is a stream as agentengine sees it.
type served struct{ s agencypb.Agency_AttachServer }

func (s served) Send(f agentengine.Frame) error { return s.s.Send(wire(f)) }
func (s served) Recv() (agentengine.Frame, error) {
	f, err := s.s.Recv()
	if err != nil {
		return agentengine.Frame{}, err
	}
	return plain(f), nil
}

func wire(f agentengine.Frame) *agencypb.Frame {
	return &agencypb.Frame{Seq: f.Seq, Kind: f.Kind, Body: f.Body}
}

func plain(f *agencypb.Frame) agentengine.Frame {
	return agentengine.Frame{Seq: f.GetSeq(), Kind: f.GetKind(), Body: f.GetBody()}
}

// told is a fault on its way.
type told struct {
	Code    fault.Code    `json:"code"`
	Reason  string        `json:"reason"`
	Message fault.Text    `json:"message"`
	Hint    fault.Text    `json:"hint,omitzero"`
	Fields  []fault.Field `json:"fields,omitempty"`
}

func refused(err error) *agencypb.Certificate {
	e := fault.From(err)
	raw, bad := json.Marshal(told{e.Code, e.Reason, e.Message, e.Hint, e.Fields})
	if bad != nil {
		raw = []byte(`{}`)
	}
	return &agencypb.Certificate{Fault: raw}
}

// refusal is what a server answered instead of a certificate; nil: it did not refuse.
func refusal(c *agencypb.Certificate) error {
	if len(c.GetFault()) == 0 {
		return nil
	}
	var t told
	if err := json.Unmarshal(c.GetFault(), &t); err != nil || t.Code == "" {
		return io.ErrUnexpectedEOF
	}
	return fault.New(t.Code, t.Reason, t.Message).WithHint(t.Hint).WithFields(t.Fields...)
}

var (
	errStranger = fault.New(fault.Unauthenticated, "UnknownAgent", fault.T(
		"This server does not know the agent's certificate.", "该服务器不认识此代理的证书。")).
		WithHint(fault.T("Make a token with `fermi node add` and join again with --token-file.", "请用 `fermi node add` 生成令牌，并用 --token-file 重新加入。"))
	errExpired = fault.New(fault.Unauthenticated, "CertificateExpired", fault.T(
		"The agent's certificate has expired: it was away for too long.", "代理的证书已过期：离线时间过长。")).
		WithHint(fault.T("Make a token with `fermi node add` and join again with --token-file.", "请用 `fermi node add` 生成令牌，并用 --token-file 重新加入。"))
	errNotLeading = fault.New(fault.Unavailable, "NotLeading", fault.T("This server does not lead now.", "该服务器当前不是主节点。"))
)

// ErrRemoved is for DeskConfig.Known.
var ErrRemoved = fault.New(fault.Unauthenticated, "NodeRemoved", fault.T(
	"The node of this agent was removed, or another machine joined in its place.", "该代理的节点已被移除，或已有其他机器以其名义加入。")).
	WithHint(fault.T("Make a token with `fermi node add` and join again with --token-file.", "请用 `fermi node add` 生成令牌，并用 --token-file 重新加入。"))
