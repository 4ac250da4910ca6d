package launch

import (
	"context"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

const readEvery = 30 * time.Second // the driver is asked for devices

// watchDevices asks the driver again and again, until ctx ends. A driver that hangs is not waited for.
func (r *runner) watchDevices(ctx context.Context, g link.Generation) {
	devices := r.wall.Home.Replica.Devices
	if r.readings == nil || len(devices) == 0 || slices.ContainsFunc(devices, func(d api.Device) bool { return d.Virtual }) {
		return
	}
	every := readEvery
	if r.wall.Home.Replica.Serve != nil { // how many replicas there are may depend on it
		every = usageEvery
	}
	done := make(chan []engine.Reading, 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(every):
		}
		go func() {
			list, _ := r.readings(devices)
			done <- list
		}()
		select {
		case <-ctx.Done():
			return
		case list := <-done:
			if len(list) == 0 {
				return // no driver: nor will there be
			}
			r.ranks.Report.Uses(func(use *link.Use) { rankset.AddReadings(use, list, every) })
			r.signals.Read(list)
			r.drawDevices(g, list)
		}
	}
}
