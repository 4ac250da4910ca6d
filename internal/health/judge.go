package health

import (
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// How long something must last before it counts.
const (
	SilentFor = 30 * time.Second // a driver that does not answer may only be busy
	SlowedFor = time.Minute      // a short heat is no fault
)

// finding is a condition, and what kind of evidence it is.
type finding struct {
	card.DeviceCondition
	level bool // it is so now, as long as it is read; else it was counted
}

// Conditions are what a reading says is wrong. Counters count from what was dealt with, or from what was there at first.
func Conditions(r *card.DeviceReading, counted, base card.DeviceCounts, now time.Time) (out []card.DeviceCondition) {
	for _, f := range findings(r, counted, base, now) {
		out = append(out, f.DeviceCondition)
	}
	return out
}

func findings(r *card.DeviceReading, counted, base card.DeviceCounts, now time.Time) (out []finding) {
	if r == nil {
		return nil
	}
	add := func(level bool, kind string, action card.DeviceAction, value int64, detail string) {
		out = append(out, finding{card.DeviceCondition{Kind: kind, Action: action, Since: now, Value: value, Message: Words(kind, value, detail)}, level})
	}
	if r.Lost {
		add(true, "lost", card.ActionRestart, 0, r.Says)
		return out // what else is known of it is of before
	}
	if r.Silent >= SilentFor {
		add(true, "silent", card.ActionTest, int64(r.Silent/time.Second), "")
		return out
	}
	if r.Silent > 0 {
		return out
	}
	if n, news := above(r.ECC.VolatileUncorrected, counted.ECC, 0); news {
		add(false, "ecc", card.ActionReset, n, "")
	}
	switch {
	case r.Repair.Failed:
		add(true, "rows", card.ActionReset, value(r.Repair.RowsUncorrected), "failed")
	case r.Repair.Pending && r.Repair.RowsUncorrected != nil:
		add(true, "rows", card.ActionReset, value(r.Repair.RowsUncorrected), "pending")
	case r.Repair.Pending:
		add(true, "pages", card.ActionReset, value(r.Repair.PagesDouble), "pending")
	default:
		if n, news := above(r.Repair.RowsUncorrected, counted.Rows, 0); news {
			add(false, "rows", card.ActionWatch, n, "")
		}
		if n, news := above(r.Repair.PagesDouble, counted.Pages, 0); news {
			add(false, "pages", card.ActionWatch, n, "")
		}
	}
	if why := r.Repair.Recovery; why != "" {
		action := card.ActionReset
		if strings.Contains(strings.ToLower(why), "reboot") {
			action = card.ActionRestart
		}
		add(true, "recovery", action, 0, why)
	}
	if r.Slowed >= SlowedFor {
		add(true, "throttle", card.ActionTest, int64(r.Slowed/time.Second), strings.Join(r.Throttle, ", "))
	}
	if n, news := above(r.NVLink.Recovery, counted.NVLink, base.NVLink); news {
		add(false, "nvlink", card.ActionTest, n, "")
	}
	if n, news := above(r.PCIe.Fatal, counted.Fatal, base.Fatal); news {
		add(false, "pcie", card.ActionTest, n, "fatal")
	} else if n, news := above(r.PCIe.NonFatal, counted.Errors, base.Errors); news {
		add(false, "pcie", card.ActionWatch, n, "")
	}
	return out
}

// above says that a counter has grown. One that is lower than it was began again: all of it is new.
func above(now *int64, counted, base int64) (int64, bool) {
	if now == nil {
		return 0, false
	}
	from := max(counted, base)
	if *now < from {
		from = 0
	}
	return *now, *now > from
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// CountsOf are the counters of a reading, to be dealt with. What it does not say stays.
func CountsOf(r *card.DeviceReading, old card.DeviceCounts) card.DeviceCounts {
	if r == nil || r.Lost || r.Silent > 0 {
		return old
	}
	take := func(into *int64, from *int64) {
		if from != nil {
			*into = *from
		}
	}
	take(&old.ECC, r.ECC.VolatileUncorrected)
	take(&old.Pages, r.Repair.PagesDouble)
	take(&old.Rows, r.Repair.RowsUncorrected)
	take(&old.NVLink, r.NVLink.Recovery)
	take(&old.Fatal, r.PCIe.Fatal)
	take(&old.Errors, r.PCIe.NonFatal)
	return old
}

// KindAction is what a fault of this kind asks for where only its kind is known, as in a drill.
func KindAction(kind string) card.DeviceAction {
	if code, ok := card.XidOf(kind); ok {
		return XidAction(code, "")
	}
	switch kind {
	case "lost":
		return card.ActionRestart
	case "ecc", "pages", "rows", "recovery":
		return card.ActionReset
	}
	return card.ActionTest
}

// Words say what a fault is. The kind must be known.
func Words(kind string, n int64, detail string) fault.Text {
	if code, ok := card.XidOf(kind); ok {
		return xidText(code)
	}
	switch kind + " " + detail {
	case "rows failed":
		return fault.T("bad rows of its memory could not be remapped: it should be replaced", "坏显存行无法重映射：应更换该卡")
	case "rows pending":
		return fault.T("bad rows of its memory wait for a reset to be remapped", "有坏显存行待复位后重映射")
	case "pages pending":
		return fault.T("bad pages of its memory wait for a reset to go out of use", "有坏显存页待复位后停用")
	case "pcie fatal":
		return fault.T("its PCIe link had %d fatal [error|errors]", "PCIe 链路出现 %d 个致命错误", n)
	}
	switch kind {
	case "lost":
		return said(fault.T("it does not answer any more", "加速卡不再应答（掉卡）"), detail)
	case "silent":
		return fault.T("its driver has not answered for it for a while", "驱动长时间未就该卡应答")
	case "ecc":
		return fault.T("its memory has had errors that could not be corrected", "显存出现不可纠正的错误")
	case "rows":
		return fault.T("rows of its memory were remapped after errors", "有显存行因错误被重映射")
	case "pages":
		return fault.T("pages of its memory were taken out of use after errors", "有显存页因错误被停用")
	case "recovery":
		return said(fault.T("its driver asks for a recovery", "驱动要求恢复操作"), detail)
	case "throttle":
		return said(fault.T("its hardware holds it back, for heat or power", "因温度或供电被硬件降频"), detail)
	case "nvlink":
		return fault.T("its links to other cards had to recover from errors", "与其他卡的互联链路因错误而恢复")
	case "pcie":
		return fault.T("its PCIe link had errors that could not be corrected", "PCIe 链路出现不可纠正的错误")
	}
	return fault.T("it has a fault (%s)", "出现故障（%s）", kind)
}

func said(t fault.Text, detail string) fault.Text {
	if detail == "" {
		return t
	}
	return fault.Text{EN: t.EN + " (" + detail + ")", ZH: t.ZH + "（" + detail + "）"}
}

// advice is what to do about a device that is kept out.
func advice(action card.DeviceAction, node string, device int) fault.Text {
	switch action {
	case card.ActionReset:
		return fault.T("Reset it (nvidia-smi --gpu-reset), then fermi node test %s/%d.", "请复位该卡（nvidia-smi --gpu-reset），然后执行 fermi node test %s/%d。", node, device)
	case card.ActionRestart:
		return fault.T("Restart its node; it is tested afterwards. To use it as it is: fermi node uncordon %s/%d.", "请重启节点，之后会自动检测。若要直接启用：fermi node uncordon %s/%d。", node, device)
	}
	return fault.T("Repair it, then fermi node test %s/%d.", "请检修该卡，然后执行 fermi node test %s/%d。", node, device)
}
