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
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/sshdoor"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/truth"
)

// Live is what the leader knows in memory. Nil where this process has no such knowledge.
// All calls are quick and safe for concurrent use; Unavailable means: ask another replica.
type Live interface {
	train.Live
	cluster.Live
}

// Config is all a Server needs. Live, Backup, Ready, Metrics, Register and Console may be nil.
type Config struct {
	Store   truth.Store
	History history.History
	Blob    blob.Store
	Logs    train.LogReader
	Live    Live
	// Checkpoints are those of tasks; nil: there are none.
	Checkpoints train.Checkpoints
	// Stored is what projects keep; nil: nobody counts bytes.
	Stored tenant.Stored
	// Imports takes those from elsewhere; nil: there is no shared store.
	Imports train.Imports
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
	Limits  limit.Limits
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

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.Real
	}
	if c.IDs == nil {
		c.IDs = id.Default
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	c.Limits = c.Limits.WithDefaults()
	return c
}

// Server serves. Safe for concurrent use.
type Server struct {
	face     *face
	kinds    *objects.Kinds
	rules    *access.Rules
	sessions *door.Sessions
	streams  *stream.Streams
	auditor  *audit.Auditor
	lister   *objects.Lister
	tasks    *tracker.Tracker
	truth    *truth.Truth
	limits   limit.Limits
	counts   *limit.Counters
	log      *slog.Logger
	clock    clock.Clock
	shells   *sshdoor.Door
	system   *system
}

// New builds the routes and the OpenAPI document. It starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return assemble(cfg.withDefaults())
}

// Handler is the whole face. Limits on pending tasks and the end of followed logs are exact only
// while Run runs.
func (s *Server) Handler() http.Handler { return s.face }

// Inference carries requests to services, at paths of its own. Safe for concurrent use.
type Inference interface {
	http.Handler
	// Has says that a request is its own; IsHost, that it came to a host name of a service.
	Has(r *http.Request) bool
	IsHost(r *http.Request) bool
	// Run follows where services answer until ctx ends.
	Run(ctx context.Context) error
}

// Carry has requests to services carried, while Run runs. Before Run.
func (s *Server) Carry(i Inference) { s.face.inference = i }

// routeInference is what the audit calls requests to services.
var routeInference = &rest.Route{ID: "inference", Verb: "infer"}

// RefusedAtGateway writes a token that the gateway refused into the audit, and counts it as one at our own door.
func (s *Server) RefusedAtGateway(r *http.Request, tried string, why *fault.Error) error {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	err := s.face.door.Count(ip)
	if err != nil {
		why = fault.From(err)
	}
	s.auditor.RememberRefusal(&rest.Call{R: r, Route: routeInference, IP: ip, Request: strings.ToLower(rand.Text()[:16]), Tried: tried}, why)
	return err
}

// Enter says where SSH is answered and with which key (port 0: nowhere), and the domain whose names lead to ports of environments, beside
// localhost's; "": only those. Before Run.
func (s *Server) Enter(at func() (port int, key ssh.Signer), content string) {
	s.system.ssh, s.face.ports.Domain = at, strings.ToLower(content)
}

// RunSSH answers SSH on l until ctx ends, and returns when every connection has ended. It closes l.
func (s *Server) RunSSH(ctx context.Context, l net.Listener, hostKey func() ssh.Signer) error {
	d := *s.shells
	d.HostKey = hostKey
	return d.Run(ctx, l)
}

// SignInCode makes a one-time code that signs a user in; for whoever starts the server.
func (s *Server) SignInCode(ctx context.Context, user string) (string, error) {
	return s.sessions.SignInCode(ctx, user)
}

// PublishModels makes versions of models of what completed tasks left, until ctx ends; the leader's server does.
func (s *Server) PublishModels(ctx context.Context) error { return s.system.assets.Publish(ctx) }

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
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.tasks.Run(inner, s.truth, s.log, s.clock) })
	wg.Go(func() { s.lister.Run(inner) })
	wg.Go(func() { s.sessions.Run(inner) })
	wg.Go(func() { s.auditor.Run(inner) })
	if s.face.inference != nil {
		wg.Go(func() { _ = s.face.inference.Run(inner) })
	}
	failed := make(chan error, 1)
	wg.Go(func() { failed <- hs.Serve(l) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.streams.Close()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), s.limits.ShutdownGrace)
	defer done()
	if hs.Shutdown(grace) != nil {
		cut()
		_ = hs.Close()
	}
	stop()
	wg.Wait()
	s.streams.Wait()
	s.auditor.Flush(context.WithoutCancel(ctx), true)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
