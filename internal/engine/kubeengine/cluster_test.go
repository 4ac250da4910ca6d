package kubeengine

import (
	"net/http"
	"sync"
	"testing"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
)

// spoken counts answers by whether they are to a watch, and by the version of HTTP.
type spoken struct {
	http.RoundTripper
	mu   *sync.Mutex
	seen map[bool]map[int]int
}

func (s spoken) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		watch := r.URL.Query().Has("watch")
		if s.seen[watch] == nil {
			s.seen[watch] = map[int]int{}
		}
		s.seen[watch][out.ProtoMajor]++
	}
	return out, err
}

// TestConnections: calls do not queue behind each other and behind watches on one connection.
func TestConnections(t *testing.T) {
	kubetest.Get(t)
	z := newSite(t, true)
	s := spoken{mu: &sync.Mutex{}, seen: map[bool]map[int]int{}}
	c := z.cluster()
	c.Wrap = func(rt http.RoundTripper) http.RoundTripper { return spoken{rt, s.mu, s.seen} }
	e, err := New(z.config(1, c))
	if err != nil {
		t.Fatal(err)
	}
	stop := z.run(t, e)
	<-e.Ready()
	r := engine.Replica{Name: "task-c-worker-0-1", TaskID: "task-c", Project: "p", Role: "worker", Attempt: 1, Zone: "z", Node: "z-n"}
	z.Shape(&r, false)
	if err := e.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if calls, watches := s.seen[false], s.seen[true]; calls[1] < 2 || calls[2] > 0 || watches[2] == 0 || watches[1] > 0 {
		t.Errorf("calls by version of HTTP: %v, watches: %v", calls, watches)
	}
}
