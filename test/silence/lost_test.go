package silence

import (
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// TestOperatorsWord: a node that an operator calls lost is given up at once, and takes no work until it is uncordoned; a zone that is
// taken out is left, and takes work again when that is taken back.
func TestOperatorsWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tr := w.train("word", nil)
	victim, before, at := tr.replicas()[1], tr.status().Generation, time.Now()
	w.freeze(victim.Name)
	defer w.thaw(victim.Name)
	for range 2 { // saying it twice changes nothing
		if _, err := w.cl.NodeVerb(t.Context(), "lost", victim.Node, -1); err != nil {
			t.Fatal(err)
		}
	}
	tr.steps(before + 1)
	if s := tr.status(); !tr.event(at, engine.ReasonNodeLost).After(at) || s.Attempt == 1 || !tr.event(at, "SilentLost").IsZero() {
		tr.tell()
		t.Errorf("attempt %d, failure %+v", s.Attempt, s.Failure)
	}
	if n := w.node(victim.Node); !n.Spec.Lost || !n.Spec.Cordoned || n.Status.Holds.Closed() != 0 {
		t.Errorf("%+v %+v", n.Spec, n.Status)
	}
	w.until("nothing is left of it", func() bool { return len(w.node(victim.Node).Status.Holds) == 0 })
	if _, err := w.cl.NodeVerb(t.Context(), "uncordon", victim.Node, -1); err != nil {
		t.Fatal(err)
	}
	if n := w.node(victim.Node); n.Spec.Lost || n.Spec.Cordoned {
		t.Errorf("%+v", n.Spec)
	}
	out := tr.replicas()[0].Zone
	w.outage(out, true)
	w.until("it leaves the zone", func() bool {
		s := tr.status()
		return s.Phase == api.PhaseRunning && !slices.Contains(s.Zones, out)
	})
	w.outage(out, false)
	tr.steps(before + 2)
}

// outage takes a zone out, or takes that back.
func (w *world) outage(zone string, out bool) {
	w.t.Helper()
	w.until("the zone is written", func() bool {
		z, err := client.Get[*api.Zone](w.t.Context(), w.cl, "", zone)
		if err != nil {
			w.t.Fatal(err)
		}
		z.Spec.Outage = out
		_, err = w.cl.Update(w.t.Context(), z, false)
		return err == nil
	})
}
