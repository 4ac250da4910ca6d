package gateway

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// direct is /inference/NAME/…: the rest of the path is the service's.
func (g *Gateway) direct(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, underPath), "/")
	s, who, err := g.admit(r, name)
	if err != nil {
		refuse(w, r, err)
		return
	}
	cut := underPath + name
	g.carry(w, r, s, who, s.target(strings.TrimPrefix(r.URL.Path, cut), strings.TrimPrefix(r.URL.RawPath, cut), r.URL.RawQuery))
}

// whole is a request that names its service beside its path: all of the path is the service's.
func (g *Gateway) whole(w http.ResponseWriter, r *http.Request, name string) {
	s, who, err := g.admit(r, name)
	if err != nil {
		refuse(w, r, err)
		return
	}
	g.carry(w, r, s, who, s.target(r.URL.Path, r.URL.RawPath, r.URL.RawQuery))
}

// target is what a replica is asked for: where the address alone is named, what the service says.
func (s *service) target(path, raw, query string) string {
	if path == "" || path == "/" {
		path, raw = cmp.Or(s.settings().Path, "/"), ""
	}
	u := url.URL{Path: path, RawPath: raw}
	out := u.EscapedPath()
	if query != "" {
		out += "?" + query
	}
	return out
}

// admit finds the service for who asks. What they may not see does not exist.
func (g *Gateway) admit(r *http.Request, name string) (*service, *pass, error) {
	who, err := g.present(r.Context(), r)
	if err != nil {
		return nil, nil, err
	}
	s := g.find(name)
	if s == nil {
		return nil, nil, noService(name)
	}
	ok, err := g.reaches(r.Context(), who, s.settings().Project)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, noService(name)
	}
	return s, who, nil
}

// carry takes a question to a replica and its answer back.
func (g *Gateway) carry(w http.ResponseWriter, r *http.Request, s *service, who *pass, to string) {
	begun := g.cfg.Clock.Now()
	spec := s.settings()
	m := g.meters.of(s)
	m.open.Inc()
	defer m.open.Dec()
	key, limit := who.token.Meta.Name, who.token.Spec.Limits
	if err := g.limits.take(key, limit, begun); err != nil {
		m.count(refuse(w, r, err)) // the key's own doing: no figure of the service
		return
	}
	end, replica := trade{s: s, key: key}, ""
	var q *question
	defer func() {
		m.count(end.code)
		now := g.cfg.Clock.Now()
		g.ledger.enter(&end, now)
		g.ledger.write(&end, r, q, replica, to, now)
	}()
	q, err := s.read(w, r, to)
	if err != nil {
		end.code = refuse(w, r, err)
		return
	}
	t := &trip{
		g: g, s: s, m: m, question: q, in: r, w: w, to: to, until: time.Now().Add(patience(r, spec.Timeout.Std())), framed: isFramed(spec.Protocol, r),
		want: want{on: trackOf(&spec.Road, r, who.user.Meta.Name), region: cmp.Or(r.Header.Get(regionHeader), g.cfg.Region)},
	}
	if t.prepare(spec) {
		end.code = http.StatusOK
		return
	}
	g.shadow(t)
	a, pinged, err := t.wait(r.Context())
	if err != nil {
		if r.Context().Err() != nil && fault.ReasonOf(err) != reasonBadBody { // a body that is too slow ends its request, too
			end.code = 499 // it left
			return
		}
		if pinged {
			end.code = lament(w, r, failure(err))
			return
		}
		end.code = refuse(w, r, failure(err))
		return
	}
	defer a.close()
	took := g.cfg.Clock.Now().Sub(begun)
	end.code, end.took, end.revision, replica = a.resp.StatusCode, took, a.r.revision, a.r.name
	m.first.Observe(took.Seconds())
	a.r.tally.answered(a.resp.StatusCode, took)
	defer func() {
		tokens := a.used.tokens()
		a.r.tally.tokens.Add(tokens)
		m.tokens.Add(float64(tokens))
		end.tokens, end.cut = tokens, a.cut
		g.limits.spend(key, limit, tokens, g.cfg.Clock.Now())
	}()
	a.pinged = pinged
	t.store(a)
	a.pass(w, r)
}

// regionHeader is where a request says that it comes from.
const regionHeader = "X-Fermi-Region"

// patience is how long a request waits for the first byte: the service's limit, or what the client says where that is less.
func patience(r *http.Request, limit time.Duration) time.Duration {
	if text := r.Header.Get("X-Request-Timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			if s, e := strconv.ParseFloat(text, 64); e == nil && s < 1e6 {
				d = time.Duration(s * float64(time.Second))
			}
		}
		if d > 0 {
			return min(d, limit)
		}
	}
	if text := r.Header.Get("Grpc-Timeout"); len(text) > 1 && len(text) < 10 {
		unit := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}[text[len(text)-1]]
		if n, err := strconv.ParseInt(text[:len(text)-1], 10, 64); err == nil && n > 0 && unit > 0 && n < int64(limit/unit) {
			return time.Duration(n) * unit
		}
	}
	return limit
}

// isOurs says that a header is the gateway's to set: what a service must not set at the console's origin.
func isOurs(name string) bool {
	switch name {
	case "Set-Cookie", "Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Referrer-Policy":
		return true // ours stand in the answer already
	}
	return false
}

// isPrivate says that a header of a question is not passed on: secrets of the caller, and what the gateway says itself.
func isPrivate(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "Cookie", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Forwarded":
		return true
	}
	return false
}

// forwarded is what the gateway says about who asks.
func forwarded(r *http.Request, s *service) [][2]string {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	proto := "http"
	if r.TLS != nil {
		proto = "https"
	}
	out := [][2]string{{"X-Forwarded-For", client}, {"X-Forwarded-Host", r.Host}, {"X-Forwarded-Proto", proto}, {"X-Forwarded-Prefix", underPath + s.name}}
	if !strings.HasPrefix(r.URL.Path, underPath) {
		return out[:3] // it has the whole host for itself
	}
	return out
}

var errTimeout = fault.New(fault.Timeout, "ServiceTimeout", fault.T("The service did not begin to answer in time.", "服务未在规定时间内开始应答。")).
	WithHint(fault.T("Its limit is spec.timeout.", "时限由 spec.timeout 设定。"))

// failure is what the caller is told.
func failure(err error) error {
	var ours *fault.Error
	if errors.As(err, &ours) {
		return ours
	}
	e := fault.New(fault.Unavailable, "ServiceBroke", fault.T("The service closed the connection before it answered.", "服务在应答前关闭了连接。")).Because(err)
	e.RetryAfter = time.Second
	return e
}

// late says that a replica did not begin to answer in time.
func late(err error) bool {
	var e net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout()
}
