package v1

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// DeviceState is where a device is between a fault and its return.
type DeviceState string

// The states. A device that was never at fault has no entry at all.
const (
	DeviceOpen    DeviceState = "open"    // takes work
	DeviceClosed  DeviceState = "closed"  // takes none, what stands on it leaves
	DeviceTesting DeviceState = "testing" // nothing stands on it, and it is tested
	DeviceOut     DeviceState = "out"     // it is kept out until it is well again, or an operator says so
)

// DeviceHealth is what is known of a device that is, or was, not well.
type DeviceHealth struct {
	Device int         `json:"device"`
	State  DeviceState `json:"state" doc:"open, closed (what stands on it leaves), testing, or out (kept out)."`
	Since  time.Time   `json:"since" doc:"When the state began."`
	Reason string      `json:"reason,omitempty" doc:"The kind of fault that closed it; empty while it is open."`
	// ClosedAt is when it was closed, whatever became of it since.
	ClosedAt *time.Time `json:"closedAt,omitempty" doc:"Since when it takes no work; absent while it does."`
	// MendedAt is when its machine was started again, or an operator wanted it tested, since it was closed: faults before
	// that need no other reset.
	MendedAt *time.Time `json:"mendedAt,omitempty" doc:"When its machine was started again, or a test was asked for, since it was closed."`
	// Message says why it is closed and what happens next.
	Message    fault.Text        `json:"message,omitzero"`
	Conditions []DeviceCondition `json:"conditions,omitempty" doc:"What is wrong with it now."`
	Test       *DeviceTest       `json:"test,omitempty" doc:"The last test."`
	Faults     []DeviceFault     `json:"faults,omitempty" doc:"Its faults, the newest last; at most 16."`
	Total      int               `json:"total,omitempty" doc:"How many faults it had so far."`
	Counted    DeviceCounts      `json:"counted,omitzero" doc:"The counters of the device that were dealt with; what is above is news."`
	Log        LogMark           `json:"log,omitzero" doc:"The last line of the kernel's log about it that was dealt with."`
	Ordered    *time.Time        `json:"ordered,omitempty" doc:"The last order about it that was dealt with."`
}

// Closed says that it takes no new work.
func (h *DeviceHealth) Closed() bool { return h.State != "" && h.State != DeviceOpen }

// DeviceCondition is something that is wrong with a device now.
type DeviceCondition struct {
	Kind    string       `json:"kind" doc:"lost, silent, ecc, pages, rows, recovery, throttle, nvlink, pcie, or xid-N."`
	Action  DeviceAction `json:"action" doc:"watch, test, reset or restart."`
	Since   time.Time    `json:"since"`
	Value   int64        `json:"value,omitempty" doc:"How many, where it is counted."`
	Message fault.Text   `json:"message,omitzero"`
}

// DeviceAction is what a fault asks for.
type DeviceAction string

// The actions, from the least on.
const (
	ActionNone    DeviceAction = "none"    // the program's own error, or news
	ActionWatch   DeviceAction = "watch"   // it is shown
	ActionTest    DeviceAction = "test"    // close it, let work leave, test it
	ActionReset   DeviceAction = "reset"   // the same; it must be reset before it is used again
	ActionRestart DeviceAction = "restart" // the same; its node must be restarted before it is used again
)

// Closes says that a device with such a fault takes no more work.
func (a DeviceAction) Closes() bool {
	return a == ActionTest || a == ActionReset || a == ActionRestart
}

// DeviceFault is something that happened to a device.
type DeviceFault struct {
	Kind    string       `json:"kind"`
	Action  DeviceAction `json:"action"`
	Source  string       `json:"source" doc:"driver, kernel, or drill."`
	At      time.Time    `json:"at"`
	Closed  bool         `json:"closed,omitempty" doc:"The device took work until then: this one closed it."`
	Message fault.Text   `json:"message,omitzero"`
}

// Where a fault was seen.
const (
	FaultOfDriver = "driver"
	FaultOfKernel = "kernel"
	FaultOfDrill  = "drill"
)

// DeviceTest is how a device was tested.
type DeviceTest struct {
	At      time.Time  `json:"at"`
	Passed  bool       `json:"passed"`
	How     string     `json:"how,omitempty" doc:"computed (something was computed on it), tested (the driver was asked), virtual, or untested."`
	Message fault.Text `json:"message,omitzero" doc:"What was wrong."`
}

// DeviceCounts are counters of a device that only grow, until its driver is loaded again.
type DeviceCounts struct {
	ECC    int64 `json:"ecc,omitempty" doc:"Memory errors that could not be corrected, since the driver was loaded."`
	Pages  int64 `json:"pages,omitempty" doc:"Memory pages retired for errors that could not be corrected."`
	Rows   int64 `json:"rows,omitempty" doc:"Memory rows remapped for errors that could not be corrected."`
	NVLink int64 `json:"nvlink,omitempty" doc:"NVLink recoveries that failed or were needed."`
	Fatal  int64 `json:"fatal,omitempty" doc:"Fatal errors of its PCIe link."`
	Errors int64 `json:"errors,omitempty" doc:"Uncorrected errors of its PCIe link that were not fatal."`
}

// LogMark is a place in a kernel's log.
type LogMark struct {
	Boot     string `json:"boot,omitempty" doc:"The boot id of that kernel."`
	Sequence uint64 `json:"sequence,omitempty"`
}

// The orders that an operator gives about a device's health.
const (
	OrderFault  = "fault"  // act as if it had this fault
	OrderTest   = "test"   // test it again, it was repaired
	OrderReturn = "return" // it is well: use it again
)

// DeviceOrder is what an operator wants of one device; a device has one, the newest.
type DeviceOrder struct {
	Device int       `json:"device"`
	Order  string    `json:"order" doc:"fault (a drill), test, or return."`
	Kind   string    `json:"kind,omitempty" doc:"Of a drill: the fault."`
	Heal   bool      `json:"heal,omitempty" doc:"Of a drill: the fault is over when the device is tested, so that it returns."`
	At     time.Time `json:"at"`
}

// DeviceFaultKinds are the faults that a drill may have, beside xid-N.
var DeviceFaultKinds = []string{"lost", "silent", "ecc", "pages", "rows", "recovery", "throttle", "nvlink", "pcie"}

var xidKind = regexp.MustCompile(`^xid-([1-9][0-9]{0,2})$`)

// XidOf is the number of a fault xid-N.
func XidOf(kind string) (code int, ok bool) {
	m := xidKind.FindStringSubmatch(kind)
	if m == nil {
		return 0, false
	}
	code, err := strconv.Atoi(m[1])
	return code, err == nil
}

// Health is what is known of a device's health; nil: it was never at fault.
func (n *Node) Health(device int) *DeviceHealth {
	for i := range n.Status.Devices {
		if n.Status.Devices[i].Device == device {
			return &n.Status.Devices[i]
		}
	}
	return nil
}

// ClosedByHealth is the mask of devices that take no work because they are, or may be, not well.
func (n *Node) ClosedByHealth() (mask uint64) {
	for i := range n.Status.Devices {
		if h := &n.Status.Devices[i]; h.Closed() && h.Device >= 0 && h.Device < 64 {
			mask |= 1 << h.Device
		}
	}
	return mask
}

// Order is the newest order about a device; nil: none.
func (s *NodeSpec) Order(device int) *DeviceOrder {
	for i := range s.DeviceOrders {
		if s.DeviceOrders[i].Device == device {
			return &s.DeviceOrders[i]
		}
	}
	return nil
}

// Give writes an order down in place of the device's former one.
func (s *NodeSpec) Give(o DeviceOrder) {
	list := make([]DeviceOrder, 0, len(s.DeviceOrders)+1)
	placed := false
	for _, old := range s.DeviceOrders {
		switch {
		case old.Device == o.Device:
			continue
		case !placed && old.Device > o.Device:
			list, placed = append(list, o), true
		}
		list = append(list, old)
	}
	if !placed {
		list = append(list, o)
	}
	s.DeviceOrders = list
}

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
