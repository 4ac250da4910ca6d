package engine

import (
	"slices"
	"testing"
)

// TestOn: who is on a node is known without looking at the others, also when a replica's node becomes known later or it goes.
func TestOn(t *testing.T) {
	b := NewBoard()
	for _, o := range []Observation{
		{Name: "a", TaskID: "t", State: StateCreated}, {Name: "b", TaskID: "t", State: StateCreated, Node: "n1"},
		{Name: "c", TaskID: "u", State: StateRunning, Node: "n2"}, {Name: "a", TaskID: "t", State: StateRunning, Node: "n1"},
		{Name: "c", TaskID: "u", State: StateCreated, Node: "n1"}, // older: dropped
	} {
		b.Put(o)
	}
	if got := b.On("n1"); !slices.Equal(got, []Name{"a", "b"}) {
		t.Error(got)
	}
	if got := b.On("n2"); !slices.Equal(got, []Name{"c"}) {
		t.Error(got)
	}
	b.Drop("a")
	b.Drop("c")
	if got := b.On("n1"); !slices.Equal(got, []Name{"b"}) {
		t.Error(got)
	}
	if len(b.On("n2")) > 0 || len(b.On("")) > 0 || len(b.byNode) != 1 || len(b.byTask) != 1 {
		t.Error(b.byNode, b.byTask)
	}
}
