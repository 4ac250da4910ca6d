package placement

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestQueuesAreMended: whatever the queues say of each other, those that make sense are in force, and
// a later change is.
func TestQueuesAreMended(t *testing.T) {
	m := newModel("h", 100)
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
	heard := m.heard.take()
	if len(heard) == 0 || heard[0].weight != worse || !slices.Contains(heard[0].about, any("child")) {
		t.Errorf("of what made no sense is said %+v", heard)
	}
	if again := m.heard.take(); len(again) != 0 {
		t.Errorf("it is said twice: %+v", again)
	}
}

// TestRemarksAreSaid: by who owns the model, once, and outside its lock; and only so many are kept.
func TestRemarksAreSaid(t *testing.T) {
	var out bytes.Buffer
	m := newModel("h", 100)
	s := &seat{m: m, log: slog.New(slog.NewTextHandler(&out, nil))}
	s.with(func(m *model) {
		m.setNode(&api.Node{Meta: api.Meta{Name: "odd"}, Spec: api.NodeSpec{Number: 1, Zone: "a", Devices: make([]api.Device, 65)}})
	})
	if got := out.String(); !strings.Contains(got, "level=ERROR") || strings.Count(got, "node=odd") != 1 {
		t.Errorf("said: %q", got)
	}
	out.Reset()
	s.with(func(m *model) {
		for range maxRemarks + 7 {
			m.heard.note(worse, "again")
		}
	})
	if got := out.String(); strings.Count(got, "again") != maxRemarks || !strings.Contains(got, "count=7") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}
