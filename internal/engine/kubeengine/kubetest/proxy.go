package kubetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between a client and the API server. In a storm it makes some of the answers bad; what does so is drawn from a seed.
type Proxy struct {
	URL string

	through *httputil.ReverseProxy
	mu      sync.Mutex
	dice    *rand.Rand
	storm   bool
	watches map[int]context.CancelFunc
	next    int
	done    map[string]int
}

// Proxy makes one that ends with the test.
func (s *Server) Proxy(t testing.TB, seed uint64) *Proxy {
	t.Helper()
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{dice: rand.New(rand.NewPCG(seed, 0)), watches: map[int]context.CancelFunc{}, done: map[string]int{}}
	p.through = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 32},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if nobody listened
	}
	front := httptest.NewTLSServer(p) // clients give their tokens to nobody else
	t.Cleanup(func() {
		p.CutWatches()
		front.CloseClientConnections()
		front.Close()
	})
	p.URL = front.URL
	return p
}

// Storm begins one, or ends it.
func (p *Proxy) Storm(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.storm = on
}

// CutWatches ends all watches that there are.
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.watches {
		end()
	}
}

// Done says how often which answer was made bad.
func (p *Proxy) Done() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for k, n := range p.done {
		out[k] = n
	}
	return out
}

// The bad answers, each with its share of a hundred.
const (
	answerLost = "lost" // it was done, and nobody hears of it
)

var bad = []struct {
	share  int
	what   string
	code   int
	reason string
	writes bool // only where something is changed
}{
	{4, "500", http.StatusInternalServerError, "InternalError", false},
	{4, "429", http.StatusTooManyRequests, "TooManyRequests", false},
	{3, "503", http.StatusServiceUnavailable, "ServiceUnavailable", false},
	{4, "409", http.StatusConflict, "Conflict", true},
	{5, answerLost, 0, "", true},
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v := r.URL.Query().Get("watch"); v == "true" || v == "1" {
		ctx, end := context.WithCancel(r.Context())
		p.mu.Lock()
		id := p.next
		p.next++
		p.watches[id] = end
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.watches, id)
			p.mu.Unlock()
			end()
		}()
		p.through.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	what, code, reason := p.draw(r.Method)
	switch {
	case what == answerLost:
		p.through.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case code != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the storm says " + what, "reason": reason, "code": code})
	default:
		p.through.ServeHTTP(w, r)
	}
}

// draw is what becomes of a request; zeros: what should.
func (p *Proxy) draw(method string) (what string, code int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.storm {
		return "", 0, ""
	}
	n := p.dice.IntN(100)
	for _, b := range bad {
		if n -= b.share; n >= 0 {
			continue
		}
		if b.writes && (method == http.MethodGet || method == http.MethodPost && b.code == http.StatusConflict) {
			return "", 0, "" // to create conflicts with nothing
		}
		p.done[b.what]++
		return b.what, b.code, b.reason
	}
	return "", 0, ""
}
