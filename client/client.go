package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	base = "/api/v1"
	// maxAnswer bounds a JSON answer; the longest page of the longest objects stays below it.
	maxAnswer = 256 << 20
	// maxErrorAnswer bounds an error's body.
	maxErrorAnswer = 1 << 20
	// tries is how often a read is sent at most.
	tries     = 4
	firstWait = 100 * time.Millisecond
	longWait  = 3 * time.Second
	// sayAfter is how long nobody is told that an answer is waited for, and smallBody what is sent at once.
	sayAfter  = 2 * time.Second
	smallBody = 1 << 20
)

// Config says where the server is and who asks.
type Config struct {
	// Server is the base URL, such as http://127.0.0.1:7070; a bare host:port means http. Of several,
	// with commas between them, one is used until it fails; then the next one.
	Server string
	// Token is the bearer token; it appears in no error and no log.
	Token string
	// Language is sent as Accept-Language: "zh", "en" or anything starting with them.
	Language string
	// TLSFingerprint pins the server's certificate: its SHA-256 in hexadecimal, colons allowed.
	// Then nothing else about the certificate is looked at. Ignored where HTTP is given.
	TLSFingerprint string
	// HTTP is used for all calls; a private one with sensible limits when nil. Its Timeout must
	// be zero, because streams live long.
	HTTP      *http.Client
	UserAgent string
	// Waits is called, at most once, when a call has had no answer for two seconds; nil: nobody cares.
	Waits func(server string)
}

// Client talks to one cluster. Safe for concurrent use.
type Client struct {
	*wire
	objects
	tasks
	checkpoints
	operation
}

// wire carries calls to whichever server answers.
type wire struct {
	bases    []*url.URL
	current  atomic.Int32 // of bases
	token    string
	language string
	agent    string
	http     *http.Client
	waits    func(server string)
}

// The areas of the API: objects of any kind, tasks, their checkpoints, and what operators do.
type (
	objects     struct{ wire *wire }
	tasks       struct{ wire *wire }
	checkpoints struct{ wire *wire }
	operation   struct{ wire *wire }
)

// New checks the settings; it doesn't talk to the server.
func New(cfg Config) (*Client, error) {
	bases, err := parseServers(cfg.Server)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.Invalid, "BadToken", fault.T(
			"The token contains characters that no token has.", "令牌中含有非法字符。"))
	}
	c := &wire{bases: bases, token: cfg.Token, language: cfg.Language, agent: cfg.UserAgent, http: cfg.HTTP, waits: func(string) {}}
	if cfg.Waits != nil {
		once := sync.Once{}
		c.waits = func(server string) { once.Do(func() { cfg.Waits(server) }) }
	}
	if c.http == nil {
		transport := newTransport(len(bases))
		if cfg.TLSFingerprint != "" {
			if transport.TLSClientConfig, err = pinned(cfg.TLSFingerprint, bases[0].Scheme); err != nil {
				return nil, err
			}
		}
		c.http = &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if c.agent == "" {
		c.agent = "fermi-go"
	}
	return &Client{c, objects{c}, tasks{c}, checkpoints{c}, operation{c}}, nil
}

// Server is the address in use.
func (c *wire) Server() string { return c.base().String() }

// CloseIdle hangs up connections that wait for another call.
func (c *wire) CloseIdle() { c.http.CloseIdleConnections() }

func newTransport(servers int) *http.Transport {
	dial, answer := 10*time.Second, 2*time.Minute
	if servers > 1 { // there is somebody else to ask
		dial, answer = time.Second, 12*time.Second
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dial, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: answer,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   64,
	}
}

// request is one call. Body is nil or can be sent once.
type request struct {
	method string
	path   string // below base, escaped
	query  url.Values
	body   io.Reader
	length int64 // of body, when known
	typ    string
	header http.Header
}

// send makes one attempt. On success the caller closes the body; any status of 400 and above, and
// every failure to get an answer, is a *fault.Error.
func (c *wire) send(ctx context.Context, r request) (*http.Response, error) {
	at := c.current.Load()
	u := *c.bases[at]
	full := u.Path + base + r.path
	u.RawQuery = r.query.Encode()
	unescaped, err := url.PathUnescape(full)
	if err != nil {
		return nil, fault.From(err)
	}
	u.Path, u.RawPath = unescaped, full
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), r.body)
	if err != nil {
		return nil, fault.From(err)
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	if r.length > 0 {
		req.ContentLength = r.length
	}
	if r.typ != "" {
		req.Header.Set("Content-Type", r.typ)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.language != "" {
		req.Header.Set("Accept-Language", c.language)
	}
	req.Header.Set("User-Agent", c.agent)
	if r.body == nil || r.length > 0 && r.length <= smallBody { // what is long shows how far it is
		defer time.AfterFunc(sayAfter, func() { c.waits(u.Scheme + "://" + u.Host) }).Stop()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.moveOn(at)
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		err := c.refused(resp)
		if fault.Is(err, fault.Unavailable) {
			c.moveOn(at)
		}
		return nil, err
	}
	return resp, nil
}

// unreachable explains why no answer came.
func (c *wire) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	var wrong *fault.Error
	if errors.As(err, &wrong) && wrong.Reason == "WrongCertificate" {
		return wrong
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fault.New(fault.Forbidden, "UntrustedCertificate", fault.T(
			"The certificate of %s is signed by nobody this machine trusts.", "%s 的证书不受本机信任。", c.Server())).WithHint(fault.T(
			"If it is self-signed, compare the fingerprint that the server prints and give it with --tls-fingerprint or FERMI_TLS_FINGERPRINT.",
			"若为自签名证书，请核对服务器显示的指纹，并用 --tls-fingerprint 或 FERMI_TLS_FINGERPRINT 指定。")).Because(err)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fault.New(fault.Invalid, "PlainServer", fault.T("The server at %s speaks plain HTTP, not TLS.", "%s 处的服务器使用明文 HTTP，而非 TLS。", c.Server())).
			WithHint(fault.T("Use http:// in FERMI_SERVER or --server, or start the server with TLS.", "请在 FERMI_SERVER 或 --server 中使用 http://，或让服务器启用 TLS。")).Because(err)
	}
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		return fault.New(fault.Timeout, "NoAnswer", fault.T(
			"The server at %s did not answer in time.", "服务器 %s 未及时响应。", c.Server())).Because(err)
	}
	return fault.New(fault.Unavailable, ReasonUnreachable, fault.T(
		"No Fermi server answers at %s.", "无法连接位于 %s 的 Fermi 服务器。", c.Server())).
		WithHint(fault.T(
			"Start one with `fermi up`, or say where it is with FERMI_SERVER or --server.",
			"可用 `fermi up` 启动一个，或用 FERMI_SERVER、--server 指明地址。")).Because(err)
}

// ReasonUnreachable is the reason of the error when nobody answers at the address.
const ReasonUnreachable = "Unreachable"

// retry calls once, and again while that can help: for reads only. Where there are several servers
// each is asked once, without a pause and not for long, before the usual tries.
func (c *wire) retry(ctx context.Context, once func(context.Context) error) error {
	if len(c.bases) > 1 {
		for range c.bases {
			quick, cancel := context.WithTimeout(ctx, quickTry)
			err := once(quick)
			cancel()
			if err == nil || !fault.CodeOf(err).Retry() || ctx.Err() != nil {
				return err
			}
		}
	}
	for try := 1; ; try++ {
		err := once(ctx)
		if err == nil || try == tries || !fault.CodeOf(err).Retry() || ctx.Err() != nil {
			return err
		}
		if !pause(ctx, waitFor(try, err)) {
			return err
		}
	}
}

// waitFor grows with the number of failures, is at least what the server asked for (within
// reason), and jitters so that many clients don't come back at once.
func waitFor(failures int, err error) time.Duration {
	d := min(firstWait<<min(failures-1, 8), longWait)
	d = d/2 + rand.N(d/2+1)
	if e := fault.From(err); e != nil && e.RetryAfter > d {
		d = min(e.RetryAfter, 30*time.Second)
	}
	return d
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// read is a GET with retries whose data lands in out (nil: dropped).
func (c *wire) read(ctx context.Context, path string, query url.Values, out any) error {
	return c.retry(ctx, func(ctx context.Context) error {
		resp, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
		if err != nil {
			return err
		}
		return c.decode(ctx, resp, out)
	})
}

// write is one call that changes something. It is repeated, at another server, only when the first
// surely did nothing.
func (c *wire) write(ctx context.Context, method, path string, query url.Values, in, out any) error {
	r := request{method: method, path: path, query: query}
	var body []byte
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fault.From(err)
		}
		r.length, r.typ = int64(len(data)), "application/json"
		body = data
	}
	for try := 1; ; try++ {
		if body != nil {
			r.body = bytes.NewReader(body)
		}
		resp, err := c.send(ctx, r)
		if err != nil && try < len(c.bases) && didNothing(err) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		return c.decode(ctx, resp, out)
	}
}

// decode reads {code, message, data} and closes the body.
func (c *wire) decode(ctx context.Context, resp *http.Response, out any) error {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if len(data) > maxAnswer {
		return notFermi(c.Server(), fmt.Errorf("answer over %d bytes", maxAnswer))
	}
	if len(data) == 0 && out == nil {
		return nil
	}
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return notFermi(c.Server(), err)
	}
	if out == nil || len(answer.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return notFermi(c.Server(), err)
	}
	return nil
}

func notFermi(server string, err error) error {
	return fault.New(fault.Internal, "BadAnswer", fault.T(
		"The answer of %s is not one of a Fermi server this version understands.",
		"%s 的响应不是本版本可识别的 Fermi 响应。", server)).Because(err)
}

// refused rebuilds the server's error. Answers that aren't ours (a proxy's page) get a plain one.
func (c *wire) refused(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorAnswer))
	if resp.StatusCode == http.StatusBadRequest && bytes.Contains(data, []byte("HTTP request to an HTTPS server")) { // the words of Go's server
		return fault.New(fault.Invalid, "TLSServer", fault.T("The server at %s speaks TLS, not plain HTTP.", "%s 处的服务器使用 TLS，而非明文 HTTP。", c.Server())).
			WithHint(fault.T("Use https:// in FERMI_SERVER or --server; for a self-signed certificate give its fingerprint with --tls-fingerprint or FERMI_TLS_FINGERPRINT too.",
				"请在 FERMI_SERVER 或 --server 中使用 https://；自签名证书还需用 --tls-fingerprint 或 FERMI_TLS_FINGERPRINT 指定指纹。"))
	}
	e := errorFromAnswer(resp.StatusCode, data)
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 86400 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// errorFromAnswer never fails: bytes it can't read become a general sentence about the status.
func errorFromAnswer(status int, data []byte) *fault.Error {
	var answer struct {
		Reason  string `json:"reason"`
		Message Text   `json:"message"`
		Hint    Text   `json:"hint"`
		Fields  []struct {
			Path    string `json:"path"`
			Message Text   `json:"message"`
		} `json:"fields"`
	}
	code := codeOfStatus(status)
	if err := json.Unmarshal(data, &answer); err != nil || (answer.Reason == "" && answer.Message.IsZero()) {
		return fault.New(code, "HTTP"+strconv.Itoa(status), fault.T(
			"The server answered with status %d (%s).", "服务器返回状态 %d（%s）。", status, http.StatusText(status)))
	}
	e := fault.New(code, answer.Reason, fault.Text(answer.Message)).WithHint(fault.Text(answer.Hint))
	for _, f := range answer.Fields {
		e.Fields = append(e.Fields, fault.Field{Path: f.Path, Message: fault.Text(f.Message)})
	}
	return e
}

func codeOfStatus(status int) fault.Code {
	switch status {
	case http.StatusUnprocessableEntity, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return fault.Invalid
	case http.StatusBadGateway:
		return fault.Unavailable
	case http.StatusRequestTimeout:
		return fault.Timeout
	case http.StatusGone:
		return fault.NotFound
	case http.StatusPreconditionFailed:
		return fault.Conflict
	}
	return fault.CodeOfHTTP(status)
}

// Text is a sentence in an answer: a plain string in the language asked for, or {"en","zh"}.
type Text fault.Text

// UnmarshalJSON takes both forms.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = Text{EN: s, ZH: s}
		return nil
	}
	return json.Unmarshal(data, (*fault.Text)(t))
}

// In picks the language.
func (t Text) In(lang string) string { return fault.Text(t).In(lang) }

// IsZero says that nothing was written.
func (t Text) IsZero() bool { return fault.Text(t).IsZero() }
