package launch

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

const readEvery = 30 * time.Second // the driver is asked for devices

// meter measures what a generation uses from its beginning on; nil for who runs in another's cgroup, whose use it can't be told from.
type meter struct {
	began time.Time
	spent time.Duration // by the launcher's tree before
}

// newMeter begins to measure a tree that spent so much before.
func newMeter(t *process.Tree, spent time.Duration, now time.Time) *meter {
	m := &meter{began: now, spent: spent}
	if t.Group != nil {
		if cpu, _, _, err := t.Group.Usage(); err == nil {
			m.spent = cpu
		}
	}
	return m
}

// note tells what was used so far.
func (m *meter) note(r *ranks, u link.Usage) {
	if m == nil || !u.At.After(m.began) {
		return
	}
	r.uses(func(use *link.Use) {
		use.CPU, use.Seconds, use.Memory = max((u.CPU-m.spent).Seconds(), 0), u.At.Sub(m.began).Seconds(), u.RSS
	})
}

// uses changes what is told of use.
func (r *ranks) uses(change func(*link.Use)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.said.Use)
	r.later(usePause)
}

// watchDevices asks the driver again and again, until ctx ends. A driver that hangs is not waited for.
func (l *launcher) watchDevices(ctx context.Context) {
	devices := l.replica.Devices
	if l.readings == nil || len(devices) == 0 || slices.ContainsFunc(devices, func(d api.Device) bool { return d.Virtual }) {
		return
	}
	done := make(chan []engine.Reading, 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(readEvery):
		}
		go func() {
			list, _ := l.readings(devices)
			done <- list
		}()
		select {
		case <-ctx.Done():
			return
		case list := <-done:
			if len(list) == 0 {
				return // no driver: nor will there be
			}
			l.ranks.uses(func(use *link.Use) { addReadings(use, list, readEvery) })
		}
	}
}

// addReadings counts a sample for all the time since the last one.
func addReadings(use *link.Use, list []engine.Reading, span time.Duration) {
	use.Devices, use.DeviceMemory, use.DeviceTotal = len(list), 0, 0
	for _, r := range list {
		use.Busy += min(max(r.Busy, 0), 1) * span.Seconds()
		use.Watched += span.Seconds()
		use.DeviceMemory += max(r.Used, 0)
		use.DeviceTotal += max(r.Total, 0)
	}
}

// saving notes that a rank began to save a step; mu held.
func (r *ranks) saving(i int, step int64) {
	r.said.Saves.Begun++
	r.begun[i] = append(r.begun[i], step)
	r.begun[i] = r.begun[i][max(0, len(r.begun[i])-maxSaving):]
}

// whole notes that a step is; one that nobody said was begun came from a peer, or was there before. mu held.
func (r *ranks) whole(i int, step int64) {
	if at := slices.Index(r.begun[i], step); at >= 0 {
		r.said.Saves.Whole++
		r.begun[i] = slices.Delete(r.begun[i], at, at+1)
	}
}
