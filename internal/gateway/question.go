package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway/contract"
)

const (
	// keepBody is how much of a question is kept, so that it can be asked again, and how long its client may take to send it.
	keepBody = 64 << 10
	bodyIn   = 30 * time.Second
)

// question is what the client asks, as far as it may be asked again.
type question struct {
	body []byte // all of it; nil: none, or not kept
	kept bool   // it can be asked again
	safe bool   // asking twice is the same as asking once
	keep bool   // its answer may be given again
}

// inMemory is a body that was read already.
type inMemory struct {
	*bytes.Reader
	all []byte
}

// Close has nothing to do.
func (*inMemory) Close() error { return nil }

// read takes in a small body whole before a replica is asked for: a slow client keeps none busy. So it does one that the service's
// contract speaks of, which it must keep.
func (s *service) read(w http.ResponseWriter, r *http.Request, to string) (*question, error) {
	c := s.contract.Load()
	if c == nil || !c.Checks(r.Method, to) {
		return read(w, r)
	}
	var body []byte
	if known, _ := r.Body.(*inMemory); known != nil {
		body = known.all
	} else if r.Body != nil {
		control := http.NewResponseController(w)
		var err error
		if body, err = io.ReadAll(&paced{Reader: http.MaxBytesReader(w, r.Body, contract.Most), set: control.SetReadDeadline, begun: time.Now()}); err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return nil, fault.New(fault.Invalid, "TooLarge", fault.T("Questions to this service are checked, and have at most %d bytes.", "该服务会检查请求体，请求体最多 %d 字节。", contract.Most))
			}
			return nil, notWhole(err)
		}
	}
	if bad := c.Check(to, r.Header, body); bad != nil {
		what := bad.Message
		if bad.Path != "" {
			what = fault.Text{EN: bad.Path + ": " + what.EN, ZH: bad.Path + "：" + what.ZH}
		}
		return nil, fault.New(fault.Invalid, "BadQuestion", what).WithFields(*bad).
			WithHint(fault.T("What it is asked has a form: spec.format and spec.schema of the service.", "该服务规定了请求格式，见 spec.format 与 spec.schema。"))
	}
	return &question{body: body, kept: true, safe: idempotent(r)}, nil
}

// read takes in a small body.
func read(w http.ResponseWriter, r *http.Request) (*question, error) {
	q := &question{safe: idempotent(r)}
	known, _ := r.Body.(*inMemory)
	switch {
	case known != nil:
		q.body, q.kept = known.all, true
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		q.kept = true
	case r.ContentLength > 0 && r.ContentLength <= keepBody:
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(bodyIn))
		q.body = make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, q.body)
		_ = control.SetReadDeadline(time.Time{})
		if err != nil {
			return nil, notWhole(err)
		}
		q.kept = true
	}
	return q, nil
}

// reasonBadBody is why a question is refused that did not come.
const reasonBadBody = "BadBody"

func notWhole(err error) error {
	return fault.New(fault.Invalid, reasonBadBody, fault.T("The body did not come whole, or came too slowly.", "请求体不完整，或发送过慢。")).Because(err)
}

// idempotent is RFC 9110's, or the client's word.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// isFramed says that a question goes by HTTP/2.
func isFramed(p serving.Protocol, r *http.Request) bool {
	return p == serving.GRPC || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// upgrade is the protocol that a client wants instead; "": none.
func upgrade(r *http.Request) string {
	if r.ProtoMajor != 1 || len(r.Header["Upgrade"]) == 0 {
		return ""
	}
	for _, list := range r.Header["Connection"] {
		for part := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(part), "upgrade") {
				return r.Header.Get("Upgrade")
			}
		}
	}
	return ""
}

// slowest is how many bytes a second a body must bring at least once bodyIn is over.
const slowest = 1 << 10

// paced is a body that does not come for ever: who holds a replica sends.
type paced struct {
	io.Reader
	set   func(time.Time) error
	begun time.Time
	got   int64
	due   atomic.Int64 // when the next piece must have come, in nanoseconds; 0: none has to
}

// unhurried bounds how slowly a body may come that is passed on as it comes.
func unhurried(w http.ResponseWriter, body io.Reader) *paced {
	return &paced{Reader: body, set: http.NewResponseController(w).SetReadDeadline, begun: time.Now()}
}

func (p *paced) Read(b []byte) (int, error) {
	due := p.begun.Add(bodyIn + time.Duration(p.got)*time.Second/slowest)
	p.due.Store(due.UnixNano())
	_ = p.set(due)
	n, err := p.Reader.Read(b)
	p.got += int64(n)
	if err != nil {
		_ = p.set(time.Time{})
	}
	if err == nil || err == io.EOF {
		p.due.Store(0)
	}
	return n, err
}

// late says that a piece did not come in time. The server ends a request before it says so to who reads.
func (p *paced) late() bool {
	due := p.due.Load()
	return due != 0 && time.Now().UnixNano() >= due
}
