package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const prefix = "/api/v1"

// handler does the work of a route. It answers with a reply, a fault, or nothing at all when it
// has written the answer itself.
type handler func(ctx context.Context, c *call) (*reply, error)

// route is one row of the table from which dispatch, checks and the document follow.
type route struct {
	method, path string // path in ServeMux's notation: {name}, {path...}
	id           string // operation id
	summary      string
	tag          string
	open         bool // needs no token
	long         bool // may take longer than a usual request
	kind         api.Kind
	verb         string // of the audit; "" is not audited
	look         string // the audit's verb for a read of what tasks left; the handler says what was read
	query        []param
	body         *bodySpec
	data         *huma.Schema // of data in the answer
	media        string       // content types of an answer that is not the usual JSON
	events       *huma.Schema // of one event, where media has events
	links        []string     // operations on what was made, by its name
	handle       handler
}

// bodySpec says what a route reads.
type bodySpec struct {
	schema   *huma.Schema
	media    []string
	required bool
	doc      string
	example  fields
}

// call is one request.
type call struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	rc      *http.ResponseController
	route   *route
	lang    string
	ip      string
	request string // its id
	who     *caller
	tried   string // the name of the token or user that was refused
	q       values
	note    note // for the audit
	told    []history.Event
	started bool // the answer was begun
	status  int
	cut     atomic.Pointer[fault.Error] // see guard
}

// build registers every route with the mux and the document.
func (s *Server) build() {
	s.mux = http.NewServeMux()
	cfg := huma.Config{OpenAPI: newDocument(s.Version), Formats: huma.DefaultFormats, DefaultFormat: "application/json"}
	h := humago.New(s.mux, cfg)
	spec := h.OpenAPI()
	reg := newSchemas(spec.Components.Schemas)
	spec.Components.Responses = map[string]*huma.Response{refusedName: {
		Description: "Refused, with the reason.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schemaOf[refusal](reg)}},
	}}
	s.routes = s.allRoutes(reg)
	for _, rt := range s.routes {
		op := rt.operation(reg)
		shown := *op
		shown.Path = strings.ReplaceAll(op.Path, "...}", "}")
		spec.AddOperation(&shown)
		h.Adapter().Handle(op, func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			s.dispatch(rt, w, r)
		})
	}
	s.mux.HandleFunc("/", s.pages)
	s.doc = sync.OnceValues(spec.MarshalJSON)
}

// serve is the outermost layer: it refuses what the mux would answer in another shape.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	secure(h)
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Language", language(r.Header.Get("Accept-Language")))
	if !s.knownHost(r.Host) {
		s.newCall(w, r).refuse(errBadHost)
		return
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path || r.Method == http.MethodConnect {
		s.unknown(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) newCall(w http.ResponseWriter, r *http.Request) *call {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	c := &call{
		s: s, w: w, r: r, rc: http.NewResponseController(w), ip: ip, request: strings.ToLower(rand.Text()[:16]),
		lang: language(r.Header.Get("Accept-Language")),
	}
	w.Header().Set("Fermi-Request", c.request)
	return c
}

// unknown answers for paths and methods nobody serves.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	c := s.newCall(w, r)
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
		c.refuse(fault.New(fault.NotFound, "UnknownRoute", fault.T(
			"There is nothing at %s.", "%s 不存在。", clip(r.URL.Path, 200))).WithHint(fault.T(
			"All routes are listed in /api/v1/openapi.json.", "全部接口见 /api/v1/openapi.json。")))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.refuseAs(fault.New(fault.Invalid, "MethodNotAllowed", fault.T(
		"%s cannot be used here; allowed: %s.", "此处不能使用 %s，允许：%s。", clip(r.Method, 20), strings.Join(allowed, ", "))),
		http.StatusMethodNotAllowed)
}

// dispatch checks, calls the handler, answers, and writes the audit.
func (s *Server) dispatch(rt *route, w http.ResponseWriter, r *http.Request) {
	start := s.Clock.Now()
	c := s.newCall(w, r)
	c.route = rt
	defer func() { s.seen.count(rt, c.status, s.Clock.Now().Sub(start)) }()
	defer c.recovered()
	rep, err := c.run(r.Context())
	if err != nil {
		c.fail(err)
	} else if rep != nil {
		s.remember(c, "ok")
		c.answer(rep)
	}
	s.Log.Debug("request", "method", r.Method, "route", rt.path, "status", c.status, "ip", c.ip, "request", c.request)
}

func (c *call) run(ctx context.Context) (*reply, error) {
	if !c.route.open {
		if c.s.Contact != nil {
			if err := c.s.Contact(); err != nil {
				return nil, err
			}
		}
		if err := c.admit(ctx); err != nil {
			return nil, err
		}
	}
	q, err := parseQuery(c.r.URL.RawQuery, c.route.query)
	if err != nil {
		return nil, err
	}
	c.q = q
	if err := c.mediaKnown(); err != nil {
		return nil, err
	}
	if c.route.media == "" && !c.route.long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.s.Limits.Request)
		defer cancel()
	}
	if err := c.readFresh(ctx); err != nil {
		return nil, err
	}
	return c.route.handle(ctx, c)
}

// mediaKnown refuses a body that says to be of a type the route does not read. One that says
// nothing is read as what it should be.
func (c *call) mediaKnown() error {
	given := c.r.Header.Get("Content-Type")
	if c.route.body == nil || given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err == nil && slices.Contains(c.route.body.media, media) {
		return nil
	}
	return fault.New(fault.BadMedia, "BadContentType", fault.T(
		"A body of type %q is not read here; send %s.", "此处不接受 %q 类型的请求体，请发送 %s。", clip(given, 100), strings.Join(c.route.body.media, ", ")))
}

// fail answers with a fault, or cuts the connection where an answer has begun.
func (c *call) fail(err error) {
	e := fault.From(err)
	switch {
	case c.r.Context().Err() != nil: // the client left
	case c.route.path == "/readyz": // somebody polls; the answer says it
	case e.Reason == "CutOff": // the store says it, once
	case e.Code == fault.Internal:
		c.s.Log.Error("request failed", "method", c.r.Method, "route", c.route.path, "request", c.request, "error", err)
	case e.Code.HTTP() >= 500:
		c.s.Log.Warn("request failed", "method", c.r.Method, "route", c.route.path, "request", c.request, "error", err)
	}
	c.s.rememberRefusal(c, e)
	if c.started {
		panic(http.ErrAbortHandler)
	}
	c.refuse(e)
}

// recovered turns a panic into an answer; the process lives on.
func (c *call) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	c.s.Log.Error("panic in a handler", "route", c.route.path, "panic", p, "stack", string(debug.Stack()))
	if c.started {
		panic(http.ErrAbortHandler)
	}
	c.refuse(fault.New(fault.Internal, "Internal", fault.T("Something went wrong on our side.", "系统内部错误。")))
}

// readBody reads a whole body of at most limit bytes.
func (c *call) readBody(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	_ = c.rc.SetReadDeadline(time.Now().Add(c.s.Limits.Stall))
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	_ = c.rc.SetReadDeadline(time.Time{})
	return data, bodyFault(err, limit)
}

func bodyFault(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return bodyTooLarge(limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.New(fault.Timeout, "BodyTimeout", fault.T("The request's body did not arrive in time.", "请求体未能及时到达。")).Because(err)
	}
	var ours *fault.Error
	if errors.As(err, &ours) {
		return err
	}
	return fault.New(fault.Invalid, "BadBody", fault.T("The request's body could not be read.", "无法读取请求体。")).Because(err)
}

func bodyTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "BodyTooLarge", fault.T(
		"The request's body is larger than %d bytes.", "请求体超过 %d 字节。", limit))
}

// stalling gives every read of a long body its own deadline, so that a slow upload may take
// hours but a silent one may not.
type stalling struct {
	c *call
	r io.Reader
}

func (s stalling) Read(p []byte) (int, error) {
	_ = s.c.rc.SetReadDeadline(time.Now().Add(s.c.s.Limits.Stall))
	n, err := 0, s.c.wasCut()
	if err == nil {
		n, err = s.r.Read(p)
		_ = s.c.rc.SetReadDeadline(time.Time{})
	}
	if cut := s.c.wasCut(); cut != nil {
		// The deadline we moved may be the one that was to cut: net/http still reads what is left of
		// the body after us, and would wait for it.
		_ = s.c.rc.SetReadDeadline(time.Unix(1, 0))
		return n, cut
	}
	return n, err
}

// patient gives every write of a long answer its own deadline.
type patient struct{ c *call }

func (p patient) Header() http.Header { return p.c.w.Header() }
func (p patient) WriteHeader(status int) {
	p.c.started, p.c.status = true, status
	p.c.w.WriteHeader(status)
}

func (p patient) Write(b []byte) (int, error) {
	p.c.started = true
	if p.c.status == 0 {
		p.c.status = http.StatusOK
	}
	_ = p.c.rc.SetWriteDeadline(time.Now().Add(p.c.s.Limits.Stall))
	if err := p.c.wasCut(); err != nil {
		return 0, err
	}
	return p.c.w.Write(b)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "�")
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
