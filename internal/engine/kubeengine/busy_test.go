package kubeengine

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/kubetest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// busy answers the next change of a pod with 409, and counts what is asked about pods by name.
type busy struct {
	http.RoundTripper
	next  *atomic.Bool
	calls *atomic.Int64
}

func (b busy) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/pods") && !r.URL.Query().Has("watch") && !r.URL.Query().Has("labelSelector") {
		b.calls.Add(1)
	}
	if (r.Method == http.MethodPatch || r.Method == http.MethodDelete) && b.next.CompareAndSwap(true, false) {
		return &http.Response{
			StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the object has been modified"}`)),
		}, nil
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestBusy: a conflict about a pod that is still the same one is no end of it: the order is not taken for given, and the next try gives it. In calm times a replica costs
// one call to be started and two to be let go.
func TestBusy(t *testing.T) {
	s := kubetest.Get(t)
	z := newSite(t, true)
	var next atomic.Bool
	var calls atomic.Int64
	c := z.cluster()
	c.Wrap = func(rt http.RoundTripper) http.RoundTripper { return busy{rt, &next, &calls} }
	e, err := New(z.config(1, c))
	if err != nil {
		t.Fatal(err)
	}
	stop := z.run(t, e)
	defer stop()
	<-e.Ready()
	r := engine.Replica{Name: "task-b-worker-0-1", TaskID: "task-b", Project: "p", Role: "worker", Attempt: 1, Zone: "z", Node: "z-n"}
	z.Shape(&r, false)
	state := func(want engine.State) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if o, ok := e.Replica(r.Name); ok && o.State == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("it is not %s", want)
			}
		}
	}
	exists := func() bool {
		code, _, err := s.Do(kubetest.Admin, "GET", "/api/v1/namespaces/"+z.namespace+"/pods/"+string(r.Name), "", nil)
		return err == nil && code == http.StatusOK
	}
	if err := e.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls to start it", n)
	}
	state(engine.StateRunning)
	next.Store(true)
	if err := e.Stop(t.Context(), r.Name, time.Second); fault.ReasonOf(err) != "ClusterBusy" {
		t.Errorf("a stop that was not written: %v", err)
	}
	if err := e.Stop(t.Context(), r.Name, time.Second); err != nil {
		t.Error(err)
	}
	state(engine.StateDone)
	next.Store(true)
	if err := e.Remove(t.Context(), r.Name); fault.ReasonOf(err) != "ClusterBusy" {
		t.Errorf("a removal that was not done: %v", err)
	}
	if _, known := e.Replica(r.Name); !known || !exists() {
		t.Error("it was let go, and is there")
	}
	calls.Store(0)
	if err := e.Remove(t.Context(), r.Name); err != nil {
		t.Error(err)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls to let it go", n)
	}
	for end := time.Now().Add(time.Minute); exists(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its pod is still there")
		}
	}
	var list corev1.PodList
	s.Must(t, "GET", "/api/v1/namespaces/"+z.namespace+"/pods", nil, &list)
	if len(list.Items) != 0 {
		t.Errorf("%d pods", len(list.Items))
	}
}
