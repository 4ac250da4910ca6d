package placement

import (
	"log/slog"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestQueuesAreMended: whatever the queues say of each other, those that make sense are in force, and
// a later change is.
func TestQueuesAreMended(t *testing.T) {
	m := newModel(slog.New(slog.DiscardHandler), "h", 100)
	queue := func(name, parent string, guarantee, limit int) *api.Queue {
		q := &api.Queue{Meta: api.Meta{Name: name}, Spec: api.QueueSpec{Parent: parent, Limit: map[string]int{"devices": limit}}}
		if guarantee > 0 {
			q.Spec.Guarantee = map[string]int{"devices": guarantee}
		}
		return q
	}
	set := func(q *api.Queue) {
		m.setQueue(q)
		m.tree.heed()
	}
	set(queue("child", "parent", 2, 5)) // before its parent is heard of
	for _, q := range []*api.Queue{
		queue("parent", "", 2, 7), queue("second", "parent", 2, 6), queue("x", "y", 0, 3), queue("y", "x", 0, 4), queue("low", "", 9, 1),
	} {
		set(q)
	}
	check := func(name string, want int64) {
		t.Helper()
		s, ok := m.queues.Share(name, 0)
		if !ok || len(s.Limit) < 3 || s.Limit[2] != want*1000 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for name, limit := range map[string]int64{"child": 5, "parent": 7, "second": 6, "x": 3, "y": 4, "low": 1} {
		check(name, limit)
	}
	if s, _ := m.queues.Share("child", 0); s.Parent != "parent" {
		t.Errorf("%+v", s)
	}
	set(queue("parent", "", 2, 8))
	check("parent", 8)
}
