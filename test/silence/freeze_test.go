package silence

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestFrozen: a launcher is frozen with everything below it. Its gang stands still, nobody testifies against it, and it is
// lost after 30 s; the others go on elsewhere, and its device stays closed until it has ended.
func TestFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer w.holders()()
	tr := w.train("frozen", nil)
	victim := tr.replicas()[1]
	before := tr.status().Generation
	at := time.Now()
	w.freeze(victim.Name)
	defer w.thaw(victim.Name)
	w.until("it is told", func() bool { tr.status(); return !tr.event(at, "LauncherSilent").IsZero() })
	t.Logf("silent after %s", tr.event(at, "LauncherSilent").Sub(at))
	w.until("it is given up", func() bool { tr.status(); return !tr.event(at, "SilentLost").IsZero() })
	n := w.node(victim.Node)
	if h := n.Status.Holds.Of(victim.Name); h == nil || n.Status.Holds.Closed() != 1 {
		t.Errorf("its device is open: %+v", n.Status)
	}
	tr.steps(before + 1)
	t.Logf("steps after %s", time.Since(at))
	tr.tell()
	w.until("its device is free", func() bool { return len(w.node(victim.Node).Status.Holds) == 0 })
}

func (w *world) node(name string) *api.Node {
	w.t.Helper()
	o, err := w.cl.Get(w.t.Context(), api.KindNode, "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*api.Node)
}
