package refuse

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestGathered(t *testing.T) {
	var g Gathered
	g.Take(nil)
	if err := g.Err(); err != nil {
		t.Errorf("nothing is %v", err)
	}
	for range 300 {
		g.Take(Invalid("a", fault.T("x", "x")))
	}
	if err := fault.From(g.Err()); len(err.Fields) != 1 {
		t.Errorf("the same field counts once: %v", err)
	}
	g.Take(fault.New(fault.Unavailable, "Down", fault.T("x", "x")))
	if err := g.Err(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("what is no fault of a field goes first: %v", err)
	}
}
