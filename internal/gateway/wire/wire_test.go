package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/test/foreign"
)

// replica takes connections and has each answered by what f writes.
func replica(t *testing.T, f func(n int, c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return l.Addr().String()
}

func pool(t *testing.T) *Pool {
	p := &Pool{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	t.Cleanup(p.Close)
	return p
}

// whole reads an answer to its end.
func whole(a *Answer) (string, error) {
	defer a.Close()
	body, err := io.ReadAll(a)
	return string(body), err
}

func get(target string) *Question {
	return &Question{Method: http.MethodGet, Target: target, Host: "x", Header: http.Header{}}
}

// TestKept: a connection carries one question after the other, whatever the form of the answer, and is given up when
// something lies in it that nobody asked for.
func TestKept(t *testing.T) {
	var conns atomic.Int32
	at := replica(t, func(n int, c net.Conn, in *bufio.Reader) {
		conns.Store(int32(n))
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			switch req.URL.Path {
			case "/length":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			case "/chunks":
				_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n")
			case "/none":
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			case "/more":
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
			}
		}
	})
	p := pool(t)
	for _, path := range []string{"/length", "/chunks", "/none", "/length"} {
		a, err := p.Ask(t.Context(), at, get(path))
		if err != nil {
			t.Fatal(path, err)
		}
		body, err := whole(a)
		if want := map[bool]string{true: "", false: "ok"}[path == "/none"]; err != nil || body != want {
			t.Errorf("%s: %q, %v", path, body, err)
		}
		if path == "/chunks" && a.Response.Trailer.Get("T") != "1" {
			t.Errorf("trailers: %v", a.Response.Trailer)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
	for range 3 { // an answer nobody asked for is never somebody else's
		a, err := p.Ask(t.Context(), at, get("/more"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := whole(a); err != nil || body != "ok" {
			t.Errorf("%q, %v", body, err)
		}
	}
}

// TestClosedBetween: a kept connection that the replica closed is not used for anything that can't be asked twice.
func TestClosedBetween(t *testing.T) {
	var conns atomic.Int32
	closed := make(chan struct{}, 8)
	at := replica(t, func(n int, c net.Conn, in *bufio.Reader) {
		conns.Store(int32(n))
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_ = c.Close()
		closed <- struct{}{}
	})
	p := pool(t)
	for n := range 4 {
		q := get("/")
		q.Method, q.Body = http.MethodPost, []byte("x")
		a, err := p.Ask(t.Context(), at, q)
		if err != nil {
			t.Fatal(n, err)
		}
		if body, err := whole(a); err != nil || body != "ok" {
			t.Errorf("%q, %v", body, err)
		}
		<-closed
	}
	if conns.Load() != 4 {
		t.Errorf("%d connections for 4 questions", conns.Load())
	}
}

// TestWritten: what is passed on, and what belongs to one connection and is not.
func TestWritten(t *testing.T) {
	got := make(chan string, 4)
	at := replica(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			got <- fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Host, " ", req.Header, " ", req.TransferEncoding, " ", req.ContentLength, " ", string(body), err)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	p := pool(t)
	for _, tc := range []struct {
		name string
		q    Question
		want string
	}{
		{"own headers of the connection", Question{Method: "GET", Target: "/a?b=%20", Host: "h", Header: http.Header{"Connection": {"X-Hop, close"}, "X-Hop": {"1"}, "X-Keep": {"2"}, "Te": {"trailers"}, "Upgrade": {"x"}, "Secret": {"s"}}, Skip: func(n string) bool { return n == "Secret" }, More: [][2]string{{"X-More", "3"}}},
			"GET /a?b=%20 h map[X-Keep:[2] X-More:[3]] [] 0 <nil>"},
		{"a body", Question{Method: "POST", Target: "/", Host: "h", Header: http.Header{"Content-Length": {"99"}, "Transfer-Encoding": {"chunked"}}, Body: []byte("body")}, "POST / h map[Content-Length:[4]] [] 4 body<nil>"},
		{"chunks", Question{Method: "POST", Target: "/", Host: "h", Stream: strings.NewReader("stream"), Length: -1}, "POST / h map[] [chunked] -1 stream<nil>"},
		{"a long body", Question{Method: "PUT", Target: "/", Host: "h", Stream: strings.NewReader("stream"), Length: 6}, "PUT / h map[Content-Length:[6]] [] 6 stream<nil>"},
	} {
		a, err := p.Ask(t.Context(), at, &tc.q)
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if _, err := whole(a); err != nil {
			t.Error(tc.name, err)
		}
		if have := <-got; have != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, have, tc.want)
		}
	}
}

// TestBadReplica: heads without end, silence, and an end in the middle are errors, each in its time.
func TestBadReplica(t *testing.T) {
	at := replica(t, func(_ int, c net.Conn, in *bufio.Reader) {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		switch req.URL.Path {
		case "/endless":
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		case "/silent":
			_, _ = io.Copy(io.Discard, in)
		case "/half":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		case "/switch":
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		}
	})
	p := pool(t)
	if _, err := p.Ask(t.Context(), at, get("/endless")); err == nil {
		t.Error("a head without end is taken")
	}
	q := get("/silent")
	q.Until = time.Now().Add(50 * time.Millisecond)
	var timeout net.Error
	if _, err := p.Ask(t.Context(), at, q); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("silence: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := p.Ask(ctx, at, get("/silent")); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left: %v", err)
	}
	a, err := p.Ask(t.Context(), at, get("/half"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := whole(a); body != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", body, err)
	}
	if _, err := p.Ask(t.Context(), at, get("/switch")); err == nil {
		t.Error("the protocol was changed unasked")
	}
	var dial *DialError
	if _, err := p.Ask(t.Context(), foreign.Nobody(t), get("/")); !errors.As(err, &dial) {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestEarly: a replica that answers before it has read all is heard, and its connection is not used again.
func TestEarly(t *testing.T) {
	var conns atomic.Int32
	at := replica(t, func(n int, c net.Conn, in *bufio.Reader) {
		conns.Store(int32(n))
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	p := pool(t)
	for range 2 {
		from, to := io.Pipe()
		go func() { _, _ = to.Write([]byte("begun")) }()
		a, err := p.Ask(t.Context(), at, &Question{Method: "POST", Target: "/", Host: "h", Stream: from, Length: 1 << 30})
		if err != nil || a.Response.StatusCode != 413 {
			t.Fatal(a, err)
		}
		a.Close()
		_ = to.Close()
	}
	if conns.Load() != 2 {
		t.Errorf("%d connections", conns.Load())
	}
}
