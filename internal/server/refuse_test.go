package server

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestGathered(t *testing.T) {
	var g gathered
	g.take(nil)
	if err := g.err(); err != nil {
		t.Errorf("nothing is %v", err)
	}
	for range 300 {
		g.take(invalid("a", fault.T("x", "x")))
	}
	if err := fault.From(g.err()); len(err.Fields) != 1 {
		t.Errorf("the same field counts once: %v", err)
	}
	g.take(fault.New(fault.Unavailable, "Down", fault.T("x", "x")))
	if err := g.err(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("what is no fault of a field goes first: %v", err)
	}
}
