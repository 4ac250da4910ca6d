//go:build linux && cgo

package inventory

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// Read is engine.Readings by NVIDIA's library. It is loaded for each call and let go: who asks lives
// longer than a driver may.
func Read(devices []api.Device) (list []engine.Reading, ok bool) {
	for _, d := range devices {
		if d.Virtual || d.UUID == "" || d.Vendor != "nvidia" {
			return nil, false
		}
	}
	defer func() {
		if recover() != nil {
			list, ok = nil, false
		}
	}()
	lib := nvml.New()
	if lib.Init() != nvml.SUCCESS {
		return nil, false
	}
	defer lib.Shutdown()
	for _, d := range devices {
		list = append(list, readOne(lib, d.UUID))
	}
	return list, true
}

func readOne(lib nvml.Interface, uuid string) engine.Reading {
	d, ret := lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return engine.Reading{Lost: true}
	}
	var r engine.Reading
	memory, ret := d.GetMemoryInfo()
	switch ret {
	case nvml.SUCCESS:
		r.Used, r.Total = int64(memory.Used), int64(memory.Total)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_UNKNOWN, nvml.ERROR_RESET_REQUIRED:
		return engine.Reading{Lost: true}
	}
	if use, ret := d.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Busy = min(float64(use.Gpu)/100, 1)
	}
	if n, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		r.Errors = n
	}
	if state, ret := d.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS {
		r.Pending = state == nvml.FEATURE_ENABLED
	}
	if lib.Extensions().LookupSymbol("nvmlDeviceGetRemappedRows") == nil {
		if _, _, pending, _, ret := d.GetRemappedRows(); ret == nvml.SUCCESS {
			r.Pending = r.Pending || pending
		}
	}
	if lib.Extensions().LookupSymbol("nvmlDeviceGetCurrentClocksThrottleReasons") == nil {
		if why, ret := d.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
			r.Slowed = why&hardwareSlows != 0
		}
	}
	return r
}

// hardwareSlows are the reasons that are no wish of the driver's or of a user.
const hardwareSlows = nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksThrottleReasonHwPowerBrakeSlowdown
