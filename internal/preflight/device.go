package preflight

import api "github.com/fermi-cluster/fermi/api/v1"

// What was done about devices.
const (
	Tested   = api.DevicesTested   // the driver was asked for each
	Virtual  = api.DevicesVirtual  // there is nothing to test
	Untested = api.DevicesUntested // nobody could be asked
)

// Devices are what a launcher learned about its own; the zero value: it has none.
type Devices struct {
	Test   string // of these words
	Faults []DeviceFault
}

// DeviceFault is one that should not be trained on.
type DeviceFault struct {
	Index int
	Kind  string
	Count int64 // of memory errors
}

// The ways a device is unwell.
const (
	DeviceLost    = "lost"    // it does not answer
	DeviceSilent  = "silent"  // the driver did not in time
	DeviceErrors  = "errors"  // uncorrected errors of its memory
	DevicePending = "pending" // it needs a reset
)

// DeviceFaults lists them.
var DeviceFaults = []string{DeviceLost, DeviceSilent, DeviceErrors, DevicePending}

// Covered is what was done about the devices of all; "": there are none. The least is said.
func Covered(members []Member) (word string) {
	least := map[string]int{"": 0, Tested: 1, Virtual: 2, Untested: 3}
	for _, m := range members {
		if m.Answer != nil && least[m.Answer.Devices.Test] > least[word] {
			word = m.Answer.Devices.Test
		}
	}
	return word
}

// sick names the devices that are unwell.
func sick(m Member) (out []api.PreflightFinding) {
	if m.Answer == nil {
		return nil
	}
	for _, f := range m.Answer.Devices.Faults {
		switch f.Kind {
		case DeviceSilent:
			out = append(out, finding("device", "The driver of node %[2]s, asked for the devices of %[1]s, did not answer in time; look at its kernel log, and cordon the node.",
				"查询 %[1]s 的加速卡时，节点 %[2]s 的驱动未在限定时间内应答；请查看其内核日志并将节点设为不可调度。", m.Name, m.Node))
		case DeviceErrors:
			out = append(out, finding("device", "Device %[3]d of node %[2]s (%[1]s) had %[4]d memory errors that could not be corrected since its driver was loaded; reset it, or replace it if they come again.",
				"节点 %[2]s 的加速卡 %[3]d（%[1]s）自驱动加载以来有 %[4]d 个不可纠正的显存错误；请复位，若再次出现请更换。", m.Name, m.Node, f.Index, f.Count))
		case DevicePending:
			out = append(out, finding("device", "Device %[3]d of node %[2]s (%[1]s) has bad memory that goes out of use with the next reset; reset it.",
				"节点 %[2]s 的加速卡 %[3]d（%[1]s）有待下次复位停用的坏显存；请复位该卡。", m.Name, m.Node, f.Index))
		default:
			out = append(out, finding("device", "Device %[3]d of node %[2]s (%[1]s) does not answer: it dropped off the bus or hangs; cordon the node and restart it.",
				"节点 %[2]s 的加速卡 %[3]d（%[1]s）没有应答：已掉卡或挂起；请将节点设为不可调度并重启。", m.Name, m.Node, f.Index))
		}
	}
	return out
}
