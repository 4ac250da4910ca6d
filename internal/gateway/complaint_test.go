package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// What users of other gateways complain about most, each as a test. Buffered streams, silent ones that are cut, and retries of
// half an answer are in TestStreams and TestRetries.

// TestSocketOutlivesTimeout: a WebSocket that is silent for a day, far longer than the time for a first byte, goes on.
func TestSocketOutlivesTimeout(t *testing.T) { synctest.Test(t, testSocketOutlivesTimeout) }

func testSocketOutlivesTimeout(t *testing.T) {
	w, client := newBubble(t)
	w.serve("ws", func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(100 * time.Millisecond) }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, data, err := conn.Read(context.WithoutCancel(r.Context()))
			if err != nil || conn.Write(context.WithoutCancel(r.Context()), kind, data) != nil {
				return
			}
		}
	}))
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(w.url, "http", "ws", 1)+"/inference/ws/", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + secretOf("ann")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for _, wait := range []time.Duration{0, time.Second, 24 * time.Hour} {
		time.Sleep(wait) // of the bubble: the silence that is tested
		if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("still there")); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "still there" {
			t.Fatalf("after %s: %q, %v", wait, data, err)
		}
	}
	_ = conn.CloseNow()
	synctest.Wait()
	if busy := w.g.find("ws").load().Busy; busy > 0 {
		t.Errorf("its replica is not free again: %d", busy)
	}
}

// TestNoFrameLost: many streams at once, every frame of each, in order.
func TestNoFrameLost(t *testing.T) {
	const streams, frames = 200, 100
	w := newWorld(t)
	w.serve("sse", func(s *serving.ServiceEndpointsSpec) { s.MaxConcurrency = streams }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for i := range frames {
			fmt.Fprintf(rw, "data: %s %d\n\n", r.URL.RawQuery, i)
			_ = http.NewResponseController(rw).Flush()
		}
	}))
	var wg sync.WaitGroup
	for n := range streams {
		wg.Go(func() {
			resp, err := http.DefaultClient.Do(w.request(http.MethodGet, fmt.Sprint("/inference/sse/?s", n), "ann", nil))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			var want bytes.Buffer
			for i := range frames {
				fmt.Fprintf(&want, "data: s%d %d\n\n", n, i)
			}
			if err != nil || !bytes.Equal(body, want.Bytes()) {
				t.Errorf("stream %d: %d bytes instead of %d, %v", n, len(body), want.Len(), err)
			}
		})
	}
	wg.Wait()
}

// TestMemoryLevel: what requests leave behind does not grow with their number, whatever becomes of them.
func TestMemoryLevel(t *testing.T) {
	w := newWorld(t)
	var n atomic.Int64
	w.serve("mix", nil, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			rw.WriteHeader(500)
		default:
			_, _ = rw.Write(make([]byte, 4<<10))
		}
	}))
	heap := func() uint64 {
		for range 1500 {
			w.do(w.request(http.MethodPost, "/inference/mix/", "ann", strings.NewReader("x")))
		}
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	heap()
	first := heap()
	heap()
	if last := heap(); last > first+2<<20 {
		t.Errorf("the heap grew from %d to %d kB in 3,000 requests", first>>10, last>>10)
	}
}

// TestSmuggling: a question that could be read as two is one to the replica, or none.
func TestSmuggling(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var seen []string
	w.serve("chat", nil, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen = append(seen, r.URL.Path+" "+string(body))
		mu.Unlock()
	}))
	head := "POST /inference/chat/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secretOf("ann") + "\r\nConnection: close\r\n"
	hidden := "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, rest := range map[string]string{
		"both lengths":           "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"an unknown coding":      "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"two codings":            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"a folded header":        "X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		"a space before it":      "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a line end in it":       "X-A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a negative length":      "Content-Length: -4\r\n\r\n" + hidden,
		"a chunk of lies":        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + hidden,
		"an upgrade to h2c":      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n" + hidden,
		"an upgrade with a body": "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 32\r\n\r\n" + hidden,
		"a hop it calls out":     "Connection: Content-Length\r\nContent-Length: 4\r\n\r\nbody" + hidden,
		"a host of two lines":    "Content-Length: 0\r\nHost: y\r\n\r\n" + hidden,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patient))
		one := "/" + strings.ReplaceAll(name, " ", "-")
		_, _ = io.WriteString(conn, strings.Replace(head, "/%s", one, 1)+rest)
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		mu.Lock()
		times := 0
		for _, s := range seen {
			if strings.HasPrefix(s, one+" ") {
				times++
			}
			if strings.HasPrefix(s, "/hidden") {
				t.Errorf("%s: a replica was asked %q; answer %.60q", name, s, answer)
			}
		}
		if times > 1 {
			t.Errorf("%s: a replica was asked %d times", name, times)
		}
		mu.Unlock()
	}
	if status, _ := w.get("/inference/chat/", "ann"); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

// TestFrames: gRPC's way, HTTP/2 without TLS: trailers, both directions at once, a replica that does not speak it, and frames
// that are none.
func TestFrames(t *testing.T) {
	w := newWorld(t)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	start := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = protocols
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	replica := start(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			rw.WriteHeader(505)
			return
		}
		rw.Header().Set("Content-Type", "application/grpc")
		rw.Header().Set("Trailer", "Grpc-Status")
		rw.WriteHeader(200)
		flush := http.NewResponseController(rw)
		_ = flush.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = io.WriteString(rw, "echo "+line)
			_ = flush.Flush()
		}
		rw.Header().Set("Grpc-Status", "0")
	}))
	w.serve("grpc", func(s *serving.ServiceEndpointsSpec) {
		s.Protocol = serving.GRPC
		s.Replicas = []serving.ServiceEndpoint{{Replica: "r", Address: replica.Listener.Addr().String(), Revision: 1}}
	})
	front := start(w.g)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	from, to := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/inference/grpc/pkg.Service/Method", from)
	req.Header.Set("Authorization", "Bearer "+secretOf("ann"))
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	in := bufio.NewReader(resp.Body)
	for _, text := range []string{"one\n", "two\n"} { // the second is written after the first was answered
		_, _ = io.WriteString(to, text)
		if line, err := in.ReadString('\n'); err != nil || line != "echo "+text {
			t.Fatalf("%q, %v", line, err)
		}
	}
	_ = to.Close()
	if _, err := io.ReadAll(in); err != nil || resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("trailers %v, %v", resp.Trailer, err)
	}
	_ = resp.Body.Close()

	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = garbage.Close() })
	go func() {
		for {
			c, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(bytes.Repeat([]byte{0xff}, 1<<10))
			_ = c.Close()
		}
	}()
	w.serve("bad", func(s *serving.ServiceEndpointsSpec) {
		s.Protocol = serving.GRPC
		s.Replicas = []serving.ServiceEndpoint{{Replica: "r", Address: garbage.Addr().String(), Revision: 1}}
	})
	if status, body, _ := w.do(w.request(http.MethodPost, "/inference/bad/x", "ann", strings.NewReader("x"))); status != 503 || !strings.Contains(body, "ServiceBroke") {
		t.Errorf("frames that are none: %d %s", status, body)
	}
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patient))
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+strings.Repeat("\xff", 1<<10))
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a client that sends no frames is not hung up on: %v", err)
	}
	if status, _ := w.get("/inference/grpc/", "ann"); status != 505 { // the replica's own word: it was asked without trailers
		t.Errorf("afterwards: %d", status)
	}
}

// TestLongAnswer: an answer that is no stream and begins after an hour comes, where the service has the time, and is cut where its user
// gave it less.
func TestLongAnswer(t *testing.T) { synctest.Test(t, testLongAnswer) }

func testLongAnswer(t *testing.T) {
	w, client := newBubble(t)
	long := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server hears of a client that leaves once it has its body
		select {
		case <-time.After(time.Hour): // of the bubble
			_, _ = io.WriteString(rw, "at last")
		case <-r.Context().Done():
		}
	})
	for name, c := range map[string]struct {
		timeout time.Duration
		status  int
		takes   time.Duration
	}{"patient": {2 * time.Hour, 200, time.Hour}, "hasty": {10 * time.Minute, 504, 10 * time.Minute}} {
		w.serve(name, func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(c.timeout) }, long)
		begun := time.Now()
		resp, err := client.Do(w.request(http.MethodPost, "/inference/"+name+"/", "ann", strings.NewReader("x")))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if took := time.Since(begun); err != nil || resp.StatusCode != c.status || took != c.takes || c.status == 200 && string(body) != "at last" {
			t.Errorf("%s: %d %q after %s, %v", name, resp.StatusCode, body, took, err)
		}
	}
}

// TestManyOpen: thousands of streams are open at once and silent for an hour, then each goes on; a client that leaves is gone for its
// replica, too.
func TestManyOpen(t *testing.T) { synctest.Test(t, testManyOpen) }

func testManyOpen(t *testing.T) {
	const streams = 2000
	w, client := newBubble(t)
	var inside, left atomic.Int64
	goOn := make(chan struct{})
	w.serve("sse", func(s *serving.ServiceEndpointsSpec) { s.MaxConcurrency = streams }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: first\n\n")
		_ = http.NewResponseController(rw).Flush()
		inside.Add(1)
		select {
		case <-goOn:
			_, _ = io.WriteString(rw, "data: last\n\n")
		case <-r.Context().Done():
			left.Add(1)
		}
	}))
	var bodies []io.ReadCloser
	for range streams {
		resp, err := client.Do(w.request(http.MethodGet, "/inference/sse/", "ann", nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len("data: first\n\n"))); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
	}
	synctest.Wait()
	if inside.Load() != streams || w.g.find("sse").load().Busy != streams {
		t.Fatalf("%d are open, its replica has %d", inside.Load(), w.g.find("sse").load().Busy)
	}
	time.Sleep(time.Hour) // of the bubble
	for _, body := range bodies[:streams/2] {
		_ = body.Close()
	}
	synctest.Wait()
	if left.Load() != streams/2 {
		t.Errorf("%d of %d that left are known to have left", left.Load(), streams/2)
	}
	close(goOn)
	for n, body := range bodies[streams/2:] {
		text, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil || string(text) != "data: last\n\n" {
			t.Fatalf("stream %d: %q, %v", n, text, err)
		}
	}
	synctest.Wait()
	if busy := w.g.find("sse").load().Busy; busy != 0 {
		t.Errorf("its replica is not free again: %d", busy)
	}
}

// TestFramesFromZero: a gRPC stream is begun while no replica is there, waits for the one that it starts, and is then carried both ways;
// a message whose length is a lie reaches the replica as it is, and no more of it is waited for or kept.
func TestFramesFromZero(t *testing.T) {
	w := newWorld(t)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	start := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = protocols
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	replica := start(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/grpc")
		rw.Header().Set("Trailer", "Grpc-Status")
		body := make([]byte, 8)
		n, err := io.ReadFull(r.Body, body[:5])
		if err == nil && body[1] == 0xff { // 4 GiB are announced
			rest, _ := io.ReadAll(r.Body)
			rw.Header().Set("Grpc-Status", fmt.Sprint(13+len(rest)))
			return
		}
		_, _ = rw.Write(body[:n])
		_ = http.NewResponseController(rw).Flush()
		_, _ = io.Copy(rw, r.Body)
		rw.Header().Set("Grpc-Status", "0")
	}))
	grpc := func(replicas ...serving.ServiceEndpoint) {
		w.serve("grpc", func(s *serving.ServiceEndpointsSpec) { s.Protocol, s.Replicas = serving.GRPC, replicas })
	}
	grpc()
	front := start(w.g)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	ask := func(body io.Reader) (*http.Response, error) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/inference/grpc/pkg.Service/Method", body)
		req.Header.Set("Authorization", "Bearer "+secretOf("ann"))
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		return transport.RoundTrip(req)
	}
	from, to := io.Pipe()
	type answer struct {
		resp *http.Response
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := ask(from)
		answered <- answer{resp, err}
	}()
	eventually(t, "the stream waits for a replica", func() bool { return w.g.find("grpc").waitingNow() == 1 })
	grpc(serving.ServiceEndpoint{Replica: "r", Address: replica.Listener.Addr().String(), Revision: 1})
	_, _ = io.WriteString(to, "\x00\x00\x00\x00\x00")
	a := <-answered
	if a.err != nil || a.resp.StatusCode != 200 {
		t.Fatal(a.resp, a.err)
	}
	_, _ = io.WriteString(to, "more")
	_ = to.Close()
	body, err := io.ReadAll(a.resp.Body)
	_ = a.resp.Body.Close()
	if err != nil || string(body) != "\x00\x00\x00\x00\x00more" || a.resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, trailers %v, %v", body, a.resp.Trailer, err)
	}
	resp, err := ask(strings.NewReader("\x00\xff\xff\xff\xffabc"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != 200 || resp.Trailer.Get("Grpc-Status") != "16" {
		t.Errorf("a message that lies: %d, trailers %v", resp.StatusCode, resp.Trailer)
	}
}
