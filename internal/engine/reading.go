package engine

import api "github.com/fermi-cluster/fermi/api/v1"

// Reading is what the driver says of a device at one moment. What it can't say is zero.
type Reading struct {
	Lost    bool    // it does not answer any more
	Errors  uint64  // errors of its memory that were not corrected, since the driver was loaded
	Pending bool    // bad parts of its memory are taken out of use by the next reset
	Slowed  bool    // its hardware holds it back, for heat or power
	Busy    float64 // share of the last moment in which it worked, 0 to 1
	Used    int64   // bytes of its memory
	Total   int64
}

// Readings asks the driver for devices, by their UUID. ok is false where there is no driver to ask, and
// for devices that it does not know by one. A driver that hangs holds up the call.
type Readings func(devices []api.Device) (list []Reading, ok bool)
