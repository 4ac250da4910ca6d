package growth

import (
	"fmt"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
)

// TestOutlook: what waits for nodes is expected to start as those before it did, once a few have; what was stopped meanwhile teaches nothing.
func TestOutlook(t *testing.T) {
	g := &Growth{}
	now := time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)
	began := map[string]time.Time{}
	settle := func(ids ...string) {
		var list []asked
		for _, id := range ids {
			w := gang(id, 2, nil).Workload()
			list = append(list, asked{&w, "k1", make([]kubeengine.Wish, 2)})
		}
		g.outlooks.settle(list, now, func(id string) (time.Time, bool) { at, ok := began[id]; return at, ok }, func(string, time.Time) int { return 1 })
	}
	for i, minutes := range []int{9, 2, 4} {
		id := fmt.Sprintf("t%d", i)
		settle(id)
		if o, ok := g.Expect(id); !ok || o.Replicas != 2 || o.Coming != 1 || !o.Since.Equal(now) || !o.Start.IsZero() {
			t.Errorf("%+v %v", o, ok)
		}
		began[id] = now.Add(time.Duration(minutes) * time.Minute)
		now = now.Add(time.Hour)
	}
	settle("stopped")
	now = now.Add(time.Hour)
	settle("next")
	since := now
	now = now.Add(time.Minute)
	settle("next")
	if o, ok := g.Expect("next"); !ok || !o.Since.Equal(since) || !o.Start.Equal(since.Add(4*time.Minute)) {
		t.Errorf("%+v %v", o, ok)
	}
	settle()
	if _, ok := g.Expect("next"); ok || len(g.outlooks.took["k1"]) != 3 {
		t.Errorf("asked for no more; %v", g.outlooks.took)
	}
}

// TestIsComing: a node that has just joined, not one that fails.
func TestIsComing(t *testing.T) {
	at := time.Now()
	node := func(change func(*api.Node)) *api.Node {
		n := &api.Node{Meta: api.Meta{CreatedAt: at.Add(time.Minute)}, Spec: api.NodeSpec{Zone: "k1"}}
		change(n)
		return n
	}
	if !isComing(node(func(*api.Node) {}), "k1", at) {
		t.Error("it comes")
	}
	for name, change := range map[string]func(*api.Node){
		"elsewhere": func(n *api.Node) { n.Spec.Zone = "k2" }, "ready": func(n *api.Node) { n.Status.Ready = true }, "cordoned": func(n *api.Node) { n.Spec.Cordoned = true },
		"of before": func(n *api.Node) { n.Meta.CreatedAt = at.Add(-time.Minute) }, "lost": func(n *api.Node) { n.Spec.Lost = true },
	} {
		if isComing(node(change), "k1", at) {
			t.Error(name)
		}
	}
}
