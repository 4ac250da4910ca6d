package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/gateway/wire"
)

// answer is a replica's on its way to the client.
type answer struct {
	resp *http.Response
	s    *service
	r    *replica
	m    *serviceMeters
	line *wire.Answer // nil: it came by HTTP/2
	body io.Reader
	end  func() // what is to be done behind it; nil: nothing
	held []byte // all of it, where it was held back
	gone bool   // the replica was given back
	used usage
	// pinged: its client has had a head already, and comments of ours.
	pinged bool
	cut    bool // the service broke it off
	// since is when the replica was asked.
	since time.Time
}

// hold reads a small answer whole.
func (a *answer) hold(size int) error {
	a.held = make([]byte, size)
	if _, err := io.ReadFull(a.body, a.held); err != nil {
		return err
	}
	if n, err := a.body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) { // so that the connection is known to be done
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return nil
}

// drop ends what was begun; the replica is somebody else's to give back.
func (a *answer) drop() {
	if a.line != nil {
		a.line.Close()
	}
	if a.end != nil {
		a.end()
	}
}

// close gives the replica back.
func (a *answer) close() {
	a.drop()
	if !a.gone {
		a.gone = true
		a.s.held(time.Since(a.since))
		a.s.release(a.r)
	}
}

// bufferSize is what answers pass through. A stream that is silent has none.
const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// stall is how long a client may take nothing of an answer before it is given up.
const stall = 2 * time.Minute

// pass writes the answer to the client: every chunk at once, and a cut one so that it looks cut.
func (a *answer) pass(w http.ResponseWriter, r *http.Request) {
	if a.resp.StatusCode == http.StatusSwitchingProtocols {
		a.duplex(w, r)
		return
	}
	if a.pinged {
		a.append(w, r)
		return
	}
	h := w.Header()
	for name, values := range a.resp.Header {
		if name == "Content-Length" || !isOurs(name) && !wire.Hop(a.resp.Header, name) {
			h[name] = values
		}
	}
	w.WriteHeader(a.resp.StatusCode)
	if a.held != nil {
		a.used.see(a.held, false)
		_, _ = w.Write(a.held)
		return
	}
	control := http.NewResponseController(w)
	if a.resp.ContentLength < 0 || a.line == nil {
		_ = control.Flush() // the head: who waits for the first word sees that there will be one
	}
	if err := a.copy(w, control); err != nil {
		if r.Context().Err() == nil {
			a.m.cut.Inc()
			a.cut = true
			a.r.tally.failed(true)
		}
		panic(http.ErrAbortHandler) // the only way to say that an answer is not whole
	}
	for name, values := range a.resp.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// append passes the answer on behind a head that was sent already: events as they are, anything else as one.
func (a *answer) append(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if a.resp.StatusCode == http.StatusOK && strings.HasPrefix(a.resp.Header.Get("Content-Type"), "text/event-stream") {
		if a.held != nil {
			a.used.see(a.held, true)
			_, _ = w.Write(a.held)
			return
		}
		if err := a.copy(w, control); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	if a.held == nil {
		a.held, _ = io.ReadAll(io.LimitReader(a.body, keepAnswer))
	}
	if a.resp.StatusCode/100 == 2 { // the one answer of who does not stream
		a.used.see(a.held, false)
		_, _ = w.Write([]byte("data: " + strings.ReplaceAll(strings.TrimSpace(string(a.held)), "\n", "\ndata: ") + "\n\n"))
		return
	}
	_, _ = w.Write([]byte("event: error\ndata: " + strings.ReplaceAll(strings.TrimSpace(string(a.held)), "\n", "\ndata: ") + "\n\n"))
}

// errClient: the client took no more.
var errClient = errors.New("the client is gone")

// copy passes the body on. A stream whose replica is silent holds no buffer.
func (a *answer) copy(w http.ResponseWriter, control *http.ResponseController) error {
	stream := a.resp.ContentLength < 0
	var set time.Time
	kind := a.resp.Header.Get("Content-Type")
	counted := strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/json")
	for {
		if stream && a.line != nil {
			if err := a.line.Wait(); err != nil {
				return err
			}
		}
		buf := buffers.Get().(*[]byte)
		n, err := a.body.Read(*buf)
		if n > 0 {
			if counted {
				a.used.see((*buf)[:n], stream)
			}
			if now := time.Now(); now.Sub(set) > stall/4 {
				set = now
				_ = control.SetWriteDeadline(now.Add(stall))
			}
			if _, werr := w.Write((*buf)[:n]); werr != nil {
				buffers.Put(buf)
				return errClient
			}
		}
		buffers.Put(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			_ = control.Flush() // what came is theirs
			return err
		}
		if a.line == nil || a.line.Quiet() {
			if control.Flush() != nil {
				return errClient
			}
			set = time.Time{}
			_ = control.SetWriteDeadline(set) // it is silent now, as long as it likes
		}
	}
}

// duplex carries a connection that speaks another protocol now, both ways, until one side ends.
func (a *answer) duplex(w http.ResponseWriter, r *http.Request) {
	client, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer client.Close()
	replica, in := a.line.Hijack()
	defer replica.Close()
	_ = client.SetDeadline(time.Time{})
	h := w.Header().Clone()
	for name, values := range a.resp.Header {
		if !isOurs(name) && !wire.Hop(a.resp.Header, name) {
			h[name] = values
		}
	}
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", a.resp.Header.Get("Upgrade"))
	_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = h.Write(buf)
	_, _ = buf.WriteString("\r\n")
	if buf.Flush() != nil {
		return
	}
	ended := make(chan struct{}, 2)
	pipe := func(to io.Writer, first io.Reader, n int, from io.Reader) {
		if n > 0 {
			_, _ = io.CopyN(to, first, int64(n))
		}
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go pipe(client, in, in.Buffered(), replica)
	go pipe(replica, buf, buf.Reader.Buffered(), client)
	select {
	case <-ended:
	case <-r.Context().Done(): // the gateway ends
	}
}
