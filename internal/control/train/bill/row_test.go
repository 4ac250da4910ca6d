package bill

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// TestBill: whatever changes a row changes the bill; another generation does not.
func TestBill(t *testing.T) {
	one := func(change func(*gang.Member)) uint64 {
		m := gang.Member{Name: "task-1-worker-0-1", State: engine.StateRunning}
		m.Observed.Started = now
		change(&m)
		return sumOf(gang.Members{m}, nil)
	}
	same := one(func(*gang.Member) {})
	if one(func(m *gang.Member) { m.Said.Generation++ }) != same {
		t.Error("a generation is billed")
	}
	for what, other := range map[string]uint64{
		"start":   one(func(m *gang.Member) { m.Observed.Started = now.Add(1) }),
		"end":     one(func(m *gang.Member) { m.Exit = &engine.Exit{At: now} }),
		"replica": one(func(m *gang.Member) { m.Name += "0" }),
		"other":   sumOf(nil, []engine.Observation{{Name: "x"}}),
		"none":    sumOf(nil, nil),
	} {
		if other == same {
			t.Error(what, "is not billed")
		}
	}
}
