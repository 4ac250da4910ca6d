package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Store is the truth as the face needs it.
type Store interface {
	store.Reader
	store.Writer
	// Healthy is nil, or says in words for people what is wrong. Safe for concurrent use.
	Healthy(ctx context.Context) error
	// Now is a revision at or above everything acknowledged before the call.
	Now(ctx context.Context) (int64, error)
}

// LogReader gives a task's log and forgets it.
type LogReader interface {
	// Read emits existing lines, then with Follow new ones until ctx ends or Done is closed and
	// everything was emitted. An error of emit ends it and is returned.
	Read(ctx context.Context, taskID string, opts logbook.ReadOptions, emit func(replica string, l logbook.Line) error) error
	// Delete removes the task's whole log; absent is fine.
	Delete(ctx context.Context, taskID string) error
}

// Live is what the leader knows in memory. Nil where this process has no such knowledge.
// All calls are quick and safe for concurrent use; Unavailable means: ask another replica.
type Live interface {
	// Why explains why work is where it is.
	Why(ctx context.Context, work api.Work) (Explanation, error)
	// Replicas lists the replicas of a task's attempts that are known now; none is fine.
	Replicas(ctx context.Context, taskID string) ([]ReplicaView, error)
	// Preview says what would become of prepared work if it were submitted now.
	Preview(ctx context.Context, work api.Work) (api.Preview, error)
	// Move reserves another place for a running task and asks it to go there, or only says what that
	// would mean. Fault Conflict says why there is no such place.
	Move(ctx context.Context, work api.Work, wish MoveWish) (api.Move, error)
	// Probe has something done to a rank, or has it looked at. Fault NotFound: there is no such rank;
	// Conflict: it can't be done there.
	Probe(ctx context.Context, task *api.TrainingTask, wish FaultWish) (ProbeView, error)
	// Capacity says what there is of each device type.
	Capacity(ctx context.Context) ([]CapacityView, error)
	// Shares says how every queue stands, Share how one does; nothing is used of one unknown.
	Shares(ctx context.Context) ([]api.QueueShare, error)
	Share(ctx context.Context, queue string) (api.QueueShare, error)
	// Outage says where the tasks of a zone would go if it were lost now.
	Outage(ctx context.Context, zone string) (api.Outage, error)
	// Drained says where the tasks of a node, or of NODE/DEVICE, would go if it were drained now.
	Drained(ctx context.Context, place string) (api.Outage, error)
}

// Checkpoints are what of the ranks' states outlives them.
type Checkpoints interface {
	// List gives those of a task, oldest first; none is fine. Fault Unavailable when a store is away.
	List(ctx context.Context, taskID string) ([]api.Checkpoint, error)
	// Pin keeps one whatever the policy says, in every tier that has it, or no longer.
	Pin(ctx context.Context, taskID, name string, pinned bool) error
	// Verify has the server read every byte of those in the shared store, beside all else; List tells when
	// that is done. Fault Unavailable when too many wait.
	Verify(ctx context.Context, taskID string, names []string) error
	// Image opens what a rank has of one in a tier. Fault NotFound: this server does not reach it there.
	Image(ctx context.Context, taskID, name, tier string, rank int) (RankImage, error)
	// Erase deletes all of them; it may be said again.
	Erase(ctx context.Context, taskID string) error
}

// Explanation is one dominant reason, its evidence, and what would change it.
type Explanation struct {
	Reason         string       `json:"reason" doc:"Machine-readable: the one dominant reason."`
	Message        fault.Text   `json:"message"`
	Evidence       []fault.Text `json:"evidence,omitempty" doc:"What was looked at."`
	EstimatedStart *time.Time   `json:"estimatedStart,omitempty"`
	Action         fault.Text   `json:"action,omitzero" doc:"What would change it."`
	// Moves are all needed, in any order.
	Moves []api.TaskMove `json:"moves,omitempty" doc:"Running tasks that could move, after which it starts; the least work is lost so."`
}

// ReplicaView is one replica as people see it.
type ReplicaView struct {
	Name      string        `json:"name"`
	Role      string        `json:"role"`
	Index     int           `json:"index"`
	Rank      int           `json:"rank"`
	Attempt   int           `json:"attempt"`
	Zone      string        `json:"zone,omitempty"`
	Node      string        `json:"node,omitempty"`
	Devices   int           `json:"devices,omitempty"`
	DeviceIDs []string      `json:"deviceIds,omitempty" doc:"UUIDs, or indices where there is none."`
	State     string        `json:"state" doc:"Created, Running, Exited or Done."`
	Attached  bool          `json:"attached,omitempty" doc:"Its launcher is connected."`
	Spare     string        `json:"spare,omitempty" doc:"It holds no rank and stands by: starting, ready, warm or leaving."`
	StartedAt *time.Time    `json:"startedAt,omitempty"`
	StoppedAt *time.Time    `json:"finishedAt,omitempty"`
	ExitCode  *int          `json:"exitCode,omitempty"`
	Signal    string        `json:"signal,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Message   string        `json:"message,omitempty"`
	CPUTime   time.Duration `json:"cpuTime,omitempty" doc:"Nanoseconds."`
	Memory    api.Bytes     `json:"memory,omitempty"`
	PeakBytes api.Bytes     `json:"peakBytes,omitempty"`
}

// Config is all a Server needs. Live, Backup, Ready, Metrics, Register and Console may be nil.
type Config struct {
	Store   Store
	History history.History
	Blob    blob.Store
	Logs    LogReader
	Live    Live
	// Checkpoints are those of tasks; nil: there are none.
	Checkpoints Checkpoints
	// Stored is what projects keep; nil: nobody counts bytes.
	Stored Stored
	// Imports takes those from elsewhere; nil: there is no shared store.
	Imports Imports
	// Backup writes one tar of everything; called by admins only.
	Backup func(ctx context.Context, w io.Writer) error
	// Rotate replaces a key, one of RotatableKeys, while everything runs; called by admins only. Fault Conflict
	// NothingToRotate where there is none of that name.
	Rotate func(ctx context.Context, key string) (fault.Text, error)
	// Box seals secrets; nil: they are refused.
	Box     *seal.Box
	Log     *slog.Logger
	Clock   clock.Clock
	IDs     *id.Source
	Random  io.Reader // of secrets; the system's when nil
	Version string
	Limits  Limits
	// Contact says why nobody must be answered now: what this server knows may be old. nil: it can't
	// be, because there is no other server.
	Contact func() error
	// Hosts are the names of this server beside localhost; requests for others are refused.
	Hosts []string
	// Refuse is nil, or the fault Invalid of a task that could never start, judged by the state at
	// minRevision at least; without it everything may wait. Quick, and safe for concurrent use.
	Refuse func(ctx context.Context, work api.Work, minRevision int64) error
	// SoleOwner is who alone may start processes, where projects can't be kept apart; nil or "": all.
	SoleOwner func() string
	// Folders are those of the machines that an operator named.
	Folders []api.NamedFolder
	// Ready says why /readyz must refuse; nil is ready.
	Ready    func() error
	Metrics  prometheus.Gatherer
	Register prometheus.Registerer // for the server's own metrics
	// Console are the pages for browsers; without an index.html they only say that they are missing.
	Console fs.FS
}

// Validate lists what is missing.
func (c Config) Validate() error {
	switch {
	case c.Store == nil:
		return errors.New("server: no Store")
	case c.History == nil:
		return errors.New("server: no History")
	case c.Blob == nil:
		return errors.New("server: no Blob")
	case c.Logs == nil:
		return errors.New("server: no Logs")
	}
	return nil
}

// Server serves. Safe for concurrent use.
type Server struct {
	Config
	mux       *http.ServeMux
	doc       func() ([]byte, error) // the OpenAPI document, written when first asked for
	routes    []*route
	limits    *limiters
	tasks     *tracker
	keys      *sortKeys
	seen      *meters
	hosts     []string
	console   *console
	passwords *passwords
	strangers *tally        // what nobody we know was refused
	often     *tally        // refusals of known callers, and reads
	looks     *rate.Limiter // of tokens that only other servers may know yet
	newest    atomic.Int64  // the newest revision committed through this server
	making    sync.Mutex    // held while a token is counted and written
	closing   chan struct{}
	once      sync.Once
}

// New builds the routes and the OpenAPI document. It starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.IDs == nil {
		cfg.IDs = id.Default
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Server{
		Config:    cfg,
		limits:    newLimiters(cfg.Limits, cfg.Clock),
		tasks:     newTracker(),
		keys:      &sortKeys{},
		seen:      newMeters(cfg.Register),
		hosts:     lowerAll(cfg.Hosts),
		passwords: newPasswords(cfg.Random),
		console:   newConsole(cfg.Console),
		closing:   make(chan struct{}),
		looks:     rate.NewLimiter(50, 50),
		strangers: newTally(cfg.Clock, strangersEvery, strangersKept),
		often:     newTally(cfg.Clock, oftenEvery, oftenKept),
	}
	if cfg.Register != nil {
		_ = cfg.Register.Register(newTrainingMeters(cfg.Store)) // as newMeters does
	}
	s.build()
	return s, nil
}

// Handler is the whole face. Limits on pending tasks and the end of followed logs are exact only
// while Run runs.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Run serves on l until ctx ends, then ends the streams, lets requests finish for up to ten
// seconds, and returns when everything it started has ended. It closes l. Call it once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	hs := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      60 * time.Second, // streams move it forward with every write
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.tasks.run(inner, s.Store, s.Log, s.Clock) })
	wg.Go(func() { s.keys.warm(inner, s.Store) })
	wg.Go(func() { s.sweep(inner) })
	wg.Go(func() { s.writeTallies(inner) })
	failed := make(chan error, 1)
	wg.Go(func() { failed <- hs.Serve(l) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.close()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.ShutdownGrace)
	defer done()
	if hs.Shutdown(grace) != nil {
		cut()
		_ = hs.Close()
	}
	stop()
	wg.Wait()
	s.limits.streams.wait()
	s.flushTallies(context.WithoutCancel(ctx), true)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// close ends every stream.
func (s *Server) close() { s.once.Do(func() { close(s.closing) }) }

// commit writes and remembers the revision, so that a read through this server which misses can
// look again at least there.
func (s *Server) commit(ctx context.Context, ops ...store.Op) (int64, error) {
	rev, err := s.Store.Commit(ctx, store.Txn{Ops: ops})
	if err != nil {
		return 0, err
	}
	for {
		old := s.newest.Load()
		if rev <= old || s.newest.CompareAndSwap(old, rev) {
			return rev, nil
		}
	}
}

// find reads from the cache; a miss looks again at the newest revision written through this
// server, so that an object just made is always found.
func (s *Server) find(ctx context.Context, key api.Key, minRevision int64) (api.Object, error) {
	o, err := s.Store.Get(ctx, key, minRevision)
	if newest := s.newest.Load(); fault.Is(err, fault.NotFound) && newest > minRevision {
		return s.Store.Get(ctx, key, newest)
	}
	return o, err
}
