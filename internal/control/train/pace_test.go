package train

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// The first change has its turn at once, whatever the size; those right behind it share one.
func TestPace(t *testing.T) {
	if got := (pace{}).left(now); got != 0 {
		t.Error("a small task waits", got)
	}
	p := pace{last: now, every: 160 * time.Millisecond}
	for after, want := range map[time.Duration]time.Duration{
		0: 160 * time.Millisecond, 100 * time.Millisecond: 60 * time.Millisecond, 160 * time.Millisecond: 0, time.Hour: 0,
	} {
		if got := p.left(now.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
}

// TestBill: whatever changes a row changes the bill; another generation does not.
func TestBill(t *testing.T) {
	one := func(change func(*member)) uint64 {
		m := at(0, 1, engine.StateRunning, true, nil)
		m.observed.Started = now
		change(&m)
		return billOf([]member{m}, nil)
	}
	same := one(func(*member) {})
	if one(func(m *member) { m.said.Generation++ }) != same {
		t.Error("a generation is billed")
	}
	for what, other := range map[string]uint64{
		"start":   one(func(m *member) { m.observed.Started = now.Add(1) }),
		"end":     one(func(m *member) { m.exit = &engine.Exit{At: now} }),
		"replica": one(func(m *member) { m.name += "0" }),
		"other":   billOf(nil, []engine.Observation{{Name: "x"}}),
		"none":    billOf(nil, nil),
	} {
		if other == same {
			t.Error(what, "is not billed")
		}
	}
}
