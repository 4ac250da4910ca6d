package gateway

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/gateway/batch"
)

// Questions that come at nearly the same time are asked as one, where the service wants that and they fit. Each client gets its own rows; when
// the one question is refused, which may be the fault of one of them, each is asked for itself.

// gathering are the questions of a service that wait for others. Safe for concurrent use.
type gathering struct {
	mu     sync.Mutex
	groups map[string]*group // by what they have in common
}

// group are questions that are asked as one. Who waits for it is guarded by gathering.mu.
type group struct {
	key     string
	members []*member
	rows    int
	waiting int           // members that have not left
	full    chan struct{} // closed: nobody more fits
	ctx     context.Context
	cancel  context.CancelFunc // nobody waits any more, or it is done
}

// member is one question in a group.
type member struct {
	t    *trip
	q    *batch.Question
	turn chan gathered // has room for one
}

// gathered is what becomes of a question; neither answer nor error: it is asked for itself.
type gathered struct {
	a   *answer
	err error
}

// maxGathered is the longest answer to a gathered question.
const maxGathered = 64 << 20

// together asks the question with others; alone: it is asked for itself.
func (t *trip) together(ctx context.Context) (a *answer, alone bool, err error) {
	g := t.s.settings().Gateway
	if g == nil || g.Batch == nil || t.question.body == nil || len(t.question.body) > keepBody || t.framed || t.in.Method != http.MethodPost || upgrade(t.in) != "" || hasOther(t.in.Header) {
		return nil, true, nil
	}
	q := batch.Read(t.question.body)
	if q == nil || q.Rows >= g.Batch.Size {
		return nil, true, nil
	}
	m := &member{t, q, make(chan gathered, 1)}
	grp := t.s.gathering.join(ctx, m, g.Batch.Size, g.Batch.Wait.Std())
	limit := time.NewTimer(time.Until(t.until))
	defer limit.Stop()
	select {
	case got := <-m.turn:
		return got.a, got.a == nil && got.err == nil, got.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = errTimeout
	}
	t.s.gathering.leave(grp)
	return nil, false, err
}

// hasOther says that a body is not the JSON that stands there, or not all of it.
func hasOther(h http.Header) bool {
	return h.Get("Inference-Header-Content-Length") != "" || h.Get("Content-Encoding") != ""
}

// join finds the group of a question, or opens one.
func (s *gathering) join(ctx context.Context, m *member, size int, wait time.Duration) *group {
	on := m.t.want.on
	key := strings.Join([]string{m.t.to, m.q.Signature, m.t.in.Header.Get("Accept"), m.t.want.region, strconv.Itoa(on.canary), strconv.FormatBool(on.only)}, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[string]*group{}
	}
	grp := s.groups[key]
	if grp != nil && grp.rows+m.q.Rows > size {
		s.shut(grp)
		grp = nil
	}
	if grp == nil {
		grp = &group{key: key, full: make(chan struct{})}
		grp.ctx, grp.cancel = context.WithCancel(context.WithoutCancel(ctx)) // who came first may leave first
		s.groups[key] = grp
		go s.run(grp, wait)
	}
	grp.members, grp.rows, grp.waiting = append(grp.members, m), grp.rows+m.q.Rows, grp.waiting+1
	if grp.rows == size {
		s.shut(grp)
	}
	return grp
}

// leave is said by who waits no more.
func (s *gathering) leave(grp *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if grp.waiting--; grp.waiting == 0 {
		s.shut(grp)
		grp.cancel()
	}
}

// shut lets nobody more in. mu held.
func (s *gathering) shut(grp *group) {
	if s.groups[grp.key] == grp {
		delete(s.groups, grp.key)
		close(grp.full)
	}
}

// run asks for a group once it is full, or has waited long enough.
func (s *gathering) run(grp *group, wait time.Duration) {
	defer grp.cancel()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-limit.C:
	case <-grp.full:
	}
	s.mu.Lock()
	s.shut(grp)
	s.mu.Unlock()
	var answers []*answer
	var err error
	if len(grp.members) > 1 { // nobody joins any more
		answers, err = grp.ask()
	}
	for i, m := range grp.members {
		got := gathered{err: err}
		if answers != nil {
			got.a = answers[i]
		}
		m.turn <- got
	}
}

// ask asks for all; neither answers nor an error: each is to ask for itself.
func (grp *group) ask() ([]*answer, error) {
	first := grp.members[0].t
	questions, safe, until := make([]*batch.Question, 0, len(grp.members)), true, first.until
	for _, m := range grp.members {
		questions = append(questions, m.q)
		safe = safe && m.t.question.safe
		if m.t.until.After(until) {
			until = m.t.until
		}
	}
	in := first.in.Clone(grp.ctx)
	in.Header.Del("Accept-Encoding") // it is to be read
	one := &trip{g: first.g, s: first.s, m: first.m, question: &question{body: batch.Join(questions), kept: true, safe: safe}, in: in, to: first.to, until: until, want: first.want}
	a, err := one.ask(grp.ctx)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if a.resp.StatusCode/100 == 4 {
		return nil, nil
	}
	if a.held == nil {
		if a.held, err = io.ReadAll(io.LimitReader(a.body, maxGathered)); err != nil {
			return nil, err
		}
	}
	var parts [][]byte // nil: all are told the same
	if a.resp.StatusCode == http.StatusOK {
		if parts, err = batch.Split(a.held, questions); err != nil {
			return nil, notRows(err)
		}
	}
	out := make([]*answer, 0, len(grp.members))
	for i := range grp.members {
		body := a.held
		if parts != nil {
			body = parts[i]
		}
		resp := &http.Response{StatusCode: a.resp.StatusCode, Header: a.resp.Header.Clone(), ContentLength: int64(len(body))}
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		resp.Header.Set(batchHeader, strconv.Itoa(grp.rows))
		out = append(out, &answer{resp: resp, s: a.s, r: a.r, m: a.m, held: body, gone: true, since: a.since})
	}
	return out, nil
}

// batchHeader says with how many rows an answer was made.
const batchHeader = "X-Fermi-Batch"

func notRows(err error) error {
	return fault.New(fault.Unavailable, "NotRows", fault.T("The service's answer to gathered questions has not the rows that were asked.", "服务对合并请求的应答行数与请求不符。")).
		WithHint(fault.T("Leave spec.gateway.batch out for this service.", "请为该服务去掉 spec.gateway.batch。")).Because(err)
}
