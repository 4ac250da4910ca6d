package server

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// streams opens long answers and looks after their callers: who is no longer let in loses them. Safe for concurrent
// use.
type streams struct {
	door    *door
	judge   *judge
	limits  Limits
	counts  *streamCount
	clock   clock.Clock
	contact func() error // says why nobody must be answered now; nil: never
	gauge   prometheus.Gauge
	closing chan struct{}
	once    sync.Once
}

// newStreams counts the open ones in gauge.
func newStreams(d *door, j *judge, contact func() error, gauge prometheus.Gauge) *streams {
	return &streams{
		door: d, judge: j, limits: d.limits, counts: d.counts.streams, clock: d.clock, contact: contact, gauge: gauge, closing: make(chan struct{}),
	}
}

// close ends every stream.
func (s *streams) close() { s.once.Do(func() { close(s.closing) }) }

// wait returns when all have ended.
func (s *streams) wait() { s.counts.wait() }

// stream is a long answer. It ends when its client leaves or stops reading, its token is
// revoked, or the server closes; whoever writes to it then gets an error. One goroutine flushes
// what was written (soon, and many writes at once), keeps the line alive and looks at the token.
type stream struct {
	all    *streams
	c      *call
	events bool // Server-Sent Events
	who    atomic.Pointer[caller]
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // a stream is one call
	// had and everything are what the caller saw when it began: who loses a project loses the stream.
	had        []string
	everything bool
	dirty      chan struct{}
	done       chan struct{}
	mu         sync.Mutex
	buf        *bufio.Writer
}

func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), mediaEvents)
}

// open begins the answer. The caller must call end.
func (s *streams) open(ctx context.Context, c *call, media string) (*stream, error) {
	key := c.who.payer()
	if !s.counts.open(key) {
		return nil, tooMany("TooManyStreams", 5*time.Second, fault.T(
			"You hold %d streams open already, with all your tokens and sessions together.", "您已打开 %d 个流（所有令牌与会话合计）。", s.limits.Streams))
	}
	had, everything, err := s.judge.projectsOf(ctx, c.who)
	if err != nil {
		s.counts.close(key)
		return nil, err
	}
	s.gauge.Inc()
	inner, cancel := context.WithCancelCause(ctx)
	st := &stream{
		all: s, c: c, events: media == mediaEvents, cancel: cancel, ctx: inner, had: had, everything: everything,
		dirty: make(chan struct{}, 1), done: make(chan struct{}),
	}
	st.who.Store(c.who)
	out := patient{c}
	st.buf = bufio.NewWriterSize(out, 32<<10)
	if media != mediaEvents {
		media += "; charset=utf-8"
	}
	out.Header().Set("Content-Type", media)
	out.Header().Set("X-Accel-Buffering", "no")
	_ = c.rc.SetReadDeadline(time.Time{})
	out.WriteHeader(http.StatusOK)
	st.poke() // headers reach the client at once
	go st.pump()
	return st, nil
}

// end stops the pump, sends the rest and gives the stream's place back.
func (st *stream) end() {
	st.cancel(nil)
	<-st.done
	st.mu.Lock()
	_ = st.buf.Flush()
	st.mu.Unlock()
	st.all.gauge.Dec()
	st.all.counts.close(st.c.who.payer())
}

func (st *stream) pump() {
	defer close(st.done)
	s := st.all
	alive, look := s.clock.After(s.limits.KeepAlive), s.clock.After(s.limits.Recheck)
	for {
		select {
		case <-st.ctx.Done():
			return
		case <-s.closing:
			st.cancel(errClosing)
			return
		case <-st.dirty:
			st.flush()
		case <-alive:
			if st.events {
				_ = st.write([]byte(": alive\n\n"))
			}
			alive = s.clock.After(s.limits.KeepAlive)
		case <-look:
			if s.contact != nil {
				if err := s.contact(); err != nil { // the client finds a server that knows more
					st.cancel(err)
					return
				}
			}
			who, err := s.door.recheck(st.ctx, st.who.Load())
			if err == nil {
				err = st.lost(who)
			}
			if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) {
				st.cancel(err)
				return
			} else if err == nil {
				st.who.Store(who)
			}
			look = s.clock.After(s.limits.Recheck)
		}
	}
}

// lost says that the caller may less than when the stream began. It may come again and see what
// is left.
func (st *stream) lost(who *caller) error {
	if err := who.mayCall(st.c.route.id); err != nil {
		return err
	}
	has, everything, err := st.all.judge.projectsOf(st.ctx, who)
	if err != nil || everything {
		return err
	}
	gone := st.everything || slices.ContainsFunc(st.had, func(p string) bool { return !slices.Contains(has, p) })
	if gone {
		return errAccessLost
	}
	return nil
}

var errAccessLost = fault.New(fault.Forbidden, "AccessLost", fault.T(
	"You may see less than when this stream began.", "您的权限已缩小，该流已结束。")).WithHint(fault.T(
	"Open it again to see what is left.", "请重新打开以查看仍可访问的内容。"))

var errClosing = fault.New(fault.Unavailable, "Closing", fault.T("The server is shutting down.", "服务器正在关闭。"))

func (st *stream) flush() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.buf.Flush(); err != nil {
		st.cancel(err)
		return
	}
	_ = st.c.rc.SetWriteDeadline(time.Now().Add(st.all.limits.Stall))
	if err := st.c.rc.Flush(); err != nil {
		st.cancel(err)
	}
}

// write hands bytes over; the pump sends them.
func (st *stream) write(p []byte) error {
	if st.ctx.Err() != nil {
		return context.Cause(st.ctx)
	}
	st.mu.Lock()
	_, err := st.buf.Write(p)
	st.mu.Unlock()
	if err != nil {
		st.cancel(err)
		return err
	}
	st.poke()
	return nil
}

// poke has the pump send what was written.
func (st *stream) poke() {
	select {
	case st.dirty <- struct{}{}:
	default:
	}
}

// event sends one Server-Sent Event; data is JSON, which has no raw newline.
func (st *stream) event(name, id string, data any) error {
	body, err := encode(data)
	if err != nil {
		return err
	}
	var b strings.Builder
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: ")
	b.Write(body) // ends in a newline
	b.WriteByte('\n')
	return st.write([]byte(b.String()))
}

// gone says why the stream itself ended; nil while it is open.
func (st *stream) gone() error {
	if st.ctx.Err() == nil {
		return nil
	}
	return context.Cause(st.ctx)
}

// farewell tells the client of events why there is no more, where anybody can hear it.
func (st *stream) farewell(err error) {
	e := fault.From(err)
	if !st.events || st.c.r.Context().Err() != nil {
		return
	}
	body, err := encode(refusalOf(e, e.Code.HTTP(), st.c.lang))
	if err != nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	_, _ = st.buf.WriteString("event: error\ndata: " + string(body) + "\n")
}
