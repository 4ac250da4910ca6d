package port

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// ServeHost answers on a content host.
func (p *Ports) ServeHost(w http.ResponseWriter, r *http.Request, t Target) {
	e, err := p.target(r.Context(), t)
	if err == nil && r.URL.Path == enterPath {
		err = p.enter(w, r, e, t.Port)
	} else {
		err = p.pass(w, r, e, t, r.URL.Path, true, err)
	}
	if err != nil {
		p.refuse(w, r, err)
	}
}

// ServePath answers programs, which send a token: never a browser's cookie, because the page would have the console's origin.
func (p *Ports) ServePath(w http.ResponseWriter, r *http.Request) {
	t, rest, ok := ofPath(r.URL.Path)
	if !ok {
		p.refuse(w, r, fault.New(fault.NotFound, "UnknownRoute", fault.T("There is nothing at %s.", "%s 不存在。", refuse.Clip(r.URL.Path, 200))).WithHint(
			fault.T("A port of an environment is /env/PROJECT/NAME/PORT/.", "环境端口的地址为 /env/项目/环境/端口/。")))
		return
	}
	e, err := p.target(r.Context(), t)
	if err := p.pass(w, r, e, t, rest, false, err); err != nil {
		p.refuse(w, r, err)
	}
}

// target finds an environment. Who asks is not known yet: what is missing is told only to who may enter something.
func (p *Ports) target(ctx context.Context, t Target) (*devenv.DevEnvironment, error) {
	var o api.Object
	var err error
	if t.ID != "" {
		o, err = p.Rooms.Finder.Truth.GetByID(ctx, devenv.Kind, t.ID, 0)
	} else {
		o, err = p.Rooms.Finder.Truth.Find(ctx, api.Key{Kind: devenv.Kind, Project: t.Project, Name: t.Name}, 0)
	}
	if err != nil {
		return nil, err
	}
	return o.(*devenv.DevEnvironment), nil
}

// pass checks the caller and passes a request on; found is why there is no environment.
func (p *Ports) pass(w http.ResponseWriter, r *http.Request, e *devenv.DevEnvironment, t Target, path string, host bool, found error) error {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	if e == nil {
		e = &devenv.DevEnvironment{} // nobody has a pass for it
	}
	who, err := p.who(r.Context(), r, e, t.Port, host)
	if err != nil {
		if fault.Is(err, fault.Unauthenticated) && !p.takeRefusal(ip) {
			return refuse.TooMany("TooManyRefusals", time.Second, fault.T("Too many bad tokens from this address.", "来自该地址的无效令牌过多。"))
		}
		return err
	}
	missing := refuse.Missing(devenv.Row, t.Name+t.ID)
	switch {
	case fault.Is(found, fault.NotFound):
		return missing
	case found != nil:
		return found
	}
	if err := who.may(r.Context(), p, e, t.Port); err != nil {
		return err
	}
	if err := declared(e, t.Port); err != nil {
		return err
	}
	// A page of another origin must not use the cookie: WebSockets and what changes something say where they come from.
	if host && isForeign(r) {
		return fault.New(fault.Forbidden, "BadOrigin", fault.T("The request comes from a page of another origin.", "请求来自其他来源的页面。"))
	}
	return p.proxy.carry(w, r, request{ports: p, env: e, who: who, port: t.Port, path: path, host: host})
}

// takeRefusal counts a refusal; false: there were too many.
func (p *Ports) takeRefusal(ip string) bool {
	ok, _ := p.Counts.Refused.Take(limit.Neighbourhood(ip))
	return ok
}

// isForeign says that a page of another host made a browser send this. A link to follow is fine; what a page of somebody else's loads or frames is not,
// also where both hosts are below one domain, so that browsers send the cookie along.
func isForeign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // of old browsers and programs nothing is known
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// refuse answers in words, in both languages where nobody knows which.
func (p *Ports) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := fault.From(err)
	lang := rest.Language(r.Header.Get("Accept-Language"))
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Fermi-Reason", e.Reason)
	w.WriteHeader(e.Code.HTTP())
	_, _ = w.Write([]byte(strings.TrimSpace(e.Message.In(lang)+" "+e.Hint.In(lang)) + "\n"))
}

// request is one that is passed on.
type request struct {
	ports *Ports
	env   *devenv.DevEnvironment
	who   visitor
	port  int
	path  string
	host  bool // it came to a content host
	line  func(context.Context) (talk.Stream, func(), error)
	key   string // of connections that may be used for it
	token string // of the notebook
}

type requestKey struct{}

// proxy passes requests on.
type proxy struct {
	transport *http.Transport
	reverse   *httputil.ReverseProxy
}

func newProxy(p *Ports) *proxy {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			r := ctx.Value(requestKey{}).(*request)
			return talk.Dial(ctx, r.line, "localhost", r.port)
		},
		MaxIdleConnsPerHost: 16, MaxIdleConns: 1024, MaxConnsPerHost: 256, IdleConnTimeout: 30 * time.Second, DisableCompression: true, ExpectContinueTimeout: time.Second,
		WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
	}
	return &proxy{transport: t, reverse: &httputil.ReverseProxy{
		Transport: t, FlushInterval: -1, Rewrite: rewrite, ModifyResponse: tame,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil && context.Cause(r.Context()) == nil {
				return // the client left
			}
			to := r.Context().Value(requestKey{}).(*request)
			p.refuse(w, r, to.explain(err))
		},
	}}
}

// carry passes one request on; it is cut when its caller's right ends.
func (x *proxy) carry(w http.ResponseWriter, r *http.Request, to request) error {
	payer := to.who.payer(to.env)
	if !to.ports.Counts.Pages.Open(payer) {
		return refuse.TooMany("TooManyRequests", time.Second, fault.T("You have %d requests to environments open already.", "您同时打开的环境请求已达 %d 个。", to.ports.Limits.Pages))
	}
	defer to.ports.Counts.Pages.Close(payer)
	replica, line, err := to.ports.line(r.Context(), to.env)
	if err != nil {
		return err
	}
	to.line, to.key = line, string(replica)
	if to.env.IsNotebook() && to.port == devenv.NotebookPort {
		if to.token, err = to.ports.notebook(r.Context(), replica, line); err != nil {
			return to.explain(err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), requestKey{}, &to))
	defer cancel(nil)
	go to.watch(ctx, cancel)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // streams last
	x.reverse.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// watch cuts a request whose caller may not be there any more.
func (to *request) watch(ctx context.Context, cut context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-to.ports.Clock.After(to.ports.Limits.Recheck):
		}
		err := to.who.still(ctx, to.ports, to.env, to.port)
		if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) {
			cut(err)
			return
		}
	}
}

// notebook is what Jupyter in a replica asks for; the launcher knows.
func (p *Ports) notebook(ctx context.Context, replica engine.Name, line func(context.Context) (talk.Stream, func(), error)) (string, error) {
	if known, ok := p.secrets.Load(replica); ok {
		return known.(string), nil
	}
	c, err := talk.Dial(ctx, line, "localhost", devenv.NotebookPort)
	if err != nil {
		return "", err
	}
	_ = c.Close()
	p.secrets.Range(func(old, _ any) bool { // of earlier attempts: few are ever kept
		if n, _ := old.(engine.Name); strings.HasPrefix(string(n), replicaStem(replica)) {
			p.secrets.Delete(old)
		}
		return true
	})
	p.secrets.Store(replica, c.Secret)
	return c.Secret, nil
}

// replicaStem is what all attempts of a replica have in common.
func replicaStem(n engine.Name) string {
	if i := strings.LastIndexByte(string(n), '-'); i > 0 {
		return string(n)[:i+1]
	}
	return string(n)
}

// explain says what a failed connection means.
func (to *request) explain(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return fault.New(fault.Unavailable, "BadAnswer", fault.T("What listens on port %d broke off, or speaks no HTTP.", "端口 %d 上的程序中断了连接，或不支持 HTTP。", to.port)).Because(err)
	}
	if e.Reason == "NobodyListens" && to.env.IsNotebook() && to.port == devenv.NotebookPort {
		return e.WithHint(fault.T("Jupyter starts within seconds where it is installed; if it is not: fermi env shell %s -- pip install --user jupyterlab, then stop and start the environment.",
			"如已安装，Jupyter 会在数秒内启动；若未安装：fermi env shell %s -- pip install --user jupyterlab，然后停止并重新启动环境。", to.env.Meta.Name))
	}
	if e.Reason == "NobodyListens" && to.env.Spec.VSCode && to.port == devenv.VSCodePort {
		return e.WithHint(fault.T("VS Code is there after a start, on nodes whose operator has installed it (fermi tools install vscode); the log of the environment says what is missing: fermi env logs %s.",
			"VS Code 在启动环境后可用，且需管理员已在节点上安装（fermi tools install vscode）；缺少什么请查看环境日志：fermi env logs %s。", to.env.Meta.Name))
	}
	return e
}

// ourHeaders never reach a tenant's program.
var ourHeaders = []string{"Fermi-Request", "Fermi-Revision", "Fermi-Reason", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// rewrite makes the request that the tenant's program sees.
func rewrite(r *httputil.ProxyRequest) {
	to := r.In.Context().Value(requestKey{}).(*request)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", to.key+":"+strconv.Itoa(to.port)
	if !to.host {
		raw := r.In.URL.EscapedPath()
		for range 4 { // of /env/PROJECT/NAME/PORT, none of which needs an escape
			if i := strings.IndexByte(raw[1:], '/'); i >= 0 {
				raw = raw[1+i:]
			}
		}
		r.Out.URL.Path, r.Out.URL.RawPath = to.path, raw
	}
	r.Out.Host = r.In.Host
	for _, name := range ourHeaders {
		r.Out.Header.Del(name)
	}
	proto := "http"
	if r.In.TLS != nil {
		proto = "https"
	}
	r.Out.Header.Set("X-Forwarded-Host", r.In.Host)
	r.Out.Header.Set("X-Forwarded-Proto", proto)
	if !to.host {
		r.Out.Header.Set("X-Forwarded-Prefix", strings.TrimSuffix(pathOf(to.env, to.port), "/"))
	}
	cookies := r.In.Cookies()
	r.Out.Header.Del("Cookie")
	for _, c := range cookies {
		if to.host && !isOurs(c.Name) {
			r.Out.AddCookie(c)
		}
	}
	if to.token != "" {
		r.Out.Header.Set("Authorization", "token "+to.token)
	}
}

// unwanted are headers by which a tenant's program could change more than its own host.
var unwanted = []string{"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins", "Fermi-Reason", "Fermi-Request", "Fermi-Revision"}

// sandbox is the policy of the path of programs: a page there has an origin of its own, that of nobody.
const sandbox = "sandbox allow-scripts allow-forms allow-popups allow-downloads"

// tame takes from an answer what must not reach a browser.
func tame(r *http.Response) error {
	to := r.Request.Context().Value(requestKey{}).(*request)
	for _, name := range unwanted {
		r.Header.Del(name)
	}
	cookies := r.Cookies()
	r.Header.Del("Set-Cookie")
	if !to.host { // they would be the console's
		r.Header.Del("Service-Worker-Allowed")
		r.Header.Set("Content-Security-Policy", sandbox)
		r.Header.Set("X-Content-Type-Options", "nosniff")
		return nil
	}
	for _, c := range cookies {
		if !isOurs(c.Name) {
			c.Domain = "" // its own host's alone
			r.Header.Add("Set-Cookie", c.String())
		}
	}
	return nil
}
