package card

import (
	"slices"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
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

// FaultKinds are the faults that a drill may have, beside xid-N.
var FaultKinds = []string{"lost", "silent", "ecc", "pages", "rows", "recovery", "throttle", "nvlink", "pcie"}

var xidKind = pattern.New(`^xid-([1-9][0-9]{0,2})$`)

// XidOf is the number of a fault xid-N.
func XidOf(kind string) (code int, ok bool) {
	m := xidKind.FindStringSubmatch(kind)
	if m == nil {
		return 0, false
	}
	code, err := strconv.Atoi(m[1])
	return code, err == nil
}

// Of is what is known of a device's health; nil: it was never at fault.
func Of(list []DeviceHealth, device int) *DeviceHealth {
	for i := range list {
		if list[i].Device == device {
			return &list[i]
		}
	}
	return nil
}

// Closed is the mask of devices that take no work because they are, or may be, not well.
func Closed(list []DeviceHealth) (mask uint64) {
	for i := range list {
		if h := &list[i]; h.Closed() && h.Device >= 0 && h.Device < 64 {
			mask |= 1 << h.Device
		}
	}
	return mask
}

// OrderOf is the newest order about a device; nil: none.
func OrderOf(list []DeviceOrder, device int) *DeviceOrder {
	for i := range list {
		if list[i].Device == device {
			return &list[i]
		}
	}
	return nil
}

// Give is the list with an order in place of the device's former one, by device.
func Give(list []DeviceOrder, o DeviceOrder) []DeviceOrder {
	out := make([]DeviceOrder, 0, len(list)+1)
	for _, old := range list {
		if old.Device != o.Device {
			out = append(out, old)
		}
	}
	out = append(out, o)
	slices.SortFunc(out, func(a, b DeviceOrder) int { return a.Device - b.Device })
	return out
}
