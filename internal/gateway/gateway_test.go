package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// known is what a gateway reads of the store.
type known struct {
	store.Reader
	mu   sync.Mutex
	objs map[api.Key]api.Object
}

func (k *known) put(list ...api.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range list {
		k.objs[api.KeyOf(o)] = o
	}
}

func (k *known) Get(_ context.Context, key api.Key, _ int64) (api.Object, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.objs[key]; o != nil {
		return o, nil
	}
	return nil, fault.New(fault.NotFound, "NotFound", fault.T("no", "无"))
}

// world is a gateway before services that are handlers.
type world struct {
	t     testing.TB
	known *known
	g     *Gateway
	url   string
	start func(name string, h http.Handler) serving.ServiceEndpoint // nil: on this machine's loopback
}

func newWorld(t *testing.T) *world {
	w := newKnown(t)
	w.g = New(Config{Store: w.known, Cookies: true})
	close(w.g.filled) // tests tell it all that there is
	front := httptest.NewServer(w.g)
	t.Cleanup(front.Close)
	w.url = front.URL
	return w
}

// newKnown is what a gateway reads, without one.
func newKnown(t testing.TB) *world {
	k := &known{objs: map[api.Key]api.Object{}}
	w := &world{t: t, known: k}
	k.put(&api.Project{Meta: api.Meta{Name: "a"}, Spec: api.ProjectSpec{Members: []string{"ann"}}}, &api.Project{Meta: api.Meta{Name: "b"}, Spec: api.ProjectSpec{Members: []string{"bob"}}},
		&api.User{Meta: api.Meta{Name: "ann", ID: "user-1"}, Spec: api.UserSpec{Role: api.RoleMember}}, &api.User{Meta: api.Meta{Name: "bob"}, Spec: api.UserSpec{Role: api.RoleMember}}, &api.User{Meta: api.Meta{Name: "root"}, Spec: api.UserSpec{Role: api.RoleAdmin}})
	for _, u := range []string{"ann", "bob", "root"} {
		w.token(u, api.TokenSpec{User: u})
	}
	return w
}

func secretOf(name string) string { return "fermi_" + name + "_" + strings.Repeat("A", 43) }

func (w *world) token(name string, spec api.TokenSpec) {
	sum := sha256.Sum256([]byte(secretOf(name)))
	spec.Hash = hex.EncodeToString(sum[:])
	w.known.put(&api.Token{Meta: api.Meta{Name: name}, Spec: spec})
}

// serve makes a service of project a with a replica for each handler.
func (w *world) serve(name string, change func(*serving.ServiceEndpointsSpec), handlers ...http.Handler) (servers []*httptest.Server) {
	spec := serving.ServiceEndpointsSpec{ServiceID: "svc-" + name, Project: "a", Timeout: api.Duration(30 * time.Second), MaxConcurrency: 64, MaxQueue: 64}
	for i, h := range handlers {
		if w.start != nil {
			spec.Replicas = append(spec.Replicas, w.start(fmt.Sprint(name, "-", i), h))
			continue
		}
		s := httptest.NewServer(h)
		w.t.Cleanup(s.Close)
		servers = append(servers, s)
		spec.Replicas = append(spec.Replicas, serving.ServiceEndpoint{Replica: fmt.Sprint(name, "-", i), Address: s.Listener.Addr().String(), Revision: 1})
	}
	if change != nil {
		change(&spec)
	}
	w.g.take(&serving.ServiceEndpoints{Meta: api.Meta{Name: name}, Spec: spec})
	return servers
}

func (w *world) request(method, path, who string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+secretOf(who))
	}
	return req
}

func (w *world) do(req *http.Request) (int, string, http.Header) {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header
}

func (w *world) get(path, who string) (int, string) {
	w.t.Helper()
	status, body, _ := w.do(w.request(http.MethodGet, path, who, nil))
	return status, body
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Set-Cookie", "fermi_session=stolen")
	w.Header().Set("Content-Security-Policy", "default-src *")
	fmt.Fprintf(w, "%s %s %q auth=%q cookie=%q key=%q", r.Method, r.URL.RequestURI(), body, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Api-Key"))
}

// TestWhoMayAsk: a service is there for its project's members and those who look after the cluster, and for nobody else.
func TestWhoMayAsk(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", nil, http.HandlerFunc(echo))
	past := time.Now().Add(-time.Minute)
	w.token("key-a", api.TokenSpec{User: "root", Projects: []string{"a"}, Scope: serving.ScopeInference})
	w.token("key-b", api.TokenSpec{User: "root", Projects: []string{"b"}, Scope: serving.ScopeInference})
	w.token("old", api.TokenSpec{User: "ann", ExpiresAt: &past})
	w.token("task", api.TokenSpec{User: "ann", Task: "task-1"})
	w.token("session", api.TokenSpec{User: "ann", Use: api.UseSession, Epoch: "user-1.0"})
	w.token("stale", api.TokenSpec{User: "ann", Use: api.UseSession, Epoch: "user-1.9"})
	for who, want := range map[string]int{
		"ann": 200, "root": 200, "key-a": 200, "bob": 404, "key-b": 404, "task": 404, "": 401, "nobody": 401, "old": 401, "session": 401,
	} {
		if status, body := w.get("/inference/chat/x", who); status != want {
			t.Errorf("%q: %d, want %d: %s", who, status, want, body)
		}
	}
	// What one may not see looks as what is not there.
	_, hidden := w.get("/inference/chat/x", "bob")
	_, absent := w.get("/inference/nope/x", "bob")
	if strings.ReplaceAll(hidden, "chat", "nope") != absent {
		t.Errorf("%s and %s differ", hidden, absent)
	}
	for name, want := range map[string]int{"session": 200, "stale": 401, "ann": 401} { // a browser's
		req := w.request(http.MethodGet, "/inference/chat/x", "", nil)
		req.AddCookie(&http.Cookie{Name: plainCookie, Value: secretOf(name)})
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		if status, body, _ := w.do(req); status != want {
			t.Errorf("cookie %s: %d %s", name, status, body)
		}
	}
	for _, origin := range []string{"", "http://evil.example", "null"} { // another page's
		req := w.request(http.MethodPost, "/inference/chat/x", "", strings.NewReader("x"))
		req.AddCookie(&http.Cookie{Name: plainCookie, Value: secretOf("session")})
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if status, body, _ := w.do(req); status != 403 {
			t.Errorf("origin %q: %d %s", origin, status, body)
		}
	}
	req := w.request(http.MethodGet, "/inference/chat/x", "", nil)
	req.Header.Set("X-Api-Key", secretOf("key-a"))
	if status, body, _ := w.do(req); status != 200 || strings.Contains(body, "fermi_") {
		t.Errorf("key: %d %s", status, body)
	}
}

// TestPassedOn: path, query, method and body arrive as they are; no secret of the caller does, and nothing comes back that
// would act in the console's name.
func TestRefusedTokensAreTold(t *testing.T) {
	w := newWorld(t)
	w.serve("svc", nil, http.HandlerFunc(echo))
	var tried []string
	enough := fault.New(fault.TooMany, "TooManyRefusals", fault.T("Enough.", "够了。"))
	w.g.cfg.Refused = func(_ *http.Request, name string, why *fault.Error) error {
		if tried = append(tried, name); why.Reason != "BadToken" {
			t.Errorf("told of %v", why)
		}
		if len(tried) > 2 {
			return enough
		}
		return nil
	}
	for i, want := range []int{401, 401, 429} {
		req := w.request("GET", "/inference/svc/x", "", nil)
		req.Header.Set("Authorization", "Bearer "+secretOf("nobody"))
		if i == 1 {
			req.Header.Del("Authorization")
			req.Header.Set("X-Api-Key", "guess")
		}
		if status, body, _ := w.do(req); status != want {
			t.Errorf("try %d: %d %s", i, status, body)
		}
	}
	if status, _, _ := w.do(w.request("GET", "/inference/svc/x", "", nil)); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if want := []string{"nobody", "", "nobody"}; !slices.Equal(tried, want) {
		t.Errorf("told of %q, not %q", tried, want)
	}
}

func TestPassedOn(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", nil, http.HandlerFunc(echo))
	req := w.request(http.MethodPut, "/inference/chat/a%2Fb/c?d=e%20f;g", "ann", strings.NewReader("body"))
	req.Header.Set("Cookie", "fermi_session=x")
	status, body, h := w.do(req)
	if status != 200 || body != `PUT /a%2Fb/c?d=e%20f;g "body" auth="" cookie="" key=""` {
		t.Errorf("%d %s", status, body)
	}
	if h.Get("Set-Cookie") != "" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") || len(h.Values("Content-Security-Policy")) != 1 {
		t.Errorf("headers: %v", h)
	}
	if status, body := w.get("/inference/chat", "ann"); status != 200 || !strings.HasPrefix(body, "GET / ") {
		t.Errorf("%d %s", status, body)
	}
	large := strings.Repeat("x", 3*keepBody)
	if status, body, _ := w.do(w.request(http.MethodPost, "/inference/chat/", "ann", strings.NewReader(large))); status != 200 || !strings.Contains(body, large) {
		t.Errorf("%d, %d bytes", status, len(body))
	}
}

// TestRetries: idempotent questions survive a replica that dies, others are not asked twice, and answers that have begun
// are cut and never repeated.
func TestRetries(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	dies := func(answer string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			conn, buf, _ := rw.(http.Hijacker).Hijack()
			_, _ = buf.WriteString(answer)
			_ = buf.Flush()
			_ = conn.Close()
		})
	}
	good := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "good") })
	w.serve("dies", nil, dies(""), good)
	w.serve("short", nil, dies("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), good)
	for range 30 {
		for _, name := range []string{"dies", "short"} {
			if status, body := w.get("/inference/"+name+"/", "ann"); status != 200 || body != "good" {
				t.Fatalf("%s: %d %s", name, status, body)
			}
		}
	}
	asked.Store(0)
	w.serve("post", nil, dies(""))
	if status, body, h := w.do(w.request(http.MethodPost, "/inference/post/", "ann", strings.NewReader("x"))); status != 503 || h.Get("Retry-After") == "" || !strings.Contains(body, "ServiceBroke") || asked.Load() != 1 {
		t.Errorf("%d %s, asked %d times", status, body, asked.Load())
	}
	asked.Store(0)
	w.serve("stream", nil, dies("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"))
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, "/inference/stream/", "ann", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "first" || err == nil || asked.Load() != 1 {
		t.Errorf("%q, %v, asked %d times: a cut answer must look cut", body, err, asked.Load())
	}
}

// TestEnds: answers end as HTTP lets them end: without a body, with the connection, and with neither length nor body.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	raw := func(answer string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			conn, buf, _ := rw.(http.Hijacker).Hijack()
			defer conn.Close()
			_, _ = buf.WriteString(answer)
			_ = buf.Flush()
			if r.Method == http.MethodHead {
				_, _ = io.Copy(io.Discard, conn) // it keeps the connection
			}
		})
	}
	w.serve("close", nil, raw("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end"))
	if status, body := w.get("/inference/close/", "ann"); status != 200 || body != "to the end" {
		t.Errorf("%d %q", status, body)
	}
	w.serve("head", nil, raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"))
	if status, body, _ := w.do(w.request(http.MethodHead, "/inference/head/", "ann", nil)); status != 200 || body != "" {
		t.Errorf("%d %q", status, body)
	}
	w.serve("none", nil, raw("HTTP/1.1 204 No Content\r\n\r\n"))
	if status, body := w.get("/inference/none/", "ann"); status != 204 || body != "" {
		t.Errorf("%d %q", status, body)
	}
}

// TestNobodyListens: a connection that is refused was no question: also a POST finds the other replica, and one that comes
// only later.
func TestNobodyListens(t *testing.T) {
	w := newWorld(t)
	dead := foreign.Nobody(t)
	w.serve("half", func(s *serving.ServiceEndpointsSpec) {
		s.Replicas = append(s.Replicas, serving.ServiceEndpoint{Replica: "dead", Address: dead})
	}, http.HandlerFunc(echo))
	for range 20 {
		if status, body, _ := w.do(w.request(http.MethodPost, "/inference/half/", "ann", strings.NewReader("x"))); status != 200 || !strings.Contains(body, `"x"`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	w.serve("late", func(s *serving.ServiceEndpointsSpec) {
		s.Replicas = []serving.ServiceEndpoint{{Replica: "dead", Address: dead}}
	})
	done := make(chan int, 1)
	go func() {
		status, _, _ := w.do(w.request(http.MethodPost, "/inference/late/", "ann", strings.NewReader("x")))
		done <- status
	}()
	eventually(t, "it waits", func() bool { return w.g.find("late").waitingNow() > 0 || w.g.find("late").meters.Load() != nil })
	w.serve("late", nil, http.HandlerFunc(echo))
	if status := <-done; status != 200 {
		t.Errorf("%d", status)
	}
	w.serve("none", func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(50 * time.Millisecond) })
	if status, body := w.get("/inference/none/", "ann"); status != 503 || !strings.Contains(body, "NoReplica") {
		t.Errorf("%d %s", status, body)
	}
	w.serve("stopped", func(s *serving.ServiceEndpointsSpec) { s.Stopped = true })
	if status, body := w.get("/inference/stopped/", "ann"); status != 503 || !strings.Contains(body, "ServiceStopped") {
		t.Errorf("%d %s", status, body)
	}
}

// TestBounds: no replica has more requests than it may, so many wait, the next is told to come back, and one that waits
// too long is told so.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	var now, most atomic.Int32
	release := make(chan struct{})
	busy := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		_, _ = io.WriteString(rw, "done")
	})
	w.serve("busy", func(s *serving.ServiceEndpointsSpec) { s.MaxConcurrency, s.MaxQueue = 2, 3 }, busy)
	results := make(chan int, 16)
	ask := func() {
		status, _, _ := w.do(w.request(http.MethodGet, "/inference/busy/", "ann", nil))
		results <- status
	}
	for range 5 {
		go ask()
	}
	s := w.g.find("busy")
	eventually(t, "two are worked on and three wait", func() bool { return s.waitingNow() == 3 && now.Load() == 2 })
	status, body, h := w.do(w.request(http.MethodGet, "/inference/busy/", "ann", nil))
	if status != 429 || h.Get("Retry-After") == "" || !strings.Contains(body, "QueueFull") {
		t.Errorf("%d %s", status, body)
	}
	close(release)
	for range 5 {
		if status := <-results; status != 200 {
			t.Errorf("%d", status)
		}
	}
	if most.Load() > 2 {
		t.Errorf("%d at once", most.Load())
	}
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.serve("slow", func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(500 * time.Millisecond) }, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	}))
	if status, body := w.get("/inference/slow/", "ann"); status != 504 || !strings.Contains(body, "ServiceTimeout") {
		t.Errorf("%d %s", status, body)
	}
}

// TestStreams: each chunk arrives before the next is written, also a day after the time limit of the first byte; a WebSocket
// is carried both ways.
func TestStreams(t *testing.T) { synctest.Test(t, testStreams) }

func testStreams(t *testing.T) {
	w, client := newBubble(t)
	next := make(chan struct{})
	w.serve("sse", func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(300 * time.Millisecond) }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
			if err != nil {
				return
			}
			defer conn.CloseNow()
			for {
				kind, data, err := conn.Read(r.Context())
				if err != nil || conn.Write(r.Context(), kind, append([]byte("echo "), data...)) != nil {
					return
				}
			}
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		for i := range 4 {
			fmt.Fprintf(rw, "data: %d\n\n", i)
			_ = http.NewResponseController(rw).Flush()
			<-next
		}
	}))
	resp, err := client.Do(w.request(http.MethodGet, "/inference/sse/", "ann", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 4 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = lines.ReadString('\n')
		if i == 1 {
			time.Sleep(24 * time.Hour) // of the bubble
		}
		next <- struct{}{}
	}
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(w.url, "http", "ws", 1)+"/inference/sse/ws", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + secretOf("ann")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	for _, text := range []string{"one", "two"} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "echo "+text {
			t.Fatalf("%s, %v", data, err)
		}
	}
}

// TestOpenAI: the model is the service's name, the question arrives whole, and what is unknown is said in OpenAI's shape.
func TestOpenAI(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", nil, http.HandlerFunc(echo))
	w.serve("other", func(s *serving.ServiceEndpointsSpec) { s.Project = "b" }, http.HandlerFunc(echo))
	question := `{"model":"chat/adapter","messages":[]}`
	if status, body, _ := w.do(w.request(http.MethodPost, "/v1/chat/completions", "ann", strings.NewReader(question))); status != 200 || !strings.HasPrefix(body, fmt.Sprintf("POST /v1/chat/completions %q", question)) {
		t.Errorf("%d %s", status, body)
	}
	for body, want := range map[string]int{`{"model":"nope"}`: 404, `{"model":"other"}`: 404, `{}`: 400, `not json`: 400} {
		status, answer, _ := w.do(w.request(http.MethodPost, "/v1/chat/completions", "ann", strings.NewReader(body)))
		var e struct {
			Error struct{ Message, Type string }
		}
		if status != want || json.Unmarshal([]byte(answer), &e) != nil || e.Error.Message == "" || e.Error.Type == "" {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, body := w.get("/v1/models", "ann"); status != 200 || !strings.Contains(body, `"chat"`) || strings.Contains(body, `"other"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := w.get("/v1/models", ""); status != 401 {
		t.Errorf("%d", status)
	}
}

// TestBusyness: of two replicas the one with fewer requests is asked more often.
func TestBusyness(t *testing.T) {
	s := newService("x", "id", "p", New(Config{}).cfg.Clock)
	s.take(&serving.ServiceEndpointsSpec{MaxConcurrency: 1000, MaxQueue: 1, Replicas: []serving.ServiceEndpoint{{Replica: "a", Address: "a:1"}, {Replica: "b", Address: "b:1"}}})
	for range 100 {
		if _, err := s.acquire(t.Context(), time.Now().Add(time.Minute), want{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := s.replicas[0].busy, s.replicas[1].busy; a+b != 100 || a < 40 || b < 40 {
		t.Errorf("%d and %d", a, b)
	}
	s.take(&serving.ServiceEndpointsSpec{MaxConcurrency: 1000, MaxQueue: 1, Replicas: []serving.ServiceEndpoint{{Replica: "b", Address: "b:1"}}})
	if len(s.replicas) != 1 || s.replicas[0].busy == 0 {
		t.Errorf("what stays is forgotten: %+v", s.replicas)
	}
}

// TestFar: replicas on machines that joined are reached through their agents; two that have one address inside are not mixed up, in HTTP/1.1 and HTTP/2.
func TestFar(t *testing.T) {
	w := newWorld(t)
	machines := map[string]string{}
	spec := serving.ServiceEndpointsSpec{ServiceID: "svc-far", Project: "a", Timeout: api.Duration(30 * time.Second), MaxConcurrency: 64, MaxQueue: 64}
	for _, node := range []string{"n1", "n2"} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, node, " ", r.ProtoMajor) }))
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		t.Cleanup(s.Close)
		machines[node] = s.Listener.Addr().String()
		spec.Replicas = append(spec.Replicas, serving.ServiceEndpoint{
			Replica: "far-" + node, Address: "10.77.0.2:8000", Revision: 1, Via: &serving.Via{Node: node, Agent: "192.0.2.1:7073", Replica: "srep-" + node},
		})
	}
	dial := func(ctx context.Context, v serving.Via, port int) (net.Conn, error) {
		if port != 8000 || v.Agent != "192.0.2.1:7073" || v.Replica != "srep-"+v.Node {
			return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("%+v %d", v, port)}
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", machines[v.Node])
	}
	w.g = New(Config{Store: w.known, Far: dial})
	close(w.g.filled)
	front := httptest.NewServer(w.g)
	t.Cleanup(front.Close)
	w.url = front.URL
	by := map[string]int{}
	for _, kind := range []string{"", "application/grpc"} {
		spec.ServiceID += "x"
		w.g.take(&serving.ServiceEndpoints{Meta: api.Meta{Name: "far"}, Spec: spec})
		for range 40 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/inference/far/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+secretOf("ann"))
			if kind != "" {
				req.Header.Set("Content-Type", kind)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%d %s %v", resp.StatusCode, text, err)
			}
			by[string(text)]++
		}
	}
	if len(by) != 4 {
		t.Errorf("who answered: %v", by)
	}
}
