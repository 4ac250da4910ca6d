package card

import (
	"strconv"
	"strings"
	"time"
)

// DeviceReading is what the tools of a device's maker and the kernel say of it at one moment. What they can't say is nil.
type DeviceReading struct {
	At       time.Time
	UUID     string
	Bus      string // its PCI address: 0000:3b:00.0
	Lost     bool   // it does not answer, or is no longer there
	Says     string // what the tool said of it
	Silent   time.Duration
	Slowed   time.Duration // how long its hardware has held it back
	Throttle []string      // why its clocks are lower now, by the hardware's or the driver's words
	ECC      ReadingECC
	Repair   ReadingRepair
	NVLink   ReadingNVLink
	PCIe     ReadingPCIe
	Load     ReadingLoad
}

// ReadingLoad is what a card is doing.
type ReadingLoad struct {
	Model                  string
	Celsius, Watts         *int64
	Busy                   *int64 // percent of the time in which something was computed
	MemoryUsed, MemoryFree *int64 // MiB
}

// ReadingECC are memory errors: volatile since the driver was loaded, aggregate since it was made.
type ReadingECC struct {
	VolatileCorrected, VolatileUncorrected   *int64
	AggregateCorrected, AggregateUncorrected *int64
}

// ReadingRepair is what became of bad memory, and what the driver asks for.
type ReadingRepair struct {
	PagesSingle, PagesDouble       *int64 // retired for many corrected, or for uncorrected errors
	RowsCorrected, RowsUncorrected *int64
	Pending                        bool   // the next reset takes bad memory out of use
	Failed                         bool   // bad memory could not be taken out of use
	Recovery                       string // "": none is asked for, or the driver can't say
	KnowsRecovery                  bool   // the driver can say
}

// ReadingNVLink are errors of all links together.
type ReadingNVLink struct {
	Links, Down           *int64
	Replay, Recovery, CRC *int64
}

// ReadingPCIe are errors of the PCIe link: what the device counted, and the kernel's (AER).
type ReadingPCIe struct {
	Replays                    *int64
	Corrected, NonFatal, Fatal *int64
}

// KernelLine is a line of the kernel's own log about a device.
type KernelLine struct {
	Boot     string
	Sequence uint64
	At       time.Time
	Bus      string // 0000:3b:00.0
	Xid      int
	Text     string
}

// SameBus says that two PCI addresses are of one device; functions count where both name one.
func SameBus(a, b string) bool {
	a, b = busWords(a), busWords(b)
	if a == "" || b == "" {
		return false
	}
	da, fa, _ := strings.Cut(a, ".")
	db, fb, _ := strings.Cut(b, ".")
	return da == db && (fa == "" || fb == "" || fa == fb)
}

// busWords makes 00000000:3B:00.0, 0000:3b:00 and PCI:0000:3b:00 one form.
func busWords(s string) string {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "pci:")
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return ""
	}
	domain, err := strconv.ParseUint(parts[0], 16, 32)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(domain, 16) + ":" + parts[1] + ":" + parts[2]
}
