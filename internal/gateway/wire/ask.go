package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DialError says that nothing was sent: there is no connection.
type DialError struct{ err error }

func (e *DialError) Error() string { return "dial the replica: " + e.err.Error() }
func (e *DialError) Unwrap() error { return e.err }

// BodyError says that the question did not come whole: the replica is not to blame.
type BodyError struct{ err error }

func (e *BodyError) Error() string { return "read the question: " + e.err.Error() }
func (e *BodyError) Unwrap() error { return e.err }

var (
	errHead = errors.New("the head of the answer is too large")
	// errIdle: a kept connection was closed by the other side before it sent anything of an answer.
	errIdle = errors.New("the kept connection was closed")
)

// Question is what is asked.
type Question struct {
	Method, Target, Host string
	// Header is passed on but for what belongs to one connection and what Skip names.
	Header http.Header
	Skip   func(name string) bool
	// More are written as they are.
	More [][2]string
	// Body is all of it; or Stream has Length bytes, or until its end where Length is negative. Both nil: there is none.
	Body   []byte
	Stream io.Reader
	Length int64
	// Upgrade is the protocol that the client wants instead, such as websocket.
	Upgrade string
	// Until is when the first byte of an answer must be there.
	Until time.Time
}

// Answer is a replica's. Whoever has it calls Close, or Hijack where the protocol was changed.
type Answer struct {
	Response *http.Response
	pool     *Pool
	conn     *conn
	stop     func() bool // of what waits for ctx
	sent     chan error  // nil: the question was written before the answer was read
	broken   atomic.Pointer[BodyError]
	whole    bool // the body was read to its end
	broke    bool
}

// hop are headers of one connection.
func hop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect", "Host":
		return true
	}
	return false
}

// Hop says that a header belongs to one connection, or is listed as such in the message's own Connection header.
func Hop(h http.Header, name string) bool {
	if hop(name) {
		return true
	}
	for _, list := range h["Connection"] {
		for rest := list; rest != ""; {
			var one string
			one, rest, _ = strings.Cut(rest, ",")
			if one = textproto.TrimString(one); strings.EqualFold(one, name) {
				return true
			}
		}
	}
	return false
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, readSize) }}

// Ask asks the replica at address. A connection that was kept and turns out to be closed is no answer: a new one is asked
// where nothing of a stream has been read.
func (p *Pool) Ask(ctx context.Context, address string, q *Question) (*Answer, error) {
	for {
		c, err := p.get(ctx, address)
		if err != nil {
			return nil, err
		}
		a, err := p.on(ctx, c, q)
		if err == nil {
			return a, nil
		}
		_ = c.Close()
		// The replica closed it before it read the question: it did so while the question was on its way. Only what may be
		// asked twice is asked again without a word to the caller.
		if !errors.Is(err, errIdle) || q.Stream != nil || !repeatable(q.Method) || ctx.Err() != nil {
			return nil, err
		}
	}
}

func repeatable(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

var past = time.Unix(1, 0)

func (p *Pool) on(ctx context.Context, c *conn, q *Question) (*Answer, error) {
	a := &Answer{pool: p, conn: c}
	a.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	fail := func(err error) (*Answer, error) {
		a.stop()
		if broken := a.broken.Load(); broken != nil {
			return nil, broken
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask the replica: %w", context.Cause(ctx))
		}
		return nil, err
	}
	if err := a.write(q); err != nil {
		return fail(err)
	}
	if !q.Until.IsZero() {
		_ = c.SetReadDeadline(q.Until)
		if ctx.Err() != nil { // it may have been set after the one that ends it all
			_ = c.SetDeadline(past)
		}
	}
	if err := a.read(q); err != nil {
		return fail(err)
	}
	if !q.Until.IsZero() {
		_ = c.SetReadDeadline(time.Time{})
		if ctx.Err() != nil {
			_ = c.SetDeadline(past)
		}
	}
	return a, nil
}

// write sends the question; what is streamed goes on while the answer is read.
func (a *Answer) write(q *Question) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(a.conn.Conn)
	done := func() {
		w.Reset(nil)
		writers.Put(w)
	}
	q.head(w)
	if q.Stream == nil {
		_, _ = w.Write(q.Body)
		err := w.Flush()
		done()
		return err
	}
	if err := w.Flush(); err != nil {
		done()
		return err
	}
	c, sent := a.conn, make(chan error, 1) // the answer may be closed before the question is whole
	a.sent = sent
	go func() {
		defer done()
		err := q.stream(w)
		var broken *BodyError
		if errors.As(err, &broken) {
			a.broken.Store(broken)
			_ = c.SetDeadline(past) // the replica waits for the rest, and nobody else should
		}
		sent <- err
	}()
	return nil
}

// stream sends a body whose bytes are not here yet, each as it comes.
func (q *Question) stream(w *bufio.Writer) error {
	var to io.Writer = w
	var chunks io.WriteCloser
	from := q.Stream
	if q.Length >= 0 {
		from = io.LimitReader(from, q.Length)
	} else {
		chunks = httputil.NewChunkedWriter(w)
		to = chunks
	}
	buf := make([]byte, 16<<10)
	var sent int64
	for {
		n, err := from.Read(buf)
		if n > 0 {
			sent += int64(n)
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &BodyError{err}
		}
	}
	if chunks == nil {
		if sent != q.Length {
			return &BodyError{io.ErrUnexpectedEOF}
		}
		return nil
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

// head writes the line and the headers. They came through net/http, which refuses what could be read as two.
func (q *Question) head(w *bufio.Writer) {
	line := func(parts ...string) {
		for _, s := range parts {
			_, _ = w.WriteString(s)
		}
		_, _ = w.WriteString("\r\n")
	}
	line(q.Method, " ", q.Target, " HTTP/1.1")
	line("Host: ", q.Host)
	for name, values := range q.Header {
		if hop(name) || q.Skip != nil && q.Skip(name) || len(q.Header["Connection"]) > 0 && Hop(q.Header, name) {
			continue
		}
		for _, v := range values {
			line(name, ": ", v)
		}
	}
	for _, m := range q.More {
		line(m[0], ": ", m[1])
	}
	if q.Upgrade != "" {
		line("Connection: Upgrade")
		line("Upgrade: ", q.Upgrade)
	}
	switch { // also with an upgrade: a body without its length would be the next question
	case q.Stream != nil && q.Length < 0:
		line("Transfer-Encoding: chunked")
	case q.Stream != nil:
		line("Content-Length: ", strconv.FormatInt(q.Length, 10))
	case len(q.Body) > 0 || q.Method == http.MethodPost || q.Method == http.MethodPut || q.Method == http.MethodPatch:
		line("Content-Length: ", strconv.Itoa(len(q.Body)))
	}
	_, _ = w.WriteString("\r\n")
}

// asked are the questions that http.ReadResponse wants to know of: only the method counts.
var asked sync.Map

func askedBy(method string) *http.Request {
	switch method {
	case http.MethodHead, http.MethodConnect:
		r, _ := asked.LoadOrStore(method, &http.Request{Method: method})
		return r.(*http.Request)
	}
	return plainly
}

var plainly = &http.Request{Method: http.MethodGet}

// read reads the head of the answer.
func (a *Answer) read(q *Question) error {
	c := a.conn
	c.left = a.pool.MaxHeaders
	if a.pool.MaxHeaders <= 0 {
		c.left = 64 << 10
	}
	first := true
	for {
		if first {
			if _, err := c.in.Peek(1); err != nil {
				var timeout net.Error
				if c.used && !(errors.As(err, &timeout) && timeout.Timeout()) {
					return fmt.Errorf("%w: %w", errIdle, err)
				}
				return fmt.Errorf("wait for the answer: %w", err)
			}
			first = false
		}
		resp, err := http.ReadResponse(c.in, askedBy(q.Method))
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		if resp.StatusCode == http.StatusSwitchingProtocols && q.Upgrade == "" {
			return errors.New("the replica changed the protocol unasked")
		}
		c.left = -1
		a.Response = resp
		return nil
	}
}

// Wait waits until there is something to read of the body, so that nobody needs a buffer before.
func (a *Answer) Wait() error {
	if a.whole || a.Response.Body == http.NoBody {
		return nil
	}
	if _, err := a.conn.in.Peek(1); !errors.Is(err, io.EOF) { // the end is the reader's to judge: some bodies end with it
		return err
	}
	return nil
}

// Quiet says that all that has arrived of the body was read.
func (a *Answer) Quiet() bool { return a.conn.in.Buffered() == 0 }

// Read reads the body.
func (a *Answer) Read(p []byte) (int, error) {
	n, err := a.Response.Body.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		a.whole = true
	case err != nil:
		a.broke = true
	}
	return n, err
}

// Close ends the question: a connection with which both sides are done is kept.
func (a *Answer) Close() {
	if a.conn == nil {
		return
	}
	c := a.conn
	undisturbed := a.stop()
	done := true
	if a.sent != nil {
		select {
		case err := <-a.sent:
			done = err == nil
		default: // the replica answered before it had read all
			done = false
		}
	}
	if !a.whole && !a.broke && done && undisturbed { // no body, or one of which nobody wants the rest
		if a.Response.Body == http.NoBody || a.Response.ContentLength == 0 {
			a.whole = true
		}
	}
	a.conn = nil
	if a.whole && done && undisturbed && !a.Response.Close && c.in.Buffered() == 0 {
		a.pool.put(c)
		return
	}
	_ = c.Close()
}

// Hijack gives the connection of an answer that changed the protocol, with what was read of it already.
func (a *Answer) Hijack() (net.Conn, *bufio.Reader) {
	c := a.conn
	a.stop()
	a.conn = nil
	_ = c.SetDeadline(time.Time{})
	return c.Conn, c.in
}
