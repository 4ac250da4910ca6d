package serve

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/id"
)

// world plays a service through turns: what a plan says is done, and replicas answer when the test says so.
type world struct {
	t *testing.T
	seen
	c      *Controller
	now    time.Time
	lowest int // of replicas that answer at a published address, after each turn, once it was ready
	armed  bool
}

func newWorld(t *testing.T, replicas int) *world {
	for _, row := range serving.Rows {
		if _, ok := api.InfoOf(row.Kind); !ok {
			api.Register(row)
		}
	}
	s := &serving.InferenceService{Meta: api.Meta{ID: "svc-1", Name: "chat", Project: "p", Owner: "li"}, Spec: serving.ServiceSpec{Replicas: replicas, Queue: "q", Template: serving.ServiceTemplate{Command: []string{"a"}}}}
	s.Default()
	return &world{t: t, seen: seen{service: s}, c: New(workConfig(), id.Default, nil), now: time.Unix(1000, 0).UTC(), lowest: replicas}
}

// turn decides and carries out, until nothing changes any more; it must come to rest.
func (w *world) turn() plan {
	w.t.Helper()
	var p plan
	for n := 0; ; n++ {
		p = decide(&w.seen, w.now)
		if n == 100 {
			w.t.Fatalf("no rest: %+v", p)
		}
		again := len(p.make)+len(p.drain)+len(p.end) > 0 || p.endpoints != nil || !reflect.DeepEqual(p.status, w.service.Status)
		p.carry(&w.seen, w.c, w.now)
		if w.armed && w.endpoints != nil {
			w.lowest = min(w.lowest, len(w.endpoints.Spec.Replicas))
		}
		if !again {
			return p
		}
	}
}

// gone removes what was told to end.
func (w *world) gone() {
	var left []*serving.ServiceReplica
	for _, r := range w.replicas {
		if r.Meta.DeletedAt == nil {
			left = append(left, r)
		}
	}
	w.replicas = left
}

// ready has all replicas of a revision answer.
func (w *world) ready(revision int) {
	for i, r := range w.replicas {
		if r.Spec.Revision == revision && r.Meta.DeletedAt == nil {
			r.Status.Phase, r.Status.Ready, r.Status.Address = api.PhaseRunning, true, fmt.Sprintf("10.0.0.%d:80", i+1)
		}
	}
}

func (w *world) is(phase api.Phase, health serving.State, reason string) {
	w.t.Helper()
	if st := w.service.Status; st.Phase != phase || st.Health != health || st.Reason != reason {
		w.t.Fatalf("%s %s %s, want %s %s %s", st.Phase, st.Health, st.Reason, phase, health, reason)
	}
}

// TestRoll: an update replaces replicas without ever having fewer that answer than are wanted, and comes to its end.
func TestRoll(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		w := newWorld(t, n)
		w.turn()
		w.is(serving.PhaseDeploying, "", "Deploying")
		if len(w.replicas) != n {
			t.Fatalf("%d replicas of %d", len(w.replicas), n)
		}
		w.ready(1)
		w.turn()
		w.is(api.PhaseRunning, serving.Healthy, "Ready")
		w.armed = true
		w.service.Spec.Template.Command = []string{"b"}
		for round := 0; w.service.Status.Reason != "Ready" || w.service.Status.Revision != 2 || len(w.replicas) != n; round++ {
			if round > 10*n {
				t.Fatalf("%d: the update does not end: %+v", n, w.service.Status)
			}
			w.turn()
			if alive := len(w.cur()); alive > n+max(1, n/4) {
				t.Fatalf("%d replicas at once for %d", alive, n)
			}
			w.ready(2)
			w.now = w.now.Add(drainFor)
			w.turn()
			w.gone()
			w.turn()
		}
		if w.lowest < n {
			t.Errorf("%d wanted, and once only %d had an address", n, w.lowest)
		}
		for _, r := range w.replicas {
			if r.Spec.Revision != 2 {
				t.Errorf("%s is of revision %d", r.Meta.Name, r.Spec.Revision)
			}
		}
		if len(w.service.Status.Revisions) != 2 {
			t.Errorf("revisions: %+v", w.service.Status.Revisions)
		}
	}
}

// cur are those that get requests or wait for some.
func (w *world) cur() (out []*serving.ServiceReplica) {
	for _, r := range w.replicas {
		if r.Meta.DeletedAt == nil && r.Spec.DrainAt == nil {
			out = append(out, r)
		}
	}
	return out
}

// TestBadRevision: one that does not start takes nothing away, is tried again later, and the next one takes over.
func TestBadRevision(t *testing.T) {
	w := newWorld(t, 2)
	w.turn()
	w.ready(1)
	w.turn()
	w.armed = true
	w.service.Spec.Template.Command = []string{"bad"}
	w.turn()
	at := w.now
	for _, r := range w.replicas {
		if r.Spec.Revision == 2 {
			r.Status.Phase, r.Status.Reason, r.Status.FinishedAt = api.PhaseFailed, "ExitedNonZero", &at
		}
	}
	p := w.turn()
	w.is(api.PhaseRunning, serving.Healthy, "RevisionFailed")
	if p.wake <= 0 || p.wake > tryAgain || w.lowest < 2 {
		t.Errorf("wake %s, lowest %d", p.wake, w.lowest)
	}
	w.now = w.now.Add(tryAgain)
	w.turn()
	w.gone()
	w.turn()
	if n := len(w.cur()); n != 3 {
		t.Errorf("%d replicas, want the two that answer and one more try", n)
	}
	w.service.Spec.Template.Command = []string{"good"}
	for range 10 {
		w.turn()
		w.ready(3)
		w.now = w.now.Add(tryAgain)
		w.turn()
		w.gone()
	}
	w.turn()
	w.is(api.PhaseRunning, serving.Healthy, "Ready")
	if w.lowest < 2 || len(w.replicas) != 2 {
		t.Errorf("lowest %d, %d replicas", w.lowest, len(w.replicas))
	}
}

// TestScaleStopStart: fewer and more, none, and again; what is stopped has no address.
func TestScaleStopStart(t *testing.T) {
	w := newWorld(t, 3)
	w.turn()
	w.ready(1)
	w.turn()
	w.service.Spec.Replicas = 1
	w.turn()
	if n := len(w.endpoints.Spec.Replicas); n != 1 {
		t.Errorf("%d addresses, want 1", n)
	}
	if len(w.replicas) != 3 {
		t.Errorf("one was ended before gateways could hear of it")
	}
	w.now = w.now.Add(drainFor)
	w.turn()
	w.gone()
	if len(w.replicas) != 1 {
		t.Errorf("%d replicas, want 1", len(w.replicas))
	}
	w.service.Spec.Replicas = 4
	w.turn()
	if len(w.replicas) != 4 {
		t.Errorf("%d replicas, want 4", len(w.replicas))
	}
	w.is(api.PhaseRunning, serving.Degraded, "FewReplicas")
	w.service.Spec.Stop = true
	w.turn()
	if len(w.endpoints.Spec.Replicas) != 0 || !w.endpoints.Spec.Stopped {
		t.Errorf("endpoints: %+v", w.endpoints.Spec)
	}
	w.now = w.now.Add(drainFor)
	w.turn()
	w.gone()
	w.turn()
	w.is(api.PhaseStopped, "", "Stopped")
	w.service.Spec.Stop = false
	w.turn()
	w.is(serving.PhaseDeploying, "", "Deploying")
	if w.service.Status.Revision != 1 || len(w.replicas) != 4 {
		t.Errorf("revision %d, %d replicas", w.service.Status.Revision, len(w.replicas))
	}
	w.ready(1)
	w.turn()
	w.is(api.PhaseRunning, serving.Healthy, "Ready")
	at := w.now
	w.service.Meta.DeletedAt = &at
	for range 3 {
		w.turn()
		w.now = w.now.Add(drainFor)
		w.gone()
	}
	if p := decide(&w.seen, w.now); !p.erase {
		t.Errorf("it is not erased: %+v", p)
	}
}

// TestAllFail: a service none of whose replicas starts is Failed, and one that comes back Running again.
func TestAllFail(t *testing.T) {
	w := newWorld(t, 2)
	w.turn()
	at := w.now
	for _, r := range w.replicas {
		r.Status.Phase, r.Status.Reason, r.Status.FinishedAt = api.PhaseFailed, "ExitedNonZero", &at
	}
	w.turn()
	w.is(api.PhaseFailed, "", "ExitedNonZero")
	w.now = w.now.Add(tryAgain)
	w.turn()
	w.gone()
	w.turn()
	w.is(api.PhaseFailed, "", "ExitedNonZero")
	w.ready(1)
	w.turn()
	w.is(api.PhaseRunning, serving.Healthy, "Ready")
	for _, r := range w.replicas {
		r.Status.Ready = false
	}
	w.turn()
	w.is(api.PhaseRunning, serving.Degraded, "NoReplica")
}

// TestZonesOfReplicas: each zone gets its replicas, an update goes through all of them without fewer that answer, and a zone
// that is not wanted any more loses its own once others answer.
func TestZonesOfReplicas(t *testing.T) {
	w := newWorld(t, 1)
	w.service.Spec.Zones = []serving.ServiceZone{{Zone: "east", Replicas: 3, Weight: 80}, {Zone: "west", Replicas: 1, Weight: 20}}
	w.service.Default()
	count := func(revision int) map[string]int {
		n := map[string]int{}
		for _, r := range w.replicas {
			if r.Spec.Revision == revision && r.Meta.DeletedAt == nil {
				n[r.Spec.Zone]++
			}
		}
		return n
	}
	settle := func(revision int) {
		for range 20 {
			w.turn()
			w.ready(revision)
			w.turn()
			w.now = w.now.Add(drainFor)
			w.turn()
			w.gone()
		}
	}
	settle(1)
	if n := count(1); n["east"] != 3 || n["west"] != 1 || len(n) != 2 || len(w.endpoints.Spec.Road.Zones) != 2 || w.endpoints.Spec.Replicas[0].Zone == "" {
		t.Fatalf("%v, %+v", n, w.endpoints.Spec)
	}
	if rules := w.replicas[0].Workload().Wish.Zones; rules == nil || rules.Allow[0] != w.replicas[0].Spec.Zone {
		t.Errorf("it may stand in %+v", rules)
	}
	w.armed, w.lowest = true, 4
	w.service.Spec.Template.Command = []string{"b"}
	settle(2)
	if n, old := count(2), count(1); n["east"] != 3 || n["west"] != 1 || len(old) != 0 || w.lowest < 4 {
		t.Errorf("after an update: %v of the new, %v of the old revision, at least %d answered", n, old, w.lowest)
	}
	w.service.Spec.Zones = []serving.ServiceZone{{Zone: "north", Replicas: 4}}
	w.service.Default()
	settle(2)
	if n := count(2); n["north"] != 4 || len(n) != 1 || w.lowest < 4 {
		t.Errorf("after a move: %v, at least %d answered", n, w.lowest)
	}
}
