//go:build !linux || !cgo

package inventory

import api "github.com/fermi-cluster/fermi/api/v1"

// nvmlDevices without cgo: the driver's library is written in C and cannot be loaded, so this
// build of the program sees no NVIDIA devices.
func nvmlDevices() ([]api.Device, error) { return nil, errNoDriver }
