//go:build !linux || !cgo

package inventory

import api "github.com/fermi-cluster/fermi/api/v1"

// SeesNVIDIA says that this build of the program can load the driver's library, which is written in C.
const SeesNVIDIA = false

// nvmlDevices without cgo sees no devices, and says so where there are some.
func nvmlDevices() ([]api.Device, error) { return nil, unseen(nvidiaFolder) }
