package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestUsage: the tokens of an answer are found wherever the pieces are cut, and nothing else is taken for them.
func TestUsage(t *testing.T) {
	for text, want := range map[string]int64{
		`{"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}`:                            12,
		`{"usage":{"total_tokens":3,"x":1}}`:                                                                     3,
		"data: {\"usage\":null}\n\ndata: {\"usage\":{\"total_tokens\":4}}\n\ndata: {\"total_tokens\" : 41 }\n\n": 41,
		"data: {}\n\ndata: {}\n\ndata: [DONE]\n\n":                                                               3,
		`{"total_tokens": "many"}`:                                                                               0,
		`{"total_tokens": 99999999999999999999}`:                                                                 0,
	} {
		for size := 1; size <= len(text); size++ {
			u := usage{}
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				u.see([]byte(rest[:min(size, len(rest))]), strings.HasPrefix(text, "data"))
			}
			if got := u.total; got != want && want > 3 || want == 0 && got != 0 {
				t.Errorf("%s in pieces of %d: %d tokens, not %d", text, size, got, want)
			}
		}
		u := usage{}
		if u.see([]byte(text), strings.HasPrefix(text, "data")); u.tokens() != want {
			t.Errorf("%s: %d tokens, not %d", text, u.tokens(), want)
		}
	}
}

// TestKeyLimits: a key has so many requests and tokens a minute; others and time are not held up by it.
func TestKeyLimits(t *testing.T) {
	w := newWorld(t)
	w.token("few", api.TokenSpec{User: "ann", Limits: &api.KeyLimits{RequestsPerMinute: 2}})
	w.token("tokens", api.TokenSpec{User: "ann", Limits: &api.KeyLimits{TokensPerMinute: 10}})
	w.serve("chat", nil, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"usage":{"total_tokens":11}}`)
	}))
	for who, want := range map[string][]int{"few": {200, 200, 429}, "tokens": {200, 429, 429}, "ann": {200, 200, 200}} {
		for i, status := range want {
			got, body, h := w.do(w.request(http.MethodGet, "/inference/chat/", who, nil))
			if got != status || status == 429 && (h.Get("Retry-After") == "" || !strings.Contains(body, "KeyLimit")) {
				t.Errorf("%s, request %d: %d %s", who, i+1, got, body)
			}
		}
	}
	now, l, limit := time.Now(), &limits{}, &api.KeyLimits{RequestsPerMinute: 60}
	for range 60 {
		if err := l.take("k", limit, now); err != nil {
			t.Fatal(err)
		}
	}
	if l.take("k", limit, now) == nil || l.take("k", limit, now.Add(time.Second)) != nil {
		t.Error("a second later there is one more, and not before")
	}
}

// TestOutlier: a replica that only answers with failures is spared; when most do, none is.
func TestOutlier(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	bad := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { asked.Add(1); rw.WriteHeader(503) })
	good := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "good") })
	w.serve("one", nil, bad, good, good)
	w.g.find("one").clock = &moment{at: time.Unix(1e9, 0)} // no time passes in which it would be tried again
	for range 200 {
		w.get("/inference/one/", "ann")
	}
	if n := asked.Load(); n != mostBad {
		t.Errorf("a replica that only fails was asked %d times", n)
	}
	asked.Store(0)
	w.serve("all", nil, bad, bad)
	for range 50 {
		if status, _ := w.get("/inference/all/", "ann"); status != 503 {
			t.Errorf("%d", status)
		}
	}
	if asked.Load() != 50 {
		t.Errorf("%d of 50 were asked", asked.Load())
	}
}

// TestDeadline: a request that would wait longer than it may is refused at once, and a client's own limit counts.
func TestDeadline(t *testing.T) {
	w := newWorld(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	var now atomic.Int32
	w.serve("slow", func(s *serving.ServiceEndpointsSpec) { s.MaxConcurrency, s.MaxQueue = 1, 10 }, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now.Add(1)
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	w.g.find("slow").holds = 10 * time.Second // as it was of late
	go func() {
		resp, err := http.DefaultClient.Do(w.request(http.MethodGet, "/inference/slow/", "ann", nil))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	eventually(t, "the first is worked on", func() bool { return now.Load() > 0 })
	for _, header := range [][2]string{{"X-Request-Timeout", "2s"}, {"X-Request-Timeout", "2"}, {"Grpc-Timeout", "2000m"}} {
		req := w.request(http.MethodGet, "/inference/slow/", "ann", nil)
		req.Header.Set(header[0], header[1])
		if status, body, h := w.do(req); status != 429 || !strings.Contains(body, "TooLate") || h.Get("Retry-After") != "10" {
			t.Errorf("%v: %d %s", header, status, body)
		}
	}
}

// TestTracks: rules come before the share, the share is about what it says, a canary that is not there takes nothing, and
// a canary that breaks costs no idempotent question.
func TestTracks(t *testing.T) {
	w := newWorld(t)
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) })
	}
	road := serving.Road{Stable: 1, Canary: 2, Percent: 20, Rules: []serving.TrafficRule{
		{Header: "X-Group", Value: "b", To: serving.TrackCanary}, {Cookie: "group", To: serving.TrackStable}, {User: "bob", To: serving.TrackCanary},
	}}
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) { s.Replicas[1].Revision, s.Road = 2, road }, says("stable"), says("canary"))
	count := func(change func(*http.Request)) (canary int) {
		for range 300 {
			req := w.request(http.MethodGet, "/inference/chat/", "ann", nil)
			change(req)
			if _, body, _ := w.do(req); body == "canary" {
				canary++
			}
		}
		return canary
	}
	if n := count(func(*http.Request) {}); n < 30 || n > 95 {
		t.Errorf("%d of 300 for 20 %%", n)
	}
	if n := count(func(r *http.Request) { r.Header.Set("X-Group", "b") }); n != 300 {
		t.Errorf("%d of 300 by the header", n)
	}
	if n := count(func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "group", Value: "x"}) }); n != 0 {
		t.Errorf("%d of 300 by the cookie", n)
	}
	same := map[bool]int{}
	for i := range 1000 {
		rule := serving.TrafficRule{Percent: 30, To: serving.TrackCanary}
		user := fmt.Sprint("user-", i)
		first := fits(&rule, nil, user)
		same[first]++
		if fits(&rule, nil, user) != first {
			t.Fatal("a user changes sides")
		}
	}
	if same[true] < 230 || same[true] > 370 {
		t.Errorf("%v of 1000 users for 30 %%", same)
	}
	w.serve("alone", func(s *serving.ServiceEndpointsSpec) { s.Road = serving.Road{Stable: 1, Canary: 2, Percent: 100} }, says("stable"))
	if status, body := w.get("/inference/alone/", "ann"); status != 200 || body != "stable" {
		t.Errorf("%d %s", status, body)
	}
	dies := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	w.serve("breaks", func(s *serving.ServiceEndpointsSpec) {
		s.Replicas[1].Revision, s.Road = 2, serving.Road{Stable: 1, Canary: 2, Percent: 50}
	}, says("stable"), dies)
	for range 100 {
		if status, body := w.get("/inference/breaks/", "ann"); status != 200 || body != "stable" {
			t.Fatalf("%d %s", status, body)
		}
	}
	l := w.g.find("breaks").load()
	var bad int64
	for _, r := range l.Revisions {
		if r.Revision == 2 {
			bad = r.Errors
		}
	}
	if bad < 10 {
		t.Errorf("%d failures of the canary are counted", bad)
	}
}

// TestShadow: the canary gets copies, whose answers are counted and go to nobody.
func TestShadow(t *testing.T) {
	w := newWorld(t)
	var copies atomic.Int32
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) {
		s.Replicas[1].Revision, s.Road = 2, serving.Road{Stable: 1, Canary: 2, Percent: 1, Shadow: 100, Rules: []serving.TrafficRule{{Percent: 100, To: serving.TrackStable}}}
	}, http.HandlerFunc(echo), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "ask" && r.Header.Get("X-Fermi-Shadow") == "1" && r.Header.Get("Authorization") == "" {
			copies.Add(1)
		}
		rw.WriteHeader(500)
	}))
	for range 20 {
		if status, body, _ := w.do(w.request(http.MethodPost, "/inference/chat/", "ann", strings.NewReader("ask"))); status != 200 || !strings.Contains(body, `"ask"`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	eventually(t, "all copies are there", func() bool { return copies.Load() == 20 })
}

// TestReport: what is asked is told, and at once when a request waits for a service without replicas.
func TestReport(t *testing.T) {
	w := newWorld(t)
	w.serve("none", nil)
	go func() {
		resp, err := http.DefaultClient.Do(w.request(http.MethodGet, "/inference/none/", "ann", nil))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	select {
	case <-w.g.held:
	case <-time.After(patient):
		t.Fatal("nobody is told that a request waits")
	}
	if l := w.g.find("none").load(); l.Waiting != 1 || l.Busy != 0 || l.ServiceID != "svc-none" {
		t.Errorf("%+v", l)
	}
	w.serve("none", nil, http.HandlerFunc(echo))
	eventually(t, "nobody waits any more", func() bool { return w.g.find("none").load().Waiting == 0 })
}
