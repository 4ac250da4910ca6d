package rankset

import (
	"slices"
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
func (m *Meter) Note(r *Set, u link.Usage) {
	if m == nil || !u.At.After(m.began) {
		return
	}
	r.Uses(func(use *link.Use) {
		use.CPU, use.Seconds, use.Memory = max((u.CPU-m.spent).Seconds(), 0), u.At.Sub(m.began).Seconds(), u.RSS
	})
}

// Uses changes what is told of use.
func (r *Set) Uses(change func(*link.Use)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.said.Use)
	r.later(usePause)
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

// saving notes that a rank began to save a step; mu held.
func (r *Set) saving(i int, step int64) {
	r.said.Saves.Begun++
	r.begun[i] = append(r.begun[i], step)
	r.begun[i] = r.begun[i][max(0, len(r.begun[i])-maxSaving):]
}

// whole notes that a step is; one that nobody said was begun came from a peer, or was there before. mu held.
func (r *Set) whole(i int, step int64) {
	if at := slices.Index(r.begun[i], step); at >= 0 {
		r.said.Saves.Whole++
		r.begun[i] = slices.Delete(r.begun[i], at, at+1)
	}
}
