package link

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// peerCredentials are mutual TLS by one key that all servers derive from the cluster's link key:
// who holds it is one of us, whatever its address; nobody else gets beyond the handshake.
func peerCredentials(keys func() [][]byte) credentials.TransportCredentials {
	return credentials.NewTLS(seal.RingTLS(keys, "fermi servers v1"))
}

// peerServer answers the other servers.
type peerServer struct {
	linkpb.UnimplementedPeerServer
	hub     *Hub
	zone    string
	readers *sync.WaitGroup
}

// Serve answers the other servers on l until ctx ends. l is closed.
func (p *Peers) Serve(ctx context.Context, l net.Listener) error {
	var readers sync.WaitGroup
	srv := grpc.NewServer(
		grpc.Creds(p.creds), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxAnswer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: hearing.BeatEvery, Timeout: hearing.SilenceLimit - hearing.BeatEvery}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: hearing.BeatEvery, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(hearing.SilenceLimit), grpc.MaxConcurrentStreams(10_000), grpc.MaxHeaderListSize(16<<10), grpc.WaitForHandlers(true),
	)
	linkpb.RegisterPeerServer(srv, &peerServer{hub: p.cfg.Hub, zone: p.cfg.Zone, readers: &readers})
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
		srv.Stop()
		<-failed
	case err = <-failed:
		srv.Stop()
	}
	readers.Wait()
	if ctx.Err() == nil && err != nil {
		return fmt.Errorf("serve the other servers: %w", err)
	}
	return nil
}

// maxQuestion bounds what a question is about: a task's id, or a wish about one.
const maxQuestion = 128 << 10

// Ask answers from what the leader knows, and a ping at once.
func (p *peerServer) Ask(ctx context.Context, q *linkpb.Question) (*linkpb.Answer, error) {
	if q.GetKind() == pingKind {
		return &linkpb.Answer{Json: []byte(p.zone)}, nil
	}
	if p.hub.cfg.Answer == nil || !p.hub.roll.isLeading() {
		return nil, errNotLeading
	}
	if len(q.GetKind()) > 32 || len(q.GetTaskId()) > maxQuestion {
		return nil, message.Refuse("no such question")
	}
	data, err := p.hub.cfg.Answer(ctx, q.GetKind(), q.GetTaskId(), q.GetJson())
	if err != nil {
		return nil, Status(err)
	}
	if len(data) > maxAnswer-1024 {
		return nil, status.Error(codes.ResourceExhausted, "the answer is too long")
	}
	return &linkpb.Answer{Json: data}, nil
}

// Tail shows what is in memory of a task's log.
func (p *peerServer) Tail(req *linkpb.TailRequest, stream linkpb.Peer_TailServer) error {
	if p.hub.cfg.Tails == nil {
		return status.Error(codes.Unimplemented, "this server keeps no logs")
	}
	if len(req.GetTaskId()) > message.MaxName {
		return message.Refuse("no such task")
	}
	err := p.hub.cfg.Tails.Tail(stream.Context(), req.GetTaskId(),
		func(replica string, offset int64, data []byte, durable int64) error {
			return stream.Send(&linkpb.TailData{Replica: replica, Offset: offset, Data: data, Durable: durable})
		},
		func() error { return stream.Send(&linkpb.TailData{Synced: true}) })
	return Status(err)
}

func nameOf(m *linkpb.TailData) engine.Name { return engine.Name(m.GetReplica()) }
