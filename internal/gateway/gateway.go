package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway/wire"
	"github.com/fermi-cluster/fermi/internal/id"
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
	// Far dials a port of a replica on a machine that joined, through its agent; nil: such replicas are not reached from here. Its errors
	// are of operation "dial".
	Far func(ctx context.Context, via serving.Via, port int) (net.Conn, error)
	// Refused hears of every token that was not valid, with its name where it has one; a fault is told in the place of ours. It may be nil.
	Refused func(r *http.Request, tried string, why *fault.Error) error
	// Domain: services have host names below it, beside those below localhost; may be "".
	Domain string
	// Region is where requests come from that do not say it; may be "".
	Region string
	// Cookies: browsers of the console at the same origin come with their session.
	Cookies bool
	// Report tells the leader what is asked of services; nil: nobody hears it, and nothing is scaled by it. It returns soon.
	Report func(context.Context, *serving.LoadReport) (*serving.LoadReply, error)
}

// Gateway carries requests. Safe for concurrent use.
type Gateway struct {
	cfg    Config
	meters *meters
	lines  *wire.Pool      // HTTP/1.1
	framed *http.Transport // HTTP/2 without TLS, for gRPC

	name     string        // in reports: of this start
	held     chan struct{} // a request waits and nobody is there
	shadows  atomic.Int64  // under way
	limits   limits
	ledger   ledger
	adapters adapters

	filled chan struct{} // closed once all services are known

	mu       sync.RWMutex
	services map[string]*service // by name
}

// Bounds of dialling and of what is kept open.
const (
	dialFor     = 2 * time.Second
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
	cfg.Domain = strings.ToLower(cfg.Domain)
	dial := dialTo(&net.Dialer{Timeout: dialFor, KeepAlive: 15 * time.Second}, cfg.Far)
	g := &Gateway{
		cfg: cfg, name: id.Default.Random(16), held: make(chan struct{}, 1), filled: make(chan struct{}), meters: newMeters(cfg.Register), services: map[string]*service{},
		lines: &wire.Pool{MaxHeaders: maxHeaders, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}},
		framed: &http.Transport{DialContext: dial, DisableCompression: true, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeaders, Protocols: new(http.Protocols)},
	}
	g.framed.Protocols.SetUnencryptedHTTP2(true)
	g.ledger.gateway = g.name
	return g
}

// farReplica is the key of the replica on a machine that joined to which a request goes, in the request's context.
type farReplica struct{}

// dialTo connects to the replica of a request. Connections are kept by its way, so that one serves no other replica.
func dialTo(d *net.Dialer, far func(context.Context, serving.Via, int) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, kind, address string) (net.Conn, error) {
		r, _ := ctx.Value(farReplica{}).(*replica)
		if r == nil {
			return d.DialContext(ctx, kind, address)
		}
		_, text, _ := net.SplitHostPort(r.address)
		port, err := strconv.Atoi(text)
		if far == nil || err != nil {
			return nil, &net.OpError{Op: "dial", Net: kind, Err: errors.Join(errNoRoad, err)}
		}
		return far(ctx, *r.via, port)
	}
}

var errNoRoad = errors.New("this gateway has no key for the agents of machines that joined")

// Run follows the endpoints of all services until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.lines.Close()
	defer g.framed.CloseIdleConnections()
	if _, ok := api.InfoOf(serving.EndpointsKind); !ok {
		close(g.filled)
		<-ctx.Done() // a program without services
		return nil
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { g.lines.Keep(ctx, g.cfg.Clock, idleFor/2) })
	beside.Go(func() { engines{g}.run(ctx) })
	if g.cfg.Report != nil {
		beside.Go(func() { reporter{g}.run(ctx) })
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
			close(g.filled)
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
			g.adapters.take(s, s.settings().Adapters, nil)
		}
		s = newService(e.Meta.Name, e.Spec.ServiceID, e.Spec.Project, g.cfg.Clock)
		s.cold = g.tellHeld
		g.services[e.Meta.Name] = s
	}
	g.mu.Unlock()
	had := s.settings().Adapters
	s.take(&e.Spec)
	g.adapters.take(s, had, e.Spec.Adapters)
}

// tellHeld has the leader told at once.
func (g *Gateway) tellHeld() {
	select {
	case g.held <- struct{}{}:
	default: // it will be
	}
}

func (g *Gateway) forget(name string) {
	g.mu.Lock()
	s := g.services[name]
	delete(g.services, name)
	g.mu.Unlock()
	if s != nil {
		s.close()
		g.adapters.take(s, s.settings().Adapters, nil)
		g.ledger.forget(s.id)
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
	underPath    = "/inference/"
	openAIPrefix = "/v1/"
)

// Has says that a request is the gateway's: by the host name of a service, by its path, or by the name that a client of gRPC,
// whose paths are not its own to choose, sends with it.
func (g *Gateway) Has(r *http.Request) bool {
	return g.named(r) != "" || strings.HasPrefix(r.URL.Path, underPath) || strings.HasPrefix(r.URL.Path, openAIPrefix)
}

// IsHost says that a request came to a service's own host name.
func (g *Gateway) IsHost(r *http.Request) bool { return g.ofHost(r.Host) != "" }

// hostMark begins the host names of services, before the service's name: svc--NAME.localhost, and svc--NAME.DOMAIN.
const hostMark = "svc--"

// serviceHeader names the service of a gRPC request.
const serviceHeader = "X-Fermi-Service"

// ofHost is the service whose name a host has; "": none.
func (g *Gateway) ofHost(host string) string {
	if len(host) <= len(hostMark) || !strings.EqualFold(host[:len(hostMark)], hostMark) {
		return ""
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	label, domain, ok := strings.Cut(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	if !ok || domain != "localhost" && (g.cfg.Domain == "" || domain != g.cfg.Domain) {
		return ""
	}
	return label[len(hostMark):]
}

// named is the service that a request names beside its path; "": none.
func (g *Gateway) named(r *http.Request) string {
	if name := g.ofHost(r.Host); name != "" {
		return name
	}
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") && !strings.HasPrefix(r.URL.Path, underPath) {
		return r.Header.Get(serviceHeader)
	}
	return ""
}

// ServeHTTP carries one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // a stream lasts as long as it lasts
	_ = control.SetReadDeadline(time.Time{})
	sandbox(w.Header())
	if !g.knows(r.Context()) {
		refuse(w, r, errEarly)
		return
	}
	name := g.named(r)
	switch path := r.URL.Path; {
	case name != "":
		g.whole(w, r, name)
	case strings.HasPrefix(path, underPath):
		g.direct(w, r)
	case strings.HasPrefix(path, openAIPrefix):
		g.openAI(w, r)
	default:
		refuse(w, r, errNoRoute)
	}
}

// earlyFor is how long a request waits for a gateway that was just started.
const earlyFor = 10 * time.Second

var errEarly = func() *fault.Error {
	e := fault.New(fault.Unavailable, "NotReady", fault.T("The gateway was just started and does not know its services yet.", "网关刚启动，尚未获取服务列表。"))
	e.RetryAfter = time.Second
	return e
}()

// knows waits, for a while, until all services are known: one that is not there yet is not one that does not exist.
func (g *Gateway) knows(ctx context.Context) bool {
	select {
	case <-g.filled:
		return true
	default:
	}
	limit := time.NewTimer(earlyFor)
	defer limit.Stop()
	select {
	case <-g.filled:
		return true
	case <-ctx.Done():
	case <-limit.C:
	}
	return false
}

// sandboxed are the headers of every answer; nobody changes their values.
var sandboxed = []struct {
	name  string
	value []string
}{
	{"Content-Security-Policy", []string{"sandbox; frame-ancestors 'none'"}}, {"X-Content-Type-Options", []string{"nosniff"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}}, {"Referrer-Policy", []string{"no-referrer"}},
}

// sandbox keeps what services send from acting in the name of the origin that it comes from.
func sandbox(h http.Header) {
	for i := range sandboxed {
		h[sandboxed[i].name] = sandboxed[i].value
	}
	delete(h, "Content-Language")
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
			if g.Has(r) {
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
