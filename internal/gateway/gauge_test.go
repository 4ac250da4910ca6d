package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// engine is a replica that says how many requests wait in it, and how full its cache is.
type engine struct {
	name    string
	waiting atomic.Int64
	held    atomic.Int64 // percent
	mute    atomic.Bool
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, e.name)
		return
	}
	if e.mute.Load() {
		http.Error(w, "no", http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} %d.0\nvllm:kv_cache_usage_perc{model_name=\"m\"} %g\n", e.waiting.Load(), float64(e.held.Load())/100)
}

// TestEngineLoad: a replica that has seen a beginning is left for another one when its engine says that more requests wait in it than a beginning is
// worth, or that its cache is full, and is asked again when that is over; a service of whose engine nothing is known goes by our own requests.
func TestEngineLoad(t *testing.T) {
	w := newWorld(t)
	known := map[string]*engine{"a": {name: "a"}, "b": {name: "b"}}
	w.serve("chat", func(s *serving.ServiceEndpointsSpec) {
		s.Gateway, s.Engine = &serving.ServiceGateway{Affinity: serving.AffinityPrefix}, serving.EngineVLLM
	}, known["a"], known["b"])
	w.g.find("chat").clock = &moment{at: time.Unix(1e9, 0)} // what an engine said stays fresh
	asked := 0
	ask := func(beginning string) string {
		t.Helper()
		asked++
		_, text, _ := w.do(w.request(http.MethodPost, "/inference/chat/", "ann", strings.NewReader(strings.Repeat(beginning, 512)+fmt.Sprint(asked))))
		return text
	}
	for n, busy := range []func(*engine, int64){
		func(e *engine, on int64) { e.waiting.Store(6 * on) },
		func(e *engine, on int64) { e.held.Store(100 * on); e.waiting.Store(on) },
	} {
		begins := fmt.Sprintf("%04d", n)
		home := ask(begins)
		engines{w.g}.look(t.Context())
		for range 5 {
			if got := ask(begins); got != home {
				t.Errorf("%s answers, and %s has seen the beginning", got, home)
			}
		}
		busy(known[home], 1)
		engines{w.g}.look(t.Context())
		if got := ask(begins); got == home {
			t.Errorf("%s answers, though its engine is busy", got)
		}
		fresh := fmt.Sprintf("%04d", 100+n)
		for range 5 { // what nobody has seen goes to who is free
			if got := ask(fresh); got == home {
				t.Errorf("%s gets new questions, though its engine is busy", got)
			}
		}
		busy(known[home], 0)
		engines{w.g}.look(t.Context())
	}
	home := ask("zzzz")
	known[home].waiting.Store(100)
	known[home].mute.Store(true)
	engines{w.g}.look(t.Context())
	if got := ask("zzzz"); got != home {
		t.Errorf("an engine that says nothing is left for %s", got)
	}
}
