package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

const (
	// keepBody is how much of a question is kept, so that it can be asked again, and how long its client may take to send it.
	keepBody = 64 << 10
	bodyIn   = 30 * time.Second
	// keepAnswer is how large an answer is held back until it is whole, so that one that is cut can be asked for again.
	keepAnswer = 64 << 10
	// tries is how often an idempotent question is asked where replicas fail after they got it.
	tries = 4
	// again is the pause before a replica is dialled once more where there is no other.
	again = 50 * time.Millisecond
)

// direct is /inference/NAME/…: the rest of the path is the service's.
func (g *Gateway) direct(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
	s, err := g.admit(r, name)
	if err != nil {
		refuse(w, r, err)
		return
	}
	out := new(url.URL)
	*out = *r.URL
	cut := prefix + name
	out.Path = strings.TrimPrefix(r.URL.Path, cut)
	out.RawPath = strings.TrimPrefix(r.URL.RawPath, cut)
	if out.Path == "" {
		out.Path = "/"
	}
	g.carry(w, r, s, out)
}

// admit finds the service for who asks. What they may not see does not exist.
func (g *Gateway) admit(r *http.Request, name string) (*service, error) {
	who, err := g.present(r.Context(), r)
	if err != nil {
		return nil, err
	}
	s := g.find(name)
	if s == nil {
		return nil, noService(name)
	}
	ok, err := g.reaches(r.Context(), who, s.settings().Project)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noService(name)
	}
	return s, nil
}

// carry takes a question to a replica and its answer back.
func (g *Gateway) carry(w http.ResponseWriter, r *http.Request, s *service, to *url.URL) {
	begun := g.cfg.Clock.Now()
	spec := s.settings()
	m := g.meters.of(s.name)
	m.open.Inc()
	defer m.open.Dec()
	question, err := read(w, r)
	if err != nil {
		m.count(refuse(w, r, err))
		return
	}
	client := r.Context()
	ctx, cancel := context.WithCancelCause(client)
	defer cancel(nil)
	// The time is for the first byte of the answer: what has begun is never cut.
	limit := time.AfterFunc(spec.Timeout.Std(), func() { cancel(errTimeout) })
	defer limit.Stop()
	trip := &trip{g: g, s: s, m: m, question: question, protocol: spec.Protocol}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.Path, p.Out.URL.RawPath, p.Out.URL.RawQuery = "http", s.name, to.Path, to.RawPath, to.RawQuery
			p.Out.Host = p.In.Host
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Prefix", prefix+s.name)
			for _, secret := range []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"} {
				p.Out.Header.Del(secret)
			}
		},
		Transport:     trip,
		FlushInterval: -1, // every chunk, at once
		BufferPool:    &buffers,
		ModifyResponse: func(resp *http.Response) error {
			limit.Stop()
			m.count(resp.StatusCode)
			m.first.Observe(g.cfg.Clock.Now().Sub(begun).Seconds())
			clean(resp.Header)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if client.Err() != nil {
				m.count(499) // it left
				return
			}
			m.count(refuse(w, r, failure(ctx, err)))
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// clean removes what a service must not set at the console's origin.
func clean(h http.Header) {
	for _, name := range []string{"Set-Cookie", "Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Referrer-Policy"} {
		h.Del(name) // ours stand in the answer already
	}
}

var errTimeout = fault.New(fault.Timeout, "ServiceTimeout", fault.T("The service did not begin to answer in time.", "服务未在规定时间内开始应答。")).
	WithHint(fault.T("Its limit is spec.timeout.", "时限由 spec.timeout 设定。"))

// failure is what the caller is told.
func failure(ctx context.Context, err error) error {
	var ours *fault.Error
	if errors.As(err, &ours) || errors.As(context.Cause(ctx), &ours) {
		return ours
	}
	e := fault.New(fault.Unavailable, "ServiceBroke", fault.T("The service closed the connection before it answered.", "服务在应答前关闭了连接。")).Because(err)
	e.RetryAfter = time.Second
	return e
}

// question is what the client asks, as far as it may be asked again.
type question struct {
	body []byte // all of it; nil: none, or not kept
	kept bool   // it can be asked again
	safe bool   // asking twice is the same as asking once
}

// read takes in a small body whole before a replica is asked for: a slow client keeps none busy.
func read(w http.ResponseWriter, r *http.Request) (*question, error) {
	q := &question{safe: idempotent(r)}
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		q.kept = true
	case r.ContentLength > 0 && r.ContentLength <= keepBody:
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(bodyIn))
		body, err := io.ReadAll(io.LimitReader(r.Body, keepBody+1))
		_ = control.SetReadDeadline(time.Time{})
		if err != nil {
			return nil, fault.New(fault.Invalid, "BadBody", fault.T("The body did not come whole.", "请求体不完整。")).Because(err)
		}
		q.body, q.kept = body, true
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return q, nil
}

// idempotent is RFC 9110's, or the client's word.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// trip is one question on its way: it finds a replica, and another one where that is safe.
type trip struct {
	g        *Gateway
	s        *service
	m        *serviceMeters
	question *question
	protocol serving.Protocol
}

// RoundTrip asks replicas until one answers, as long as asking again is safe.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.g.plain
	if t.protocol == serving.GRPC || strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc") {
		base = t.g.framed
	}
	body := &kept{ReadCloser: req.Body}
	var met []*replica
	for asked := 0; ; {
		r, err := t.s.acquire(req.Context(), met)
		if err != nil {
			return nil, err
		}
		resp, err := t.ask(base, req, r, body)
		if err == nil {
			return resp, nil
		}
		t.s.release(r)
		if req.Context().Err() != nil {
			return nil, err
		}
		t.s.failed(r)
		unsent := isDial(err) && !body.touched
		if !unsent {
			asked++
		}
		if !unsent && !(t.question.safe && t.question.kept && asked < tries) {
			return nil, err
		}
		t.m.retries.Inc()
		if met = append(met, r); t.s.onlyMet(met) {
			met = met[:0]
			select { // there is no other: it may come back, or another may come
			case <-req.Context().Done():
				return nil, err
			case <-t.g.cfg.Clock.After(again):
			}
		}
	}
}

// onlyMet says that there is no replica that the question has not met.
func (s *service) onlyMet(met []*replica) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		if !contains(met, r) {
			return false
		}
	}
	return true
}

// ask asks one replica. Its answer gives the replica back when it ends.
func (t *trip) ask(base *http.Transport, req *http.Request, r *replica, body *kept) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Host = r.address
	switch {
	case t.question.body != nil:
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(t.question.body)), int64(len(t.question.body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.question.body)), nil }
	case t.question.kept:
		out.Body, out.ContentLength = nil, 0
	default:
		out.Body = body
	}
	resp, err := base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if t.question.safe && resp.StatusCode != http.StatusSwitchingProtocols && req.Method != http.MethodHead && resp.ContentLength > 0 && resp.ContentLength <= keepAnswer {
		whole, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(whole))
	}
	t.s.answered(r)
	resp.Body = t.giveBack(resp.Body, r)
	return resp, nil
}

// giveBack has the replica given back once, with the end of the answer.
func (t *trip) giveBack(body io.ReadCloser, r *replica) io.ReadCloser {
	e := ending{ReadCloser: body, end: func() { t.s.release(r) }, cut: t.m.cut}
	if w, ok := body.(io.Writer); ok { // of a connection that was upgraded
		return &duplex{ending: e, Writer: w}
	}
	return &e
}

// ending hears the end of an answer.
type ending struct {
	io.ReadCloser
	end  func()
	cut  interface{ Inc() }
	done bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) && !e.done {
		e.cut.Inc()
	}
	return n, err
}

func (e *ending) Close() error {
	if !e.done {
		e.done = true
		e.end()
	}
	return e.ReadCloser.Close()
}

type duplex struct {
	ending
	io.Writer
}

// kept is a body that is passed on: whoever asks closes nothing, and it is known whether anything was read.
type kept struct {
	io.ReadCloser
	touched bool
}

func (k *kept) Read(p []byte) (int, error) {
	k.touched = true
	return k.ReadCloser.Read(p)
}

func (*kept) Close() error { return nil } // the server does

// isDial says that nothing was sent: there was no connection.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
