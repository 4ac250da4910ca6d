package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

func says(text string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) })
}

// wants gives endpoints what their service wants of gateways.
func wants(g serving.ServiceGateway) func(*serving.ServiceEndpointsSpec) {
	return func(s *serving.ServiceEndpointsSpec) { s.Gateway = &g }
}

// TestHosts: a service has a host name of its own, where the whole path is its own and no session of the console counts; a
// client of gRPC may name it in a header.
func TestHosts(t *testing.T) {
	w := newWorld(t)
	w.g.cfg.Domain = "apps.example.com"
	w.serve("chat", nil, http.HandlerFunc(echo))
	for host, want := range map[string]int{
		"svc--chat.localhost": 200, "SVC--Chat.localhost:7070": 200, "svc--chat.apps.example.com": 200, "svc--chat.localhost.": 200,
		"svc--other.localhost": 404, "svc--chat.evil.com": 404, "chat.localhost": 404, "svc--chat": 404, "svc--.localhost": 404,
	} {
		req := w.request(http.MethodGet, "/inference/x/v2?a=b", "ann", nil)
		req.Host = host
		status, body, _ := w.do(req)
		if status != want || status == 200 && !strings.HasPrefix(body, "GET /inference/x/v2?a=b ") {
			t.Errorf("%s: %d %s", host, status, body)
		}
	}
	sum := w.request(http.MethodGet, "/x", "", nil)
	sum.Host = "svc--chat.localhost"
	sum.AddCookie(&http.Cookie{Name: plainCookie, Value: secretOf("ann")})
	sum.Header.Set("Sec-Fetch-Site", "same-origin")
	if status, _, _ := w.do(sum); status != 401 {
		t.Errorf("a session counts at a service's own host: %d", status)
	}
	for _, c := range []struct {
		major int
		kind  string
		path  string
		want  string
	}{{2, "application/grpc", "/inference.GRPCInferenceService/ModelInfer", "chat"}, {2, "application/grpc+proto", "/pkg.S/M", "chat"}, {1, "application/grpc", "/pkg.S/M", ""}, {2, "text/plain", "/pkg.S/M", ""}, {2, "application/grpc", "/inference/other/x", ""}} {
		r := &http.Request{ProtoMajor: c.major, Host: "localhost", URL: w.request(http.MethodPost, c.path, "", nil).URL, Header: http.Header{serviceHeader: {"chat"}, "Content-Type": {c.kind}}}
		if got := w.g.named(r); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestCache: the same question is answered from what was kept until its time is over, another one is not, and what a service
// or a caller forbids is never kept. A new revision begins with nothing.
func TestCache(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int64
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/mine" {
			rw.Header().Set("Cache-Control", "private")
		}
		rw.Header().Add("Vary", "accept-encoding, Accept")
		if r.URL.Path == "/each" {
			rw.Header().Add("Vary", "Accept, X-User")
		}
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("%d %s", asked.Add(1), body)
		rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if r.URL.Path == "/bad" {
			rw.WriteHeader(500)
		}
		_, _ = io.WriteString(rw, text)
	})
	wish := wants(serving.ServiceGateway{Cache: &serving.ResponseCache{TTL: api.Duration(time.Hour), Bytes: 1 << 20}})
	servers := w.serve("chat", wish, handler)
	ask := func(path, body string, header ...string) (string, string) {
		req := w.request(http.MethodPost, "/inference/chat"+path, "ann", strings.NewReader(body))
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		_, text, h := w.do(req)
		return text, h.Get(cacheHeader)
	}
	for i, c := range []struct {
		path, body string
		header     []string
		want, how  string
	}{
		{"/", "a", nil, "1 a", "miss"}, {"/", "a", nil, "1 a", "hit"}, {"/", "b", nil, "2 b", "miss"}, {"/x", "a", nil, "3 a", "miss"}, {"/?q", "a", nil, "4 a", "miss"},
		{"/", "a", []string{"Accept", "text/plain"}, "5 a", "miss"}, {"/", "a", []string{"Cache-Control", "no-cache"}, "6 a", ""}, {"/", "a", nil, "1 a", "hit"},
		{"/mine", "a", nil, "7 a", "miss"}, {"/mine", "a", nil, "8 a", "miss"}, {"/bad", "a", nil, "9 a", "miss"}, {"/bad", "a", nil, "10 a", "miss"},
		{"/each", "a", []string{"X-User", "ann"}, "11 a", "miss"}, {"/each", "a", []string{"X-User", "bob"}, "12 a", "miss"},
	} {
		if text, how := ask(c.path, c.body, c.header...); text != c.want || how != c.how {
			t.Errorf("question %d: %q %q instead of %q %q", i, text, how, c.want, c.how)
		}
	}
	again := func(revision int) {
		w.g.take(&serving.ServiceEndpoints{Meta: api.Meta{Name: "chat"}, Spec: func() serving.ServiceEndpointsSpec {
			s := *w.g.find("chat").settings()
			s.Replicas = []serving.ServiceEndpoint{{Replica: "chat-0", Address: servers[0].Listener.Addr().String(), Revision: revision}}
			return s
		}()})
	}
	if again(1); w.g.find("chat") != nil {
		if text, _ := ask("/", "a"); text != "1 a" {
			t.Errorf("endpoints that say the same: %q", text)
		}
	}
	again(2)
	if text, _ := ask("/", "a"); text == "1 a" {
		t.Error("a new revision answers with what the old one said")
	}
}

// TestAffinity: questions that begin alike go to one replica, others are spread, and one that has clearly more to do is left.
func TestAffinity(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	by := map[string]map[string]int{}
	hold := make(chan struct{})
	var held atomic.Int32
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			who := string(body[:4])
			if by[who] == nil {
				by[who] = map[string]int{}
			}
			by[who][name]++
			mu.Unlock()
			if strings.HasSuffix(string(body), "hold") {
				held.Add(1)
				<-hold
			}
			_, _ = io.WriteString(rw, name)
		})
	}
	w.serve("chat", wants(serving.ServiceGateway{Affinity: serving.AffinityPrefix}), handler("a"), handler("b"), handler("c"), handler("d"))
	ask := func(n int, end string) string {
		_, text, _ := w.do(w.request(http.MethodPost, "/inference/chat/", "ann", strings.NewReader(strings.Repeat(fmt.Sprintf("%04d", n), 512)+end)))
		return text
	}
	for round := range 8 {
		for n := range 12 {
			ask(n, fmt.Sprint("question ", round))
		}
	}
	used := map[string]bool{}
	for who, names := range by {
		if len(names) != 1 {
			t.Errorf("%s was answered by %v", who, names)
		}
		for name := range names {
			used[name] = true
		}
	}
	if len(used) < 2 {
		t.Errorf("all went to %v", used)
	}
	home := ask(0, "")
	var asking sync.WaitGroup
	for range 6 {
		asking.Go(func() { ask(0, "hold") })
	}
	eventually(t, "six are held", func() bool { return held.Load() == 6 })
	if other := ask(0, ""); other == home && w.g.find("chat").load().Busy > 6 {
		t.Errorf("%s answers although it has more to do than a beginning is worth", other)
	}
	mu.Lock()
	spread := len(by["0000"])
	mu.Unlock()
	if spread < 2 {
		t.Error("a beginning that many ask for is answered by one replica alone")
	}
	close(hold)
	asking.Wait()
	eventually(t, "nobody is held", func() bool { return w.g.find("chat").load().Busy == 0 })
}

// TestHedge: a question that may be asked twice is asked of a second replica when the first is late, its own late answer
// goes to nobody, and both are free again; one that may not is asked once.
func TestHedge(t *testing.T) { synctest.Test(t, testHedge) }

func testHedge(t *testing.T) {
	w, client := newBubble(t)
	var asked atomic.Int32
	first := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise it does not see that nobody waits any more
		if asked.Add(1) == 1 {
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(rw, "answer")
	})
	w.serve("slow", wants(serving.ServiceGateway{Hedge: api.Duration(100 * time.Millisecond)}), first, first)
	begun := time.Now()
	resp, err := client.Do(w.request(http.MethodGet, "/inference/slow/", "ann", nil))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if took := time.Since(begun); string(body) != "answer" || took != 100*time.Millisecond || asked.Load() != 2 {
		t.Errorf("%s after %s, asked %d times", body, took, asked.Load())
	}
	synctest.Wait()
	if l := w.g.find("slow").load(); l.Busy != 0 {
		t.Errorf("%d are busy", l.Busy)
	}
	asked.Store(0)
	begun = time.Now()
	resp, err = client.Do(w.request(http.MethodPost, "/inference/slow/", "ann", strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if took := time.Since(begun); took < 30*time.Second || asked.Load() != 1 {
		t.Errorf("a POST: %d after %s, asked %d times", resp.StatusCode, took, asked.Load())
	}
	synctest.Wait()
	if l := w.g.find("slow").load(); l.Busy != 0 {
		t.Errorf("%d are busy after the POST", l.Busy)
	}
}

// TestPing: a client that waits for events hears something each while, then the events as they are; what goes wrong after
// that comes as an event. Who waits for anything else hears nothing.
func TestPing(t *testing.T) { synctest.Test(t, testPing) }

func testPing(t *testing.T) {
	w, client := newBubble(t)
	w.serve("llm", func(s *serving.ServiceEndpointsSpec) {
		s.Timeout = api.Duration(10 * time.Minute)
		s.Gateway = &serving.ServiceGateway{Ping: api.Duration(15 * time.Second)}
	}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(40 * time.Second) // of the bubble
		switch {
		case strings.Contains(string(body), "fail"):
			rw.Header().Set("Content-Length", "4")
			rw.WriteHeader(500)
			_, _ = io.WriteString(rw, "oops")
		case strings.Contains(string(body), "true"):
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: one\n\n")
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(time.Hour)
			_, _ = io.WriteString(rw, "data: [DONE]\n\n")
		default:
			_, _ = io.WriteString(rw, "whole")
		}
	}))
	for body, want := range map[string]string{
		`{"model":"llm","stream": true}`:               "200 : ping\n\n: ping\n\ndata: one\n\ndata: [DONE]\n\n",
		`{"model":"llm","stream" : true,"x":"fail"}`:   "200 : ping\n\n: ping\n\nevent: error\ndata: oops\n\n",
		`{"model":"llm","stream": false}`:              "200 whole",
		`{"model":"llm","m":"say \"stream\": true x"}`: "200 data: ", // the replica streams by itself
	} {
		resp, err := client.Do(w.request(http.MethodPost, "/v1/chat/completions", "ann", strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// TestSlowBodies: who sends a body drop by drop holds a replica no longer than its bytes are worth; who sends as others do is
// served, however large the body.
func TestSlowBodies(t *testing.T) { synctest.Test(t, testSlowBodies) }

func testSlowBodies(t *testing.T) {
	w, client := newBubble(t)
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) { s.Timeout = api.Duration(24 * time.Hour) }, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(rw, n)
	}))
	send := func(piece int, pause time.Duration, times int) (*http.Response, time.Duration, error) {
		from, to := io.Pipe()
		go func() {
			for range times {
				if _, err := to.Write(make([]byte, piece)); err != nil {
					return
				}
				time.Sleep(pause) // of the bubble
			}
			_ = to.Close()
		}()
		begun := time.Now()
		resp, err := client.Do(w.request(http.MethodPost, "/inference/chat/", "ann", from))
		_ = from.Close()
		return resp, time.Since(begun), err
	}
	resp, took, err := send(1, 5*time.Second, 1000)
	if err == nil {
		text, _ := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("a loris is answered %d %s", resp.StatusCode, text)
		}
	}
	if took > bodyIn+10*time.Second {
		t.Errorf("a loris held on for %s", took)
	}
	synctest.Wait()
	if l := w.g.find("chat").load(); l.Busy != 0 {
		t.Errorf("it holds %d still", l.Busy)
	}
	resp, took, err = send(10<<10, time.Second, 300) // 3 MB in five minutes
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != fmt.Sprint(300*10<<10) || took < 5*time.Minute {
		t.Errorf("%s after %s", body, took)
	}
}

// TestZones: requests are shared by the zones' weights, one of a region goes to the zone that serves it, a zone that fails
// loses its share at once and gets it back slowly, and a backup answers only while no other does.
func TestZones(t *testing.T) {
	w := newWorld(t)
	list := []serving.ServiceZone{{Zone: "east", Weight: 80, Role: serving.ZonePrimary}, {Zone: "west", Weight: 20, Role: serving.ZonePrimary, Serves: []string{"xj"}}, {Zone: "far", Weight: 100, Role: serving.ZoneBackup}}
	servers := w.serve("chat", func(s *serving.ServiceEndpointsSpec) {
		s.Road.Zones = list
		for i := range s.Replicas {
			s.Replicas[i].Zone = list[i].Zone
		}
	}, says("east"), says("west"), says("far"))
	s := w.g.find("chat")
	now := &moment{at: time.Unix(1e9, 0)}
	s.clock = now
	share := func(region string) map[string]int {
		got := map[string]int{}
		for range 1000 {
			req := w.request(http.MethodGet, "/inference/chat/", "ann", nil)
			if region != "" {
				req.Header.Set(regionHeader, region)
			}
			status, body, _ := w.do(req)
			if status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			got[body]++
		}
		return got
	}
	between := func(what string, n, low, high int) {
		t.Helper()
		if n < low || n > high {
			t.Errorf("%s: %d of 1000, not %d to %d", what, n, low, high)
		}
	}
	got := share("")
	between("east by weight", got["east"], 740, 860)
	between("the backup", got["far"], 0, 0)
	between("west, for its region", share("xj")["west"], 1000, 1000)
	between("a region that nobody serves", share("mars")["east"], 740, 860)

	kill := func(name string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.replicas {
			if r.zone == name {
				r.away = now.Now().Add(5 * time.Second)
			}
		}
	}
	kill("east")
	between("west, while east is away", share("")["west"], 1000, 1000)
	kill("west")
	between("the backup, while nobody else answers", share("")["far"], 1000, 1000)
	now.add(6 * time.Second)
	got = share("") // both came back together: their weights count
	between("east again", got["east"], 700, 880)
	now.add(zoneReturns)
	share("")
	kill("east")
	share("")
	now.add(6 * time.Second)
	between("east, when it has just come back", share("")["east"], 150, 420) // 8 of 28
	now.add(zoneReturns)
	between("east, a minute later", share("")["east"], 740, 860)

	// A zone that is gone for good, its questions under way included, costs none that may be asked twice.
	servers[0].Close()
	got = share("")
	between("west, when east is dead", got["west"], 990, 1000)
}

// TestZonesBalance: a zone that is nearly full gives requests to the least busy primary zone where that is wished, more the fuller it is, and none to a backup.
func TestZonesBalance(t *testing.T) {
	w := newWorld(t)
	list := []serving.ServiceZone{{Zone: "east", Weight: 100, Role: serving.ZonePrimary}, {Zone: "west", Weight: 1, Role: serving.ZonePrimary}, {Zone: "south", Weight: 1, Role: serving.ZonePrimary}, {Zone: "far", Weight: 1, Role: serving.ZoneBackup}}
	var endpoints serving.ServiceEndpointsSpec
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) {
		s.Road.Zones, s.MaxConcurrency = list, 100
		for i := range s.Replicas {
			s.Replicas[i].Zone = list[i].Zone
		}
		endpoints = *s
	}, says("east"), says("west"), says("south"), says("far"))
	s := w.g.find("chat")
	chosen := func(how serving.ZoneSharing, busy ...int) map[string]int {
		spec := endpoints
		spec.Gateway = &serving.ServiceGateway{Zones: how}
		s.take(&spec)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, r := range s.replicas {
			r.busy = busy[i]
		}
		got := map[string]int{}
		for range 2000 {
			got[s.choose(&want{}, nil).zone]++
		}
		return got
	}
	for _, c := range []struct {
		how       serving.ZoneSharing
		busy      []int
		low, high int // of those for east
		takes     string
	}{
		{serving.ZonesBalanced, []int{70, 10, 20, 0}, 1900, 2000, ""},
		{serving.ZonesBalanced, []int{85, 10, 20, 0}, 800, 1150, "west"}, // half of them
		{serving.ZonesBalanced, []int{99, 30, 20, 0}, 0, 150, "south"},
		{serving.ZonesBalanced, []int{99, 99, 99, 0}, 1900, 2000, ""}, // nobody has less to do
		{serving.ZonesBalanced, []int{100, 100, 99, 0}, 0, 0, "south"},
		{serving.ZonesWeighted, []int{99, 10, 20, 0}, 1900, 2000, ""},
		{"", []int{99, 10, 20, 0}, 1900, 2000, ""},
	} {
		got := chosen(c.how, c.busy...)
		if n := got["east"]; n < c.low || n > c.high || got["far"] > 0 || c.takes != "" && got[c.takes] < 1900-n {
			t.Errorf("%s, %v busy: %v", c.how, c.busy, got)
		}
	}
	// Engines say that more waits in them than we have sent.
	spec := endpoints
	spec.Gateway = &serving.ServiceGateway{Zones: serving.ZonesBalanced}
	s.take(&spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.replicas {
		r.busy = []int{50, 10, 20, 0}[i]
	}
	now := s.clock.Now()
	s.replicas[0].said.at, s.replicas[0].said.Waiting = now, 60
	if got := s.relieve("east", now); got != "west" {
		t.Errorf("%s", got)
	}
}

// moment is a clock that stands.
type moment struct {
	mu sync.Mutex
	at time.Time
}

func (m *moment) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *moment) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (m *moment) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}

// TestBadHeads: a head that is too large is refused at both ends, and a replica that closes in the middle of a body leaves a
// cut answer, never one that looks whole; other services go on.
func TestBadHeads(t *testing.T) {
	w := newWorld(t)
	w.serve("chat", nil, http.HandlerFunc(echo))
	w.serve("big", nil, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Big", strings.Repeat("x", 2*maxHeaders))
	}))
	w.serve("half", nil, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(4*keepAnswer))
		_, _ = rw.Write(make([]byte, keepAnswer))
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}))
	if status, body := w.get("/inference/big/", "ann"); status != 503 || !strings.Contains(body, "ServiceBroke") {
		t.Errorf("a head of a replica that is too large: %d %s", status, body)
	}
	resp, err := http.DefaultClient.Do(w.request(http.MethodPost, "/inference/half/", "ann", strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, bufio.NewReader(resp.Body))
	_ = resp.Body.Close()
	if err == nil || n >= 4*keepAnswer {
		t.Errorf("half an answer looks whole: %d bytes, %v", n, err)
	}
	if status, _ := w.get("/inference/chat/", "ann"); status != 200 {
		t.Errorf("another service: %d", status)
	}
}
