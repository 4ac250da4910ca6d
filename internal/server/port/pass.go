package port

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

var errEnd = io.EOF

const (
	// codeFor is how long the address that lets a browser in waits.
	codeFor = time.Minute
	// cookieFor is how long a browser is let in; the session or token that it came from may end before.
	cookieFor = 12 * time.Hour

	enterPath = "/.fermi/enter"
	maxCode   = 4 << 10

	contextCode   = "code of a port"
	contextCookie = "cookie of a port"
	contextLink   = "link to a port"
)

// pass is what a code or a cookie says, sealed.
type pass struct {
	Token   string    `json:"t,omitempty"` // the name of the token or session that made it
	TokenID string    `json:"i,omitempty"`
	Link    string    `json:"l,omitempty"` // in their place: the link by which it came
	Env     string    `json:"e"`           // the environment's id
	Port    int       `json:"p"`
	Ends    time.Time `json:"x"`
}

// cookieName: __Host- makes browsers keep it to this very host, over HTTPS.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-fermi_port"
	}
	return "fermi_port"
}

// isOurs says that a cookie is Fermi's, whatever the port.
func isOurs(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "__Host-"), "__Secure-"), "fermi_")
}

var errPass = fault.New(fault.Unauthenticated, "NotLetIn", fault.T("You are not signed in to this page, or it was too long ago.", "尚未登录该页面，或登录已过期。")).WithHint(
	fault.T("Open it from the console, or with fermi env open NAME PORT.", "请从控制台打开，或运行 fermi env open 环境 端口。"))

// read opens a code or a cookie for a port.
func (p *Ports) read(sealed, what string, e *devenv.DevEnvironment, port int) (pass, error) {
	if p.Box == nil || sealed == "" || len(sealed) > maxCode {
		return pass{}, errPass
	}
	text, err := p.Box.Open(sealed, what)
	if err != nil {
		return pass{}, errPass
	}
	var out pass
	if json.Unmarshal([]byte(text), &out) != nil || out.Env != e.Meta.ID || out.Port != port || !out.Ends.After(p.Clock.Now()) {
		return pass{}, errPass
	}
	return out, nil
}

// visitor is who asks for a page: a user, or whoever has a link.
type visitor struct {
	*access.Caller        // nil: nobody that is known
	link           string // by which they came
}

// payer is whose limits a request counts against.
func (v visitor) payer(e *devenv.DevEnvironment) string {
	if v.Caller == nil {
		return "link to " + e.Meta.ID
	}
	return v.Payer()
}

// may refuses who may not be at a port of an environment. What one may not see does not exist.
func (v visitor) may(ctx context.Context, p *Ports, e *devenv.DevEnvironment, port int) error {
	if v.Caller == nil {
		_, err := p.linked(ctx, e, v.link, port)
		return err
	}
	if ok, err := p.Rooms.Finder.Judge.MayRead(ctx, v.Caller, e); err != nil || !ok {
		return errors.Join(err, refuse.Missing(devenv.Row, e.Meta.Name))
	}
	return p.Rooms.May(ctx, v.Caller, e)
}

// linked is a link that lets somebody in: it has not ended, and who made it may still be there.
func (p *Ports) linked(ctx context.Context, e *devenv.DevEnvironment, link string, port int) (*devenv.Link, error) {
	l := e.LinkNow(link, port, p.Clock.Now())
	if l == nil {
		return nil, errLink
	}
	maker, err := p.Door.For(ctx, l.By, e.Meta.Project, l.ID)
	if err == nil {
		err = p.Rooms.May(ctx, maker, e)
	}
	if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) {
		return nil, errLink
	}
	return l, err
}

var errLink = fault.New(fault.Unauthenticated, "LinkEnded", fault.T("This link has ended, or was taken back.", "该链接已过期或已撤销。")).WithHint(
	fault.T("Ask who gave it to you for another.", "请向提供者索取新的链接。"))

// who is the caller of a request to a port, and what of it must go no further is taken off.
func (p *Ports) who(ctx context.Context, r *http.Request, e *devenv.DevEnvironment, port int, cookies bool) (v visitor, err error) {
	if secret, ok := ourToken(r.Header.Get("Authorization")); ok {
		r.Header.Del("Authorization")
		v.Caller, err = p.Door.Bearer(ctx, secret)
		return v, err
	}
	if !cookies {
		return v, errPass
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return v, errPass
	}
	in, err := p.read(c.Value, contextCookie, e, port)
	if err != nil {
		return v, err
	}
	if in.Link != "" {
		return visitor{link: in.Link}, nil
	}
	v.Caller, err = p.Door.Again(ctx, in.Token, in.TokenID)
	return v, err
}

// ourToken is a token of Fermi in a header that may be the application's own.
func ourToken(header string) (string, bool) {
	scheme, secret, ok := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	return secret, ok && strings.EqualFold(scheme, "Bearer") && (strings.HasPrefix(secret, "fermi_") || strings.HasPrefix(secret, "fermireplica_"))
}

// spent are codes that were used, until they have ended anyway.
type spent struct {
	mu sync.Mutex
	by map[[32]byte]time.Time
}

// use is false for a code that was used before.
func (s *spent) use(code string, ends, now time.Time) bool {
	sum := sha256.Sum256([]byte(code))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[[32]byte]time.Time{}
	}
	for k, at := range s.by {
		if at.Before(now) {
			delete(s.by, k)
		}
	}
	if _, was := s.by[sum]; was {
		return false
	}
	s.by[sum] = ends
	return true
}

// enterScript takes the code out of the address, where it could be kept, and has it exchanged for a cookie.
const enterScript = `const code=location.hash.slice(1);history.replaceState(null,"",location.pathname);` +
	`fetch(location.pathname,{method:"POST",headers:{"Content-Type":"text/plain"},body:code})` +
	`.then(r=>r.ok?location.replace("/"):r.text().then(t=>{document.body.textContent=t}));`

const enterPage = `<!doctype html><html><head><meta charset="utf-8"><title>Fermi</title></head><body><p>…</p><script>` + enterScript + `</script></body></html>`

var enterPolicy = func() string {
	sum := sha256.Sum256([]byte(enterScript))
	return "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// enter exchanges a code for a cookie.
func (p *Ports) enter(w http.ResponseWriter, r *http.Request, e *devenv.DevEnvironment, port int) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", enterPolicy)
	if r.Method != http.MethodPost {
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, enterPage)
		return nil
	}
	code, err := io.ReadAll(io.LimitReader(r.Body, maxCode+1))
	if err != nil {
		return err
	}
	in, lasts, err := p.letIn(r, string(code), e, port)
	if err != nil {
		return err
	}
	in.Ends = p.Clock.Now().UTC().Add(lasts)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: p.Box.Seal(in.text(), contextCookie), Path: "/", MaxAge: int(lasts / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode,
	})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// letIn takes a code, which works once, or a link, which works until its end; and says for how long a browser is let in.
func (p *Ports) letIn(r *http.Request, code string, e *devenv.DevEnvironment, port int) (in pass, lasts time.Duration, err error) {
	if in, err = p.read(code, contextLink, e, port); err == nil {
		l, err := p.linked(r.Context(), e, in.Link, port)
		if err != nil {
			return in, 0, err
		}
		remember(r, p.Rooms.Auditor, e, l)
		return in, min(cookieFor, l.EndsAt.Sub(p.Clock.Now())), nil
	}
	if in, err = p.read(code, contextCode, e, port); err != nil {
		return in, 0, err
	}
	if !p.spent.use(code, in.Ends, p.Clock.Now()) {
		return in, 0, errPass
	}
	v := visitor{}
	if v.Caller, err = p.Door.Again(r.Context(), in.Token, in.TokenID); err == nil {
		err = p.Rooms.May(r.Context(), v.Caller, e)
	}
	return in, cookieFor, err
}
