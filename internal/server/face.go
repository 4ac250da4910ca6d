package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/console"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/port"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// tenants are who answers with what tenants made.
type tenants struct {
	inference Inference // of services; nil: nobody does
	ports     *port.Ports
}

// face takes requests to their routes: it checks host, caller, query and body type, calls the handler, answers, and
// has the audit written. Safe for concurrent use.
type face struct {
	door     *door.Door
	auditor  *audit.Auditor
	meters   *meters
	log      *slog.Logger
	clock    clock.Clock
	hosts    []string // names of this server beside localhost, in lower case
	contact  func() error
	now      func(context.Context) (int64, error)
	stall    time.Duration
	patience time.Duration // with a usual request
	pages    *console.Console
	mux      *http.ServeMux
	tenants
	routes []*rest.Route
	doc    func() ([]byte, error) // the OpenAPI document, written when first asked for
}

// build registers every route with the mux and the document. all gives the routes, and names their types to the document.
func (s *face) build(version string, all func(reg *rest.Schemas) []*rest.Route) {
	s.mux = http.NewServeMux()
	cfg := huma.Config{OpenAPI: rest.NewDocument(version), Formats: huma.DefaultFormats, DefaultFormat: "application/json"}
	h := humago.New(s.mux, cfg)
	spec := h.OpenAPI()
	reg := rest.NewSchemas(spec.Components.Schemas)
	spec.Components.Responses = map[string]*huma.Response{rest.RefusedName: {
		Description: "Refused, with the reason.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: rest.SchemaOf[rest.Refusal](reg)}},
	}}
	s.routes = all(reg)
	for _, rt := range s.routes {
		op := rt.Operation()
		shown := *op
		shown.Path = strings.ReplaceAll(op.Path, "...}", "}")
		spec.AddOperation(&shown)
		h.Adapter().Handle(op, func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			s.dispatch(rt, w, r)
		})
	}
	s.mux.HandleFunc("/", s.other)
	s.doc = sync.OnceValues(spec.MarshalJSON)
}

// ServeHTTP is the outermost layer: it refuses what the mux would answer in another shape.
func (s *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ports != nil {
		if to, ok := s.ports.OfHost(r.Host); ok {
			s.ports.ServeHost(w, r, to) // an origin of its own: nothing of ours is said there
			return
		}
	}
	h := w.Header()
	door.Secure(h)
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Language", rest.Language(r.Header.Get("Accept-Language")))
	if !door.KnownHost(r.Host, s.hosts) && (s.inference == nil || !s.inference.IsHost(r)) {
		s.newCall(w, r, nil).Refuse(door.ErrBadHost)
		return
	}
	if s.inference != nil && s.inference.Has(r) {
		s.inference.ServeHTTP(w, r)
		return
	}
	if s.ports != nil && s.ports.Has(r.URL.Path) {
		for name := range h {
			h.Del(name) // the answer is a tenant's
		}
		s.ports.ServePath(w, r)
		return
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path || r.Method == http.MethodConnect {
		s.unknown(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *face) newCall(w http.ResponseWriter, r *http.Request, rt *rest.Route) *rest.Call {
	return rest.NewCall(w, r, rt, s.clock, s.stall)
}

// other answers what no route of the API answers: files and pages of the console, and otherwise
// that nothing is there.
func (s *face) other(w http.ResponseWriter, r *http.Request) {
	if s.pages == nil || !s.pages.Serve(w, r) {
		s.unknown(w, r)
	}
}

// unknown answers for paths and methods nobody serves.
func (s *face) unknown(w http.ResponseWriter, r *http.Request) {
	c := s.newCall(w, r, nil)
	var allowed []string
	names := math.MaxInt // a path of its own comes before one that a name could make: placements/preview
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "/" && pattern != "" && method != r.Method {
			switch n := strings.Count(pattern, "{"); {
			case n < names:
				names, allowed = n, []string{method}
			case n == names:
				allowed = append(allowed, method)
			}
		}
	}
	if len(allowed) == 0 || r.URL.Path != path.Clean(r.URL.Path) {
		c.Refuse(fault.New(fault.NotFound, "UnknownRoute", fault.T(
			"There is nothing at %s.", "%s 不存在。", refuse.Clip(r.URL.Path, 200))).WithHint(fault.T(
			"All routes are listed in /api/v1/openapi.json.", "全部接口见 /api/v1/openapi.json。")))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.RefuseAs(fault.New(fault.Invalid, "MethodNotAllowed", fault.T(
		"%s cannot be used here; allowed: %s.", "此处不能使用 %s，允许：%s。", refuse.Clip(r.Method, 20), strings.Join(allowed, ", "))),
		http.StatusMethodNotAllowed)
}

// dispatch checks, calls the handler, answers, and writes the audit.
func (s *face) dispatch(rt *rest.Route, w http.ResponseWriter, r *http.Request) {
	start := s.clock.Now()
	c := s.newCall(w, r, rt)
	defer func() { s.meters.count(rt, c.Status, s.clock.Now().Sub(start)) }()
	defer s.recovered(c)
	rep, err := s.run(r.Context(), c)
	if err != nil {
		s.fail(c, err)
	} else if rep != nil {
		s.auditor.Remember(c, "ok")
		c.Answer(rep)
	}
	s.log.Debug("request", "method", r.Method, "route", rt.Path, "status", c.Status, "ip", c.IP, "request", c.Request)
}

func (s *face) run(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	if !c.Route.Open {
		if s.contact != nil {
			if err := s.contact(); err != nil {
				return nil, err
			}
		}
		if err := s.door.Admit(ctx, c); err != nil {
			return nil, err
		}
	}
	q, err := rest.ParseQuery(c.R.URL.RawQuery, c.Route.Query)
	if err != nil {
		return nil, err
	}
	c.Query = q
	if err := c.MediaKnown(); err != nil {
		return nil, err
	}
	if c.Route.Media == "" && !c.Route.Long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.patience)
		defer cancel()
	}
	if err := c.ReadFresh(ctx, s.now); err != nil {
		return nil, err
	}
	return c.Route.Handle(ctx, c)
}

// fail answers with a fault, or cuts the connection where an answer has begun.
func (s *face) fail(c *rest.Call, err error) {
	e := fault.From(err)
	switch {
	case c.R.Context().Err() != nil: // the client left
	case c.Route.Path == "/readyz": // somebody polls; the answer says it
	case e.Reason == "CutOff": // the store says it, once
	case e.Code == fault.Internal:
		s.log.Error("request failed", "method", c.R.Method, "route", c.Route.Path, "request", c.Request, "error", err)
	case e.Code.HTTP() >= 500:
		s.log.Warn("request failed", "method", c.R.Method, "route", c.Route.Path, "request", c.Request, "error", err)
	}
	s.auditor.RememberRefusal(c, e)
	if c.Begun() {
		panic(http.ErrAbortHandler)
	}
	c.Refuse(e)
}

// recovered turns a panic into an answer; the process lives on.
func (s *face) recovered(c *rest.Call) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("panic in a handler", "route", c.Route.Path, "panic", p, "stack", string(debug.Stack()))
	if c.Begun() {
		panic(http.ErrAbortHandler)
	}
	c.Refuse(fault.New(fault.Internal, "Internal", fault.T("Something went wrong on our side.", "系统内部错误。")))
}
