package current

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/fakeengine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestLeaderships: calls reach the engine of now; between two there is none.
func TestLeaderships(t *testing.T) {
	var e Engine
	r := engine.Replica{Name: engine.NameOf("task-1", "worker", 0, 1), TaskID: "task-1"}
	w := fakeengine.NewWorld(fakeengine.Config{Now: time.Now})
	none := func() {
		t.Helper()
		_, all := e.All()
		_, whole := e.Nodes()
		_, known := e.Replica(r.Name)
		if e.Leads() || all || whole || known || len(e.Replicas("")) > 0 || !fault.Is(e.Start(t.Context(), r), fault.Unavailable) ||
			!fault.Is(e.Stop(t.Context(), r.Name, 0), fault.Unavailable) || !fault.Is(e.Remove(t.Context(), r.Name), fault.Unavailable) {
			t.Error("there is an engine")
		}
		e.Poke(r.Name)
	}
	none()
	give := e.Take(fakeengine.Open(w, 1))
	if err := e.Start(t.Context(), r); err != nil || !e.Leads() {
		t.Fatal(err)
	}
	give()
	none()
	defer e.Take(fakeengine.Open(w, 2))()
	if all, ok := e.All(); !ok || len(all) != 1 || len(e.Replicas("task-1")) != 1 {
		t.Errorf("%+v %v", all, ok)
	}
	if err := e.Stop(t.Context(), r.Name, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Remove(t.Context(), r.Name); err != nil {
		t.Fatal(err)
	}
	if _, whole := e.Nodes(); !whole {
		t.Error("nodes are not known")
	}
}
