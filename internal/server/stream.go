package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// stream is a long answer. It ends when its client leaves or stops reading, its token is
// revoked, or the server closes; whoever writes to it then gets an error. One goroutine flushes
// what was written (soon, and many writes at once), keeps the line alive and looks at the token.
type stream struct {
	c      *call
	events bool // Server-Sent Events
	who    atomic.Pointer[caller]
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // a stream is one call
	dirty  chan struct{}
	done   chan struct{}
	mu     sync.Mutex
	buf    *bufio.Writer
}

const mediaEvents = "text/event-stream"

func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), mediaEvents)
}

// openStream begins the answer. The caller must call end.
func (c *call) openStream(ctx context.Context, media string) (*stream, error) {
	key := c.who.token.Meta.ID
	if !c.s.limits.streams.open(key) {
		return nil, tooMany("TooManyStreams", 5*time.Second, fault.T(
			"This token holds %d streams open already.", "该令牌已打开 %d 个流。", c.s.Limits.Streams))
	}
	c.s.seen.streams.Inc()
	inner, cancel := context.WithCancelCause(ctx)
	st := &stream{
		c: c, events: media == mediaEvents, cancel: cancel, ctx: inner,
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
	poke(st.dirty) // headers reach the client at once
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
	st.c.s.seen.streams.Dec()
	st.c.s.limits.streams.close(st.c.who.token.Meta.ID)
}

func (st *stream) pump() {
	defer close(st.done)
	s := st.c.s
	alive, look := s.Clock.After(s.Limits.KeepAlive), s.Clock.After(s.Limits.Recheck)
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
			alive = s.Clock.After(s.Limits.KeepAlive)
		case <-look:
			who, err := s.recheck(st.ctx, st.who.Load())
			if fault.Is(err, fault.Unauthenticated) {
				st.cancel(err)
				return
			} else if err == nil {
				st.who.Store(who)
			}
			look = s.Clock.After(s.Limits.Recheck)
		}
	}
}

var errClosing = fault.New(fault.Unavailable, "Closing", fault.T("The server is shutting down.", "服务器正在关闭。"))

func (st *stream) flush() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.buf.Flush(); err != nil {
		st.cancel(err)
		return
	}
	_ = st.c.rc.SetWriteDeadline(time.Now().Add(st.c.s.Limits.Stall))
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
	poke(st.dirty)
	return nil
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
