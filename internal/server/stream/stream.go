package stream

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
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Streams opens long answers and looks after their callers: who is no longer let in loses them. Safe for concurrent
// use.
type Streams struct {
	door    *door.Door
	judge   *access.Judge
	limits  limit.Limits
	counts  *limit.StreamCount
	clock   clock.Clock
	contact func() error // says why nobody must be answered now; nil: never
	gauge   prometheus.Gauge
	closing chan struct{}
	once    sync.Once
}

// New counts the open ones in gauge.
func New(d *door.Door, j *access.Judge, l limit.Limits, counts *limit.StreamCount, c clock.Clock, contact func() error, gauge prometheus.Gauge) *Streams {
	return &Streams{
		door: d, judge: j, limits: l, counts: counts, clock: c, contact: contact, gauge: gauge, closing: make(chan struct{}),
	}
}

// Close ends every stream.
func (s *Streams) Close() { s.once.Do(func() { close(s.closing) }) }

// Wait returns when all have ended.
func (s *Streams) Wait() { s.counts.Wait() }

// Stream is a long answer. It ends when its client leaves or stops reading, its token is
// revoked, or the server closes; whoever writes to it then gets an error. One goroutine flushes
// what was written (soon, and many writes at once), keeps the line alive and looks at the token.
type Stream struct {
	all    *Streams
	c      *rest.Call
	Events bool // Server-Sent Events
	Who    atomic.Pointer[access.Caller]
	Cancel context.CancelCauseFunc
	Ctx    context.Context //nolint:containedctx // a stream is one call
	// had and everything are what the caller saw when it began: who loses a project loses the stream.
	had        []string
	everything bool
	dirty      chan struct{}
	done       chan struct{}
	mu         sync.Mutex
	buf        *bufio.Writer
}

func WantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), rest.MediaEvents)
}

// Open begins the answer. The caller must call end.
func (s *Streams) Open(ctx context.Context, c *rest.Call, media string) (*Stream, error) {
	key := c.Who.Payer()
	if !s.counts.Open(key) {
		return nil, refuse.TooMany("TooManyStreams", 5*time.Second, fault.T(
			"You hold %d streams open already, with all your tokens and sessions together.", "您已打开 %d 个流（所有令牌与会话合计）。", s.limits.Streams))
	}
	had, everything, err := s.judge.ProjectsOf(ctx, c.Who)
	if err != nil {
		s.counts.Close(key)
		return nil, err
	}
	s.gauge.Inc()
	inner, cancel := context.WithCancelCause(ctx)
	st := &Stream{
		all: s, c: c, Events: media == rest.MediaEvents, Cancel: cancel, Ctx: inner, had: had, everything: everything,
		dirty: make(chan struct{}, 1), done: make(chan struct{}),
	}
	st.Who.Store(c.Who)
	out := c.Patient()
	st.buf = bufio.NewWriterSize(out, 32<<10)
	if media != rest.MediaEvents {
		media += "; charset=utf-8"
	}
	out.Header().Set("Content-Type", media)
	out.Header().Set("X-Accel-Buffering", "no")
	_ = c.Control.SetReadDeadline(time.Time{})
	out.WriteHeader(http.StatusOK)
	st.poke() // headers reach the client at once
	go st.pump()
	return st, nil
}

// End stops the pump, sends the rest and gives the stream's place back.
func (st *Stream) End() {
	st.Cancel(nil)
	<-st.done
	st.mu.Lock()
	_ = st.buf.Flush()
	st.mu.Unlock()
	st.all.gauge.Dec()
	st.all.counts.Close(st.c.Who.Payer())
}

func (st *Stream) pump() {
	defer close(st.done)
	s := st.all
	alive, look := s.clock.After(s.limits.KeepAlive), s.clock.After(s.limits.Recheck)
	for {
		select {
		case <-st.Ctx.Done():
			return
		case <-s.closing:
			st.Cancel(errClosing)
			return
		case <-st.dirty:
			st.flush()
		case <-alive:
			if st.Events {
				_ = st.Write([]byte(": alive\n\n"))
			}
			alive = s.clock.After(s.limits.KeepAlive)
		case <-look:
			if s.contact != nil {
				if err := s.contact(); err != nil { // the client finds a server that knows more
					st.Cancel(err)
					return
				}
			}
			who, err := s.door.Recheck(st.Ctx, st.Who.Load())
			if err == nil {
				err = st.lost(who)
			}
			if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) {
				st.Cancel(err)
				return
			} else if err == nil {
				st.Who.Store(who)
			}
			look = s.clock.After(s.limits.Recheck)
		}
	}
}

// lost says that the caller may less than when the stream began. It may come again and see what
// is left.
func (st *Stream) lost(who *access.Caller) error {
	if err := who.MayCall(st.c.Route.ID); err != nil {
		return err
	}
	has, everything, err := st.all.judge.ProjectsOf(st.Ctx, who)
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

func (st *Stream) flush() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.buf.Flush(); err != nil {
		st.Cancel(err)
		return
	}
	_ = st.c.Control.SetWriteDeadline(time.Now().Add(st.all.limits.Stall))
	if err := st.c.Control.Flush(); err != nil {
		st.Cancel(err)
	}
}

// Write hands bytes over; the pump sends them.
func (st *Stream) Write(p []byte) error {
	if st.Ctx.Err() != nil {
		return context.Cause(st.Ctx)
	}
	st.mu.Lock()
	_, err := st.buf.Write(p)
	st.mu.Unlock()
	if err != nil {
		st.Cancel(err)
		return err
	}
	st.poke()
	return nil
}

// poke has the pump send what was written.
func (st *Stream) poke() {
	select {
	case st.dirty <- struct{}{}:
	default:
	}
}

// Event sends one Server-Sent Event; data is JSON, which has no raw newline.
func (st *Stream) Event(name, id string, data any) error {
	body, err := rest.Encode(data)
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
	return st.Write([]byte(b.String()))
}

// Gone says why the stream itself ended; nil while it is open.
func (st *Stream) Gone() error {
	if st.Ctx.Err() == nil {
		return nil
	}
	return context.Cause(st.Ctx)
}

// Farewell tells the client of events why there is no more, where anybody can hear it.
func (st *Stream) Farewell(err error) {
	e := fault.From(err)
	if !st.Events || st.c.R.Context().Err() != nil {
		return
	}
	body, err := rest.Encode(rest.RefusalOf(e, e.Code.HTTP(), st.c.Lang))
	if err != nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	_, _ = st.buf.WriteString("event: error\ndata: " + string(body) + "\n")
}
