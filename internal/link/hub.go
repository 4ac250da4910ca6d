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
	"github.com/fermi-cluster/fermi/internal/fault"
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
	// SecretsOf gives the values that a role of a task names; nil where there are no secrets.
	SecretsOf func(ctx context.Context, taskID, role string) (map[api.SecretRef]string, error)
	// SecretsUsed hears which values a replica gets, before it gets them; nil: nobody asks.
	SecretsUsed func(ctx context.Context, replica Parts, remote string, refs []api.SecretRef)
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

	mu        sync.Mutex
	epoch     int64     // of the newest leader we know; 0: launchers are not taken in
	since     time.Time // when it became so
	leading   bool      // it is us
	known     map[engine.Name]*known
	peers     map[engine.Name]*peer // attached here or, while we lead, through a follower
	followers map[*follower]struct{}
	probes    map[string]chan message.Probed // by id: who waits for an answer
	up        *uplink                        // to the leader; nil while we lead or know none
	swept     time.Time

	desk *desk
}

// linkServer is what launchers call: a conversation with each of them, and the desk.
type linkServer struct {
	*desk
	hub *Hub
}

// known is what a launcher told last; it is kept a while after the launcher hung up.
type known struct {
	state   engine.State
	usage   Usage
	ranks   *linkpb.Ranks  // nil: it said nothing; never changed
	probed  *linkpb.Probed // the answer to the last probe; never changed
	seen    time.Time
	session int64 // of its last stream here
}

// keepKnown is how long the last word of a launcher that hung up is remembered. Records on disk
// are the truth; this is only for showing.
const keepKnown = 10 * time.Minute

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
	h := &Hub{
		cfg: cfg, known: map[engine.Name]*known{}, peers: map[engine.Name]*peer{}, followers: map[*follower]struct{}{}, probes: map[string]chan message.Probed{},
	}
	h.desk = &desk{cfg: &h.cfg}
	h.Ears = hearing.New(cfg.Clock, h.beat)
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
func (h *Hub) Lead(epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch != 0 {
		h.leading, h.up = true, nil
		h.Wake()
		h.raise(epoch)
		return
	}
	h.leading = false
	for f := range h.followers {
		h.dropFollower(f, errNotLeading)
	}
	if !h.cfg.Peered {
		h.closeDoor()
	}
}

// raise makes epoch the one of every launcher attached here, mu held.
func (h *Hub) raise(epoch int64) {
	h.epoch, h.since = epoch, h.cfg.Clock.Now()
	for _, p := range h.peers {
		if p.via == nil {
			p.post(func(out *outbox) { out.epoch, out.watermark = epoch, nil }) // the last leader's
		}
	}
}

// closeDoor hangs up on every launcher, which then looks for another server, mu held.
func (h *Hub) closeDoor() {
	h.epoch = 0
	for _, p := range h.peers {
		p.hangUp(errNotLeading)
	}
}

// Attached says whether the replica's launcher is connected now.
func (h *Hub) Attached(name engine.Name) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peers[name] != nil
}

// State is how far the replica got, as its launcher told last.
func (h *Hub) State(name engine.Name) (engine.State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.known[name]; k != nil {
		return k.state, true
	}
	return "", false
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.known[name]; k != nil && !k.usage.At.IsZero() {
		return k.usage, true
	}
	return Usage{}, false
}

// Stop asks the launcher to end the tree with this grace. It may be said again.
func (h *Hub) Stop(name engine.Name, grace time.Duration) error {
	grace = min(max(grace, 0), maxGrace)
	return h.order(name, func(p *peer) error {
		p.post(func(out *outbox) { out.stop = &linkpb.StopOrder{GraceNanos: int64(grace)} })
		return nil
	})
}

func (h *Hub) order(name engine.Name, give func(*peer) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[name]
	if p == nil || !h.leading {
		return fault.New(fault.Unavailable, "NotAttached",
			fault.T("The replica's launcher is not connected.", "该副本的启动器未连接。"))
	}
	return give(p)
}

// attach makes p the one stream of its replica, or says why not.
func (h *Hub) attach(p *peer, state engine.State) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch == 0 || h.epoch < p.epoch {
		return errNotLeading
	}
	if h.epoch > p.epoch { // a new leader since the launcher was asked
		p.post(func(out *outbox) { out.epoch = h.epoch })
	}
	if !h.place(p) {
		return errReplaced
	}
	k := h.knownOf(p.name)
	p.voice = h.Attend(p.name)
	k.session = p.session
	k.ranks = nil // it says so again, and until then nobody acts on what it said elsewhere
	k.advance(state)
	h.mark(p.name)
	return nil
}

// place makes p the one of its replica; false when a newer stream of it is there. mu held.
func (h *Hub) place(p *peer) bool {
	if old := h.peers[p.name]; old != nil {
		if old.session > p.session {
			return false
		}
		old.hangUp(errReplaced)
		if old.via != nil {
			delete(old.via.names, p.name)
		}
	}
	h.peers[p.name] = p
	return true
}

// knownOf finds or makes the memory of a replica, mu held.
func (h *Hub) knownOf(name engine.Name) *known {
	k := h.known[name]
	if k == nil {
		k = &known{}
		h.known[name] = k
	}
	k.seen = h.cfg.Clock.Now()
	h.sweep(k.seen)
	return k
}

// mark says that the leader must hear of a replica, mu held.
func (h *Hub) mark(name engine.Name) {
	if h.up != nil {
		h.up.mark(name)
	}
}

// detach forgets p unless a newer stream took its place.
func (h *Hub) detach(p *peer) {
	h.mu.Lock()
	mine := h.peers[p.name] == p
	if mine {
		delete(h.peers, p.name)
		if k := h.known[p.name]; k != nil {
			k.seen = h.cfg.Clock.Now()
		}
		h.mark(p.name)
	}
	h.mu.Unlock()
	if mine {
		h.cfg.Notify(p.parts.TaskID, p.name)
	}
}

// tell notes what p's launcher said; a stream that was replaced has no say any more.
func (h *Hub) tell(p *peer, note func(*known)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.known[p.name]; k != nil && h.peers[p.name] == p {
		note(k)
		h.mark(p.name)
	}
}

// sweep drops last words that nobody needs any more; at most once a minute, mu held.
func (h *Hub) sweep(now time.Time) {
	if now.Sub(h.swept) < time.Minute {
		return
	}
	h.swept = now
	for name, k := range h.known {
		if h.peers[name] == nil && now.Sub(k.seen) > keepKnown {
			delete(h.known, name)
			h.Forget(name)
		}
	}
	h.desk.outputs.Sweep(now, keepKnown)
}

func (k *known) advance(s engine.State) {
	if stateRank[s] > stateRank[k.state] {
		k.state = s
	}
}
