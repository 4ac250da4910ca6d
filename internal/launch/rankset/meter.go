package rankset

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Meter measures what a generation uses from its beginning on; nil for who runs in another's cgroup, whose use it can't be told from.
type Meter struct {
	began time.Time
	spent time.Duration // by the launcher's tree before
}

// NewMeter begins to measure a tree that spent so much before.
func NewMeter(t *process.Tree, spent time.Duration, now time.Time) *Meter {
	m := &Meter{began: now, spent: spent}
	if t.Group != nil {
		if cpu, _, _, err := t.Group.Usage(); err == nil {
			m.spent = cpu
		}
	}
	return m
}

// Note tells what was used so far.
func (m *Meter) Note(r *Report, u link.Usage) {
	if m == nil || !u.At.After(m.began) {
		return
	}
	r.Uses(func(use *link.Use) {
		use.CPU, use.Seconds, use.Memory = max((u.CPU-m.spent).Seconds(), 0), u.At.Sub(m.began).Seconds(), u.RSS
	})
}

// AddReadings counts a sample for all the time since the last one.
func AddReadings(use *link.Use, list []engine.Reading, span time.Duration) {
	use.Devices, use.DeviceMemory, use.DeviceTotal = len(list), 0, 0
	for _, r := range list {
		use.Busy += min(max(r.Busy, 0), 1) * span.Seconds()
		use.Watched += span.Seconds()
		use.DeviceMemory += max(r.Used, 0)
		use.DeviceTotal += max(r.Total, 0)
	}
}
