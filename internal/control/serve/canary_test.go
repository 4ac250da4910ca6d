package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/control/serve/demand"
)

// update opens a canary of a service of so many replicas that answers.
func canaryWorld(t *testing.T, replicas int, traffic *serving.ServiceTraffic) *world {
	w := newWorld(t, replicas)
	w.turn()
	w.ready(1)
	w.turn()
	w.armed = true
	w.service.Spec.Traffic = traffic
	w.service.Spec.Template.Command = []string{"b"}
	w.service.Default()
	w.turn()
	return w
}

// pass lets a step's time and requests go by.
func (w *world) pass(requests, errors int64) {
	w.now = w.now.Add(2 * time.Minute)
	w.counted.Requests += requests
	w.counted.Errors += errors
	w.turn()
}

func (w *world) road(want serving.Road) {
	w.t.Helper()
	if got := w.endpoints.Spec.Road; got.Stable != want.Stable || got.Canary != want.Canary || got.Percent != want.Percent {
		w.t.Errorf("the road is %+v, not %+v", got, want)
	}
}

// TestCanary: a new revision goes step by step, each with enough replicas for its share, and then takes over; the stable one
// keeps all of its replicas until then.
func TestCanary(t *testing.T) {
	w := canaryWorld(t, 4, &serving.ServiceTraffic{Canary: &serving.Canary{}})
	w.road(serving.Road{Stable: 1, Canary: 2}) // nobody gets it before it answers
	for _, step := range []struct{ percent, replicas int }{{5, 1}, {50, 2}, {100, 4}} {
		n := 0
		for _, r := range w.replicas {
			if r.Spec.Revision == 2 && r.Meta.DeletedAt == nil {
				n++
			}
		}
		if n != step.replicas {
			t.Errorf("%d replicas for %d %%", n, step.percent)
		}
		w.ready(2)
		w.turn()
		w.road(serving.Road{Stable: 1, Canary: 2, Percent: step.percent})
		w.pass(5, 0) // too few to judge by
		w.road(serving.Road{Stable: 1, Canary: 2, Percent: step.percent})
		w.pass(100, 1) // of its hundred one failed: within its bound
	}
	w.road(serving.Road{})
	for range 5 {
		w.now = w.now.Add(5 * time.Second)
		w.turn()
		w.gone()
	}
	for _, r := range w.replicas {
		if r.Spec.Revision != 2 {
			t.Errorf("%s is of revision %d", r.Meta.Name, r.Spec.Revision)
		}
	}
	if w.lowest < 4 || len(w.replicas) != 4 || w.service.Status.Reason != "Ready" {
		t.Errorf("at least %d answered, %d are there, %s", w.lowest, len(w.replicas), w.service.Status.Reason)
	}
}

// TestRollBack: errors, slowness, a check that fails and replicas that fail take a new revision away again, and the next
// one has its own chance.
func TestRollBack(t *testing.T) {
	for name, bad := range map[string]func(w *world){
		"TooManyErrors": func(w *world) { w.pass(50, 10) },
		"TooSlow":       func(w *world) { w.counted.Slow = 30; w.pass(50, 0) },
		"CheckFailed":   func(w *world) { w.checked = demand.Checked{Done: true, Bad: "500"}; w.pass(1, 0) },
		"RevisionFailed": func(w *world) {
			for _, r := range w.replicas {
				if r.Spec.Revision == 2 {
					r.Status.Phase, r.Status.Ready = "Failed", false
				}
			}
			w.turn()
		},
	} {
		w := canaryWorld(t, 2, &serving.ServiceTraffic{Canary: &serving.Canary{Check: "/check", MaxLatency: 1e9}})
		w.ready(2)
		w.turn()
		bad(w)
		if c := w.service.Status.Canary; c == nil || c.Verdict != serving.RolledBack {
			t.Fatalf("%s: %+v", name, c)
		}
		w.road(serving.Road{Stable: 1, Canary: 2})
		for range 4 {
			w.now = w.now.Add(time.Minute)
			w.turn()
			w.gone()
		}
		for _, r := range w.replicas {
			if r.Spec.Revision != 1 {
				t.Errorf("%s: a replica of revision %d", name, r.Spec.Revision)
			}
		}
		if w.lowest < 2 || w.service.Status.Reason != "RolledBack" {
			t.Errorf("%s: at least %d answered; %s", name, w.lowest, w.service.Status.Reason)
		}
		w.replicas[0].Status.Phase, w.replicas[0].Status.Ready = "Failed", false // what is made now is of the stable one
		w.now = w.now.Add(time.Hour)
		w.turn()
		if last := w.replicas[len(w.replicas)-1]; last.Spec.Revision != 1 || last.Spec.Template.Command[0] != "a" {
			t.Errorf("%s: made of revision %d: %v", name, last.Spec.Revision, last.Spec.Template.Command)
		}
		w.counted, w.checked = serving.CanaryCount{}, demand.Checked{}
		w.service.Spec.Template.Command = []string{"c"}
		w.turn()
		if c := w.service.Status.Canary; c == nil || c.Revision != 3 || c.Stable != 1 || c.Verdict != "" {
			t.Errorf("%s: the next one is %+v", name, c)
		}
	}
}

// TestByHand: a manual canary waits for its word, and the way back is the stable template.
func TestByHand(t *testing.T) {
	w := canaryWorld(t, 2, &serving.ServiceTraffic{Canary: &serving.Canary{Manual: true, Steps: []int{10, 100}}})
	w.ready(2)
	w.turn()
	w.pass(1000, 0)
	w.road(serving.Road{Stable: 1, Canary: 2, Percent: 10})
	w.service.Spec.Traffic.Promote = &serving.Promotion{Revision: 2, Step: 1}
	w.turn()
	w.ready(2)
	w.turn()
	w.road(serving.Road{Stable: 1, Canary: 2, Percent: 100})
	w.service.Spec.Template.Command = []string{"a"}
	w.turn()
	if c := w.service.Status.Canary; c == nil || c.Verdict != serving.RolledBack || w.service.Status.Revision != 2 {
		t.Errorf("%+v, revision %d", c, w.service.Status.Revision)
	}
}

// TestScale: as many replicas as figures want, none while nobody asks, and one again with the first who does; each change
// says why.
func TestScale(t *testing.T) {
	w := newWorld(t, 1)
	w.service.Spec.Autoscale = &serving.ServiceAutoscale{MaxReplicas: 5, Metrics: []serving.ScaleMetric{{Type: serving.MetricQPS, Target: 10}}}
	w.service.Default()
	w.turn()
	w.ready(1)
	w.stable = demand.Load{Known: true, QPS: 32, Requests: 1000, Concurrency: 1}
	w.panic = w.stable
	w.turn()
	if st := w.service.Status; st.Scale.Wanted != 4 || len(w.replicas) != 4 || len(st.Scale.Log) != 1 || st.Scale.Message.EN == "" || st.Scale.Message.ZH == "" {
		t.Errorf("%+v, %d replicas", st.Scale, len(w.replicas))
	}
	w.ready(1)
	w.stable, w.panic = demand.Load{Known: true}, demand.Load{Known: true}
	for range 3 {
		w.now = w.now.Add(2 * time.Minute)
		w.turn()
		w.gone()
	}
	if st := w.service.Status; st.Scale.Wanted != 0 || len(w.replicas) != 0 || st.Reason != "Idle" {
		t.Errorf("%+v, %d replicas, %s", st.Scale, len(w.replicas), st.Reason)
	}
	w.panic = demand.Load{Known: true, Now: 1, Waiting: 1}
	w.turn()
	if st := w.service.Status; st.Scale.Wanted != 1 || len(w.replicas) != 1 || st.Scale.Reason != "FromZero" {
		t.Errorf("%+v, %d replicas", st.Scale, len(w.replicas))
	}
}

// TestCheckOnMachinesThatJoined: a canary's own check asks a replica through its agent, and says what is wrong where no
// road leads there: it never waits for ever.
func TestCheckOnMachinesThatJoined(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path != "/check" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer srv.Close()
	via := serving.Via{Node: "box", Agent: "10.0.0.2:7073", Replica: "rep-1"}
	far := func(ctx context.Context, v serving.Via, port int) (net.Conn, error) {
		if v != via || port != 8000 {
			return nil, fmt.Errorf("%+v:%d was dialled", v, port)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
	seen := func(id string) *seen {
		w := newWorld(t, 1)
		w.service.Meta.ID = id
		w.replicas = []*serving.ServiceReplica{{Spec: serving.ServiceReplicaSpec{Revision: 2}, Status: serving.ServiceReplicaStatus{Answers: serving.Answers{Ready: true, Address: "100.64.0.2:8000", Via: &via}}}}
		return &w.seen
	}
	for _, c := range []struct {
		path string
		far  Far
		good bool
	}{{"/check", far, true}, {"/other", far, false}, {"/check", nil, false}} {
		var all checks
		s, at := seen(c.path), &serving.CanaryStatus{Revision: 2}
		deadline := time.After(2 * time.Minute)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !all.of(s, at, c.path, c.far).Done {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s is asked for ever", c.path)
			}
		}
		if got := all.of(s, at, c.path, c.far); (got.Bad == "") != c.good {
			t.Errorf("%s: %q", c.path, got.Bad)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}
