package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// Desk is a server's side. Safe for concurrent use.
type Desk struct {
	// Vouch says nothing where the proof is that of the replica in the zone.
	Vouch func(ctx context.Context, zone string, name engine.Name, proof string) error
	// Current says nothing where the replica is of the attempt that runs now.
	Current func(ctx context.Context, p link.Parts) error
	Mint    func(engine.Name) string
	Log     *slog.Logger
}

const (
	service = "fermi.link.v1.Exchange"
	method  = "/" + service + "/Token"
	// maxProof bounds what a stranger may send.
	maxProof = 16 << 10
	// dialFor is how long one server may take to answer.
	dialFor = 20 * time.Second
)

// Register is for Hub.Serve. The service is open to who has no token: that is what it is for.
func (d *Desk) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Token", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var ask structpb.ListValue
			if err := decode(&ask); err != nil {
				return nil, err
			}
			return d.token(ctx, &ask)
		}}},
	}, d)
}

// token answers [zone, replica, proof].
func (d *Desk) token(ctx context.Context, ask *structpb.ListValue) (*wrapperspb.StringValue, error) {
	if len(ask.GetValues()) != 3 {
		return nil, status.Error(codes.InvalidArgument, "a zone, a replica and a proof, please")
	}
	zone, name, proof := ask.Values[0].GetStringValue(), engine.Name(ask.Values[1].GetStringValue()), ask.Values[2].GetStringValue()
	parts, err := link.ParseName(name)
	if err != nil || len(proof) == 0 || len(proof) > maxProof {
		return nil, status.Error(codes.InvalidArgument, "a zone, a replica and a proof, please")
	}
	if err := d.Vouch(ctx, zone, name, proof); err != nil {
		return nil, d.refused(zone, name, err)
	}
	if err := d.Current(ctx, parts); err != nil {
		return nil, d.refused(zone, name, err)
	}
	return wrapperspb.String(d.Mint(name)), nil
}

// refused tells the caller whether asking again can help, and nobody else why not.
func (d *Desk) refused(zone string, name engine.Name, err error) error {
	d.Log.Warn("a replica was not given its token", "zone", zone, "replica", name, "error", err)
	if fault.CodeOf(err).Retry() {
		return status.Error(codes.Unavailable, fault.ReasonOf(err))
	}
	return status.Error(codes.PermissionDenied, fault.ReasonOf(err))
}

// Config is what a replica knows that has no token yet.
type Config struct {
	Zone      string
	Replica   engine.Name
	Endpoints string // path of the file with the servers' targets
	// Proof reads it, each time anew: it is renewed while servers are away.
	Proof func() (string, error)
	Log   *slog.Logger
	Clock clock.Clock
}

// Fetch asks one server after the other until one answers; an error: it was refused, or ctx has ended.
func Fetch(ctx context.Context, cfg Config) (string, error) {
	var last error
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		token, err := round(ctx, cfg)
		if err == nil {
			return token, nil
		}
		if code := status.Code(err); code == codes.PermissionDenied || code == codes.InvalidArgument || code == codes.Unimplemented {
			return "", fmt.Errorf("a server refused the token of replica %s: %w", cfg.Replica, err)
		}
		last = err
		cfg.Log.Info("no server gives the token yet; asking again", "error", err)
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no server of %s gave the token: %w", cfg.Endpoints, errors.Join(last, ctx.Err()))
		case <-cfg.Clock.After(pause):
		}
	}
}

func round(ctx context.Context, cfg Config) (token string, err error) {
	targets, err := endpoint.Read(cfg.Endpoints)
	if err != nil {
		return "", err
	}
	proof, err := cfg.Proof()
	if err != nil {
		return "", err
	}
	err = errors.New("there is no server in the list")
	for _, t := range targets {
		if token, err = ask(ctx, t, cfg, proof); err == nil || status.Code(err) == codes.PermissionDenied {
			return token, err
		}
	}
	return "", err
}

func ask(ctx context.Context, target string, cfg Config, proof string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	at, err := endpoint.Split(target)
	if err != nil {
		return "", err
	}
	dial, err := new(endpoint.Road).To(at, nil)
	if err != nil {
		return "", err
	}
	conn, err := grpc.NewClient("passthrough:///fermi", grpc.WithAuthority("fermi"), grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS is the road's
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, at.Network, at.Address) }))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	list, err := structpb.NewList([]any{cfg.Zone, string(cfg.Replica), proof})
	if err != nil {
		return "", err
	}
	var out wrapperspb.StringValue
	if err := conn.Invoke(ctx, method, list, &out); err != nil {
		return "", err
	}
	return out.GetValue(), nil
}
