package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// maxEvent bounds one Server-Sent Event; objects stay below 1.5 MiB in the store.
	maxEvent = 8 << 20
	// silence is how long a stream may say nothing, not even a keep-alive (every 15 s), before we
	// take the connection for dead.
	silence = 60 * time.Second
)

// serverEvent is one Server-Sent Event.
type serverEvent struct {
	name string // "" is "message"
	id   string
	data []byte
}

// eventReader cuts a stream into events as the WHATWG standard says.
type eventReader struct {
	r *bufio.Reader
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{bufio.NewReaderSize(r, 64<<10)} }

var errEventTooLong = errors.New("client: server-sent event too long")

// next is the next event with data or a name; comments are swallowed. io.EOF is a clean end
// between events; an end within one is io.ErrUnexpectedEOF.
func (e *eventReader) next() (serverEvent, error) {
	var ev serverEvent
	started, hasData := false, false
	for {
		line, err := e.line()
		if err != nil {
			if errors.Is(err, io.EOF) && (started || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return ev, err
		}
		if len(line) == 0 {
			if started {
				return ev, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name, started = string(value), true
		case "id":
			ev.id, started = string(value), true
		case "data":
			if hasData {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
			started, hasData = true, true
			if len(ev.data) > maxEvent {
				return ev, errEventTooLong
			}
		}
	}
}

// line is one line without its end (\n or \r\n), at most maxEvent bytes.
func (e *eventReader) line() ([]byte, error) {
	var long []byte
	for {
		part, err := e.r.ReadSlice('\n')
		if len(long)+len(part) > maxEvent+64 {
			return nil, errEventTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if long != nil {
			part = append(long, part...)
		}
		if err != nil {
			return part, err
		}
		part = part[:len(part)-1]
		return bytes.TrimSuffix(part, []byte("\r")), nil
	}
}

// stream opens path once as Server-Sent Events and hands each to emit until the stream ends (nil:
// a clean end), emit fails, or nothing is heard for too long.
func (c *wire) stream(ctx context.Context, path string, query url.Values, emit func(serverEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, request{
		method: http.MethodGet, path: path, query: query,
		header: http.Header{"Accept": {"text/event-stream"}},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	patience := silence
	if len(c.bases) > 1 {
		patience = silence / 3 // there is somebody else to ask
	}
	watchdog := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer watchdog.Stop()
	events := newEventReader(&touchReader{resp.Body, func() { watchdog.Reset(patience) }})
	for {
		ev, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errEventTooLong):
			return notFermi(c.Server(), err)
		case err != nil && errors.Is(context.Cause(ctx), errSilent):
			return c.unreachable(context.Background(), errSilent)
		case err != nil:
			return c.unreachable(ctx, err)
		}
		if err := emit(ev); err != nil {
			return err
		}
	}
}

// farewell is the error event with which a server ends a stream: the shape of any error answer.
func farewell(data []byte) error {
	var answer struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(data, &answer) != nil || answer.Code < 400 || answer.Code > 599 {
		answer.Code = http.StatusServiceUnavailable
	}
	return errorFromAnswer(answer.Code, data)
}

var errSilent = errors.New("client: nothing heard on the stream")

// touchReader tells of every arrival.
type touchReader struct {
	r     io.Reader
	touch func()
}

func (t *touchReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.touch()
	}
	return n, err
}

// stop is wrapped around an error of the caller's function, so that it isn't taken for the
// network's and tried again.
type stop struct{ err error }

func (s stop) Error() string { return s.err.Error() }

// keep opens a stream again and again until once is done or fails for good. lost, which may be
// nil, is told of each failure that is tried again.
func keep(ctx context.Context, lost func(error), once func() (done bool, heard bool, err error)) error {
	failures := 0
	for {
		done, heard, err := once()
		var s stop
		switch {
		case errors.As(err, &s):
			return s.err
		case ctx.Err() != nil:
			return fault.From(ctx.Err())
		case done && err == nil:
			return nil
		case err != nil && !fault.CodeOf(err).Retry():
			return err
		}
		if heard {
			failures = 0
		}
		failures++
		if err != nil && lost != nil {
			lost(err)
		}
		if !pause(ctx, waitFor(failures, err)) {
			return fault.From(ctx.Err())
		}
	}
}
