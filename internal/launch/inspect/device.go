package inspect

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/preflight"
)

// testDevices begins to look at the devices; the answer is waited for as long as a preflight may take. A
// driver that hangs is not waited for, whatever else ends.
func testDevices(judge func() preflight.Devices) func(context.Context) preflight.Devices {
	if judge == nil {
		return func(context.Context) preflight.Devices { return preflight.Devices{} }
	}
	done, late := make(chan preflight.Devices, 1), time.After(preflightFor)
	go func() { done <- judge() }()
	return func(ctx context.Context) preflight.Devices {
		select {
		case out := <-done:
			return out
		case <-late:
		case <-ctx.Done():
		}
		return preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Kind: preflight.DeviceSilent}}}
	}
}

// JudgeDevices asks the driver for the devices of a replica.
func JudgeDevices(devices []api.Device, read engine.Readings) preflight.Devices {
	for _, d := range devices {
		if d.Virtual {
			return preflight.Devices{Test: preflight.Virtual}
		}
	}
	if len(devices) == 0 {
		return preflight.Devices{}
	}
	if read == nil {
		return preflight.Devices{Test: preflight.Untested}
	}
	list, ok := read(devices)
	if !ok || len(list) != len(devices) {
		return preflight.Devices{Test: preflight.Untested}
	}
	out := preflight.Devices{Test: preflight.Tested}
	for i, one := range list {
		fault := preflight.DeviceFault{Index: devices[i].Index}
		switch {
		case one.Lost:
			fault.Kind = preflight.DeviceLost
		case one.Errors > 0:
			fault.Kind, fault.Count = preflight.DeviceErrors, int64(min(one.Errors, 1<<62))
		case one.Pending:
			fault.Kind = preflight.DevicePending
		case one.Slowed:
			fault.Kind = preflight.DeviceSlowed
		default:
			continue
		}
		out.Faults = append(out.Faults, fault)
	}
	return out
}
