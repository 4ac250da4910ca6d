package preflight

import (
	"cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What was done about devices.
const (
	Computed = api.DevicesComputed // something was computed on each, and was right
	Tested   = api.DevicesTested   // the driver was asked for each
	Virtual  = api.DevicesVirtual  // there is nothing to test
	Untested = api.DevicesUntested // nobody could be asked
)

// Tests lists them.
var Tests = []string{Computed, Tested, Virtual, Untested}

// Devices are what a launcher learned about its own; the zero value: it has none.
type Devices struct {
	Test   string // of these words
	Faults []DeviceFault
}

// DeviceFault is one that should not be trained on.
type DeviceFault struct {
	Index int
	Kind  string
	Count int64  // of memory errors, or of devices that are seen
	Text  string // what PyTorch said; "": nothing
}

// The ways a device is unwell.
const (
	DeviceLost    = "lost"    // it does not answer
	DeviceSilent  = "silent"  // the driver did not in time
	DeviceErrors  = "errors"  // uncorrected errors of its memory
	DevicePending = "pending" // it needs a reset
	DeviceSlowed  = "slowed"  // heat or power holds it back

	// What a computation showed.
	DeviceWrong     = "wrong"  // its result
	DeviceMemory    = "memory" // other bytes came back than were written
	DeviceCopy      = "copy"   // other bytes came to the host
	DeviceFull      = "full"   // there was no memory for it
	DeviceFailed    = "failed" // the runtime said no
	DeviceHung      = "hung"
	DeviceUnseen    = "unseen"    // fewer are seen than were assigned
	DeviceProcessor = "processor" // the processors' own result was wrong
)

// DeviceFaults lists them.
var DeviceFaults = []string{
	DeviceLost, DeviceSilent, DeviceErrors, DevicePending, DeviceSlowed,
	DeviceWrong, DeviceMemory, DeviceCopy, DeviceFull, DeviceFailed, DeviceHung, DeviceUnseen, DeviceProcessor,
}

// Covered is what was done about the devices of all; "": there are none. The least is said.
func Covered(members []Member) (word string) {
	least := map[string]int{"": 0, Computed: 1, Tested: 2, Virtual: 3, Untested: 4}
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
		words, ok := deviceWords[f.Kind]
		if !ok {
			words = deviceWords[DeviceLost]
		}
		out = append(out, finding("device", words.EN, words.ZH, m.Name, m.Node, f.Index, f.Count, cmp.Or(f.Text, "-")))
	}
	return out
}

// deviceWords say what is wrong and what to do: of replica %[1]s on node %[2]s with device %[3]d, a count and a text.
var deviceWords = map[string]fault.Text{
	DeviceSilent: {
		EN: "The driver of node %[2]s, asked for the devices of %[1]s, did not answer in time; look at its kernel log, and cordon the node.",
		ZH: "查询 %[1]s 的加速卡时，节点 %[2]s 的驱动未在限定时间内应答；请查看其内核日志并将节点设为不可调度。",
	},
	DeviceErrors: {
		EN: "Device %[3]d of node %[2]s (%[1]s) had %[4]d memory errors that could not be corrected since its driver was loaded; reset it, or replace it if they come again.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）自驱动加载以来有 %[4]d 个不可纠正的显存错误；请复位，若再次出现请更换。",
	},
	DevicePending: {
		EN: "Device %[3]d of node %[2]s (%[1]s) has bad memory that goes out of use with the next reset; reset it.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）有待下次复位停用的坏显存；请复位该卡。",
	},
	DeviceLost: {
		EN: "Device %[3]d of node %[2]s (%[1]s) does not answer: it dropped off the bus or hangs; cordon the node and restart it.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）没有应答：已掉卡或挂起；请将节点设为不可调度并重启。",
	},
	DeviceSlowed: {
		EN: "Device %[3]d of node %[2]s (%[1]s) is held back by its hardware for heat or power; look at the cooling and power of the node.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）因温度或供电被硬件降频；请检查节点的散热与供电。",
	},
	DeviceWrong: {
		EN: "Device %[3]d of node %[2]s (%[1]s) computed a wrong result (%[5]s); cordon the node, and have the device replaced.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）试算结果错误（%[5]s）；请将节点设为不可调度并更换该卡。",
	},
	DeviceMemory: {
		EN: "The memory of device %[3]d of node %[2]s (%[1]s) gave back other bytes than were written; cordon the node, and have the device replaced.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）的显存读回内容与写入不符；请将节点设为不可调度并更换该卡。",
	},
	DeviceCopy: {
		EN: "What device %[3]d of node %[2]s (%[1]s) copied to the host was not what it held; cordon the node, and look at its bus and memory.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）拷贝到主机的内容与显存不符；请将节点设为不可调度并检查总线与内存。",
	},
	DeviceFull: {
		EN: "Device %[3]d of node %[2]s (%[1]s) has no memory free for a short test: another program holds it; end that program.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）没有可供检查的空闲显存：已被其他程序占用；请结束该程序。",
	},
	DeviceFailed: {
		EN: "The task's own PyTorch could not use device %[3]d of node %[2]s (%[1]s): %[5]s. Look at its kernel log, and whether the driver is new enough.",
		ZH: "任务自身的 PyTorch 无法使用节点 %[2]s 的加速卡 %[3]d（%[1]s）：%[5]s。请查看其内核日志，并检查驱动版本是否足够新。",
	},
	DeviceHung: {
		EN: "Device %[3]d of node %[2]s (%[1]s) did not finish a short computation in time; look at its kernel log, cordon the node and restart it.",
		ZH: "节点 %[2]s 的加速卡 %[3]d（%[1]s）未在限定时间内完成试算；请查看其内核日志，将节点设为不可调度并重启。",
	},
	DeviceUnseen: {
		EN: "The task's own PyTorch sees only %[4]d of the devices that %[1]s has on node %[2]s; look whether the driver is new enough for it.",
		ZH: "任务自身的 PyTorch 只能看到 %[1]s 在节点 %[2]s 上的 %[4]d 张加速卡；请检查驱动版本是否与其匹配。",
	},
	DeviceProcessor: {
		EN: "The processors of node %[2]s (%[1]s) computed a wrong result (%[5]s); cordon the node, and have its memory and processors tested.",
		ZH: "节点 %[2]s（%[1]s）的处理器试算结果错误（%[5]s）；请将节点设为不可调度并检测内存与处理器。",
	},
}
