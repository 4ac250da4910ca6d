package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes a Gateway. Register may be nil.
type Config struct {
	// Store is the watch cache; nothing else of it is used.
	Store store.Reader
	Clock clock.Clock
	Log   *slog.Logger
	// Register takes the gateway's metrics.
	Register prometheus.Registerer
	// Cookies: browsers of the console at the same origin come with their session.
	Cookies bool
}

// Gateway carries requests. Safe for concurrent use.
type Gateway struct {
	cfg    Config
	meters *meters
	plain  *http.Transport // HTTP/1.1
	framed *http.Transport // HTTP/2 without TLS, for gRPC

	mu       sync.RWMutex
	services map[string]*service // by name
}

// Bounds of dialling and of what is kept open.
const (
	dialFor     = 2 * time.Second
	idleConns   = 256 // a replica
	idleFor     = 90 * time.Second
	maxHeaders  = 64 << 10
	headersIn   = 10 * time.Second
	shutdownFor = 30 * time.Second
)

// New makes a gateway; it starts nothing, and knows no service before Run.
func New(cfg Config) *Gateway {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	dialer := &net.Dialer{Timeout: dialFor, KeepAlive: 15 * time.Second}
	transport := func() *http.Transport {
		return &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleFor,
			MaxResponseHeaderBytes: maxHeaders, ForceAttemptHTTP2: false,
		}
	}
	g := &Gateway{cfg: cfg, meters: newMeters(cfg.Register), plain: transport(), framed: transport(), services: map[string]*service{}}
	g.framed.Protocols = new(http.Protocols)
	g.framed.Protocols.SetUnencryptedHTTP2(true)
	return g
}

// Run follows the endpoints of all services until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.plain.CloseIdleConnections()
	defer g.framed.CloseIdleConnections()
	if _, ok := api.InfoOf(serving.EndpointsKind); !ok {
		<-ctx.Done() // a program without services
		return nil
	}
	feed := g.cfg.Store.Subscribe(serving.EndpointsKind)
	defer feed.Close()
	for {
		snap, err := g.cfg.Store.List(ctx, serving.EndpointsKind, "", 0)
		if err == nil {
			snap.Ascend("", func(o api.Object) bool {
				g.take(o.(*serving.ServiceEndpoints))
				return true
			})
			break
		}
		select { // the store has nothing yet
		case <-ctx.Done():
			return nil
		case <-g.cfg.Clock.After(100 * time.Millisecond):
		}
	}
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		for _, ch := range changes {
			if e, ok := ch.New.(*serving.ServiceEndpoints); ok {
				g.take(e)
			} else {
				g.forget(ch.Key.Name)
			}
		}
	}
}

// take makes the newest endpoints of a service count.
func (g *Gateway) take(e *serving.ServiceEndpoints) {
	g.mu.Lock()
	s := g.services[e.Meta.Name]
	if s == nil || s.id != e.Spec.ServiceID {
		if s != nil {
			s.close()
		}
		s = newService(e.Meta.Name, e.Spec.ServiceID, e.Spec.Project, g.cfg.Clock)
		g.services[e.Meta.Name] = s
	}
	g.mu.Unlock()
	s.take(&e.Spec)
}

func (g *Gateway) forget(name string) {
	g.mu.Lock()
	s := g.services[name]
	delete(g.services, name)
	g.mu.Unlock()
	if s != nil {
		s.close()
		g.meters.forget(name)
	}
}

// find is a service by its name; nil: there is none.
func (g *Gateway) find(name string) *service {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.services[name]
}

// The paths of the gateway.
const (
	prefix       = "/inference/"
	openAIPrefix = "/v1/"
)

// Has says that a path is the gateway's.
func (*Gateway) Has(path string) bool {
	return strings.HasPrefix(path, prefix) || strings.HasPrefix(path, openAIPrefix)
}

// ServeHTTP carries one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // a stream lasts as long as it lasts
	_ = control.SetReadDeadline(time.Time{})
	sandbox(w.Header())
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, prefix):
		g.direct(w, r)
	case strings.HasPrefix(path, openAIPrefix):
		g.openAI(w, r)
	default:
		refuse(w, r, errNoRoute)
	}
}

// sandbox keeps what services send from acting in the name of the origin that it comes from.
func sandbox(h http.Header) {
	h.Set("Content-Security-Policy", "sandbox; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Del("Content-Language")
}

// Serve is the gateway alone: it answers on l until ctx ends, then takes no more requests and lets those that it has
// finish for a while.
func (g *Gateway) Serve(ctx context.Context, l net.Listener, others http.Handler) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.Has(r.URL.Path) {
				g.ServeHTTP(w, r)
				return
			}
			others.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headersIn, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaders, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownFor)
	defer done()
	if srv.Shutdown(grace) != nil {
		cut()
		_ = srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
