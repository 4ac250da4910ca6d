package link

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/door"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
	"github.com/fermi-cluster/fermi/internal/link/talk"
)

// Logs is where log data goes: a logbook.Book.
type Logs interface {
	// Durable is the offset a launcher must go on from.
	Durable(ctx context.Context, taskID, replica string) (int64, error)
	// Append takes whole lines; overlap with what is known is skipped, a gap is fault Conflict.
	Append(ctx context.Context, taskID, replica string, offset int64, data []byte) (durable int64, err error)
	// Finish commits everything; nothing more will come.
	Finish(ctx context.Context, taskID, replica string) (durable int64, err error)
}

// HubConfig is what a Hub needs. All but MaxOutputBytes, Notify, Saved, Standing, SecretsOf and SecretsUsed must be given.
type HubConfig struct {
	Blob   blob.Store
	Logs   Logs
	Tokens *Tokens
	Log    *slog.Logger
	Clock  clock.Clock
	// Notify is called (it must not block for long) when something about a replica changed:
	// attached, detached, started, exited, done.
	Notify func(taskID string, name engine.Name)
	// Saved is called (it must not block) when a launcher's ranks may hold another step; anew: it may
	// have missed what it was told before.
	Saved func(taskID string, anew bool)
	Fetched
	Standing
	Secrets
	// Answer says what only the leader knows, as JSON; nil where there are no other servers.
	Answer func(ctx context.Context, kind, about string, body []byte) ([]byte, error)
	// Tails gives other servers what is in memory of a task's log; nil where there are none.
	Tails Tails
	// Peered: Peers runs on this hub, so that launchers stay while the leader changes.
	Peered bool
	// Keep counts bytes of a task that are about to be stored, or refuses them: fault Full where its project
	// keeps as much as it may. Negative bytes were not stored after all. Nil: nobody counts.
	Keep func(ctx context.Context, taskID string, what Kept, bytes int64) error
	// MaxOutputBytes bounds the outputs of one replica; 64 GiB when 0.
	MaxOutputBytes int64
}

// Standing is what replicas may still do.
type Standing struct {
	// Current says nothing where a replica is of the attempt that its task runs now: only such a one
	// is given code and secrets. Fault Forbidden where that is over; nil: all are current.
	Current func(ctx context.Context, p Parts) error
	// GivenUp says nothing where what a replica hands over counts. Fault Forbidden where it was given up in silence and others took its
	// place: then only its log is taken, which tells what it did. Nil: nobody ever was.
	GivenUp func(ctx context.Context, p Parts) error
}

// Fetched is what launchers may ask for; only ArchiveOf must be given.
type Fetched struct {
	// SpecOf gives what a replica is and what its place adds to that, as JSON; nil: launchers have it in their folder.
	SpecOf func(ctx context.Context, name engine.Name) ([]byte, error)
	// ArchiveOf says which code archive a task's replicas may fetch, "" for none; so that a token
	// reaches only its own code.
	ArchiveOf func(ctx context.Context, taskID string) (digest string, err error)
	// ManifestOf gives the record of a checkpoint that a task may restore; nil where none is kept.
	ManifestOf func(ctx context.Context, taskID string, from message.Origin) ([]byte, error)
	// Calls are conversations with launchers that are attached here; nil: there are none.
	Calls *talk.Calls
}

// Secrets are what replicas get of secrets; the zero value: there are none.
type Secrets struct {
	// SecretsOf gives the values that a role of a task names; nil where there are no secrets.
	SecretsOf func(ctx context.Context, taskID, role string) (map[api.SecretRef]string, error)
	// SecretsUsed hears which values a replica gets, before it gets them; nil: nobody asks.
	SecretsUsed func(ctx context.Context, replica Parts, remote string, refs []api.SecretRef)
}

// Kept is what bytes are that are kept for a task.
type Kept string

const (
	KeptLogs    Kept = "logs"
	KeptOutputs Kept = "outputs"
)

// keep asks for room, stores, and gives the room back when that failed.
func (c *HubConfig) keep(ctx context.Context, taskID string, what Kept, bytes int64, store func() error) error {
	if c.Keep == nil {
		return store()
	}
	if err := c.Keep(ctx, taskID, what, bytes); err != nil {
		return err
	}
	err := store()
	if err != nil {
		_ = c.Keep(ctx, taskID, what, -bytes)
	}
	return err
}

// Usage is what a replica's tree uses, as its launcher last said.
type Usage struct {
	CPU       time.Duration
	RSS       int64
	Peak      int64
	Processes int
	At        time.Time
}

// Hub is the server's end. Safe for concurrent use.
type Hub struct {
	*hearing.Ears
	cfg HubConfig

	roll *roll
	desk *desk
}

// linkServer is what launchers call: a conversation with each of them, and the desk.
type linkServer struct {
	*desk
	hub *Hub
}

// NewHub makes a hub that leads nothing yet.
func NewHub(cfg HubConfig) *Hub {
	if cfg.MaxOutputBytes == 0 {
		cfg.MaxOutputBytes = 64 << 30
	}
	if cfg.Current == nil {
		cfg.Current = func(context.Context, Parts) error { return nil }
	}
	if cfg.GivenUp == nil {
		cfg.GivenUp = func(context.Context, Parts) error { return nil }
	}
	if cfg.Notify == nil {
		cfg.Notify = func(string, engine.Name) {}
	}
	if cfg.Saved == nil {
		cfg.Saved = func(string, bool) {}
	}
	h := &Hub{cfg: cfg}
	h.desk = &desk{cfg: &h.cfg}
	h.roll = newRoll(&h.cfg, &h.desk.outputs)
	h.Ears = h.roll.ears
	return h
}

// Serve answers launchers on l until ctx ends; it returns when all streams are closed. It may run
// on several listeners at once. l is closed. More are services beside the link's own, for whoever has a replica's token.
func (h *Hub) Serve(ctx context.Context, l net.Listener, more ...func(grpc.ServiceRegistrar)) error {
	var readers sync.WaitGroup // goroutines of streams: they outlive their handler by a moment
	srv := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.StreamInterceptor(door.Except("/fermi.agency.v1.", h.authenticate(&readers))),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quiet, Timeout: quiet}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: hearing.BeatEvery, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(patience), grpc.Creds(door.Creds()),
		grpc.ReadBufferSize(16<<10), grpc.WriteBufferSize(16<<10), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.MaxConcurrentStreams(64), grpc.MaxHeaderListSize(16<<10), grpc.WaitForHandlers(true),
	)
	for _, add := range append(more, func(r grpc.ServiceRegistrar) { linkpb.RegisterLinkServer(r, &linkServer{desk: h.desk, hub: h}) }) {
		add(srv)
	}
	if h.cfg.Calls != nil {
		h.cfg.Calls.Register(srv)
	}
	failed := make(chan error, 1)
	listening, endListening := context.WithCancel(ctx)
	readers.Go(func() { h.Listen(listening) })
	go func() { failed <- srv.Serve(door.New(l, patience, hearing.BeatEvery)) }()
	var err error
	select {
	case <-ctx.Done():
		srv.Stop() // launchers dial again; uploads begin again: nothing needs a slow goodbye
		<-failed
	case err = <-failed:
		srv.Stop()
	}
	endListening()
	readers.Wait()
	if ctx.Err() == nil && err != nil {
		return fmt.Errorf("serve the link: %w", err)
	}
	return nil
}

// Lead says that we lead with this epoch; 0 that we don't any more. Launchers that are attached
// stay and hear the new epoch; after 0 they stay only where Peers finds them the next leader.
func (h *Hub) Lead(epoch int64) { h.roll.lead(epoch) }

// Attached says whether the replica's launcher is connected now.
func (h *Hub) Attached(name engine.Name) bool { return h.roll.has(name) }

// State is how far the replica got, as its launcher told last.
func (h *Hub) State(name engine.Name) (engine.State, bool) {
	k, _, ok := h.roll.said(name)
	return k.state, ok
}

// Talk begins a conversation with a replica's launcher that is attached here; see talk.Calls.
func (h *Hub) Talk(ctx context.Context, name engine.Name) (s talk.Stream, end func(), err error) {
	if h.cfg.Calls == nil {
		return nil, nil, talk.ErrNotAttached
	}
	return h.cfg.Calls.Open(ctx, name)
}

// Usage is what the replica uses, as its launcher told last.
func (h *Hub) Usage(name engine.Name) (Usage, bool) {
	k, _, _ := h.roll.said(name)
	return k.usage, !k.usage.At.IsZero()
}

// Stop asks the launcher to end the tree with this grace. It may be said again.
func (h *Hub) Stop(name engine.Name, grace time.Duration) error {
	grace = min(max(grace, 0), maxGrace)
	return h.roll.order(name, func(p *peer, _ int64) error {
		p.post(func(out *outbox) { out.stop = &linkpb.StopOrder{GraceNanos: int64(grace)} })
		return nil
	})
}
