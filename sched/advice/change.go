package advice

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ChangeKind is what to change.
type ChangeKind string

// The changes. Those of the workload are seen with everybody else as they are; those of the
// cluster and of queues hold if nobody who waits goes first.
const (
	ChangeReplicas   ChangeKind = "Replicas"   // of role Target to Value
	ChangeDevices    ChangeKind = "Devices"    // a replica of role Target to Value
	ChangeType       ChangeKind = "DeviceType" // of all roles to Target
	ChangeZones      ChangeKind = "Zones"      // no rules on zones
	ChangeTopology   ChangeKind = "Topology"   // no rule on racks
	ChangeSplit      ChangeKind = "Split"      // none
	ChangeDefer      ChangeKind = "Defer"      // start as soon as there is room
	ChangeData       ChangeKind = "Data"       // none
	ChangeRegion     ChangeKind = "Region"     // zones of several regions
	ChangeSurvive    ChangeKind = "Survive"    // none
	ChangeSpot       ChangeKind = "Spot"       // spot nodes are as good as others
	ChangeMaxLatency ChangeKind = "MaxLatency" // to Value nanoseconds
	ChangePriority   ChangeKind = "Priority"   // to Value
	ChangeLimit      ChangeKind = "Limit"      // of queue Target, resource Resource, to Value
	ChangeResume     ChangeKind = "Resume"     // queue Target
	ChangeUncordon   ChangeKind = "Uncordon"   // node Target, number Value
)

// Change is one thing to change.
type Change struct {
	Kind     ChangeKind `json:"kind,omitempty"`
	Target   string     `json:"target,omitempty"`
	Value    int64      `json:"value,omitempty"`
	Resource int        `json:"resource,omitempty"` // of a Vector
	Key      string     `json:"key,omitempty"`      // the same in the words of a queue's limit
}

// Text tells people what to do.
func (ch Change) Text() api.Text {
	switch ch.Kind {
	case ChangeReplicas:
		return api.T("Ask for %[1]d replicas of %[2]s: then it starts.", "将角色 %[2]s 的副本数改为 %[1]d 即可启动。", ch.Value, ch.Target)
	case ChangeDevices:
		return api.T("Ask for %[1]d devices a replica of %[2]s: then it starts.", "将角色 %[2]s 每副本的加速卡数改为 %[1]d 即可启动。", ch.Value, ch.Target)
	case ChangeType:
		return api.T("Ask for devices of type %s: then it starts.", "将加速卡类型改为 %s 即可启动。", ch.Target)
	case ChangeZones:
		return api.T("Lift the zone rules in spec.zones: then it starts.", "去掉 spec.zones 中的可用区规则即可启动。")
	case ChangeTopology:
		return api.T("Lift the topology rule: then it starts.", "去掉拓扑规则即可启动。")
	case ChangeSplit:
		return api.T("Lift the split over zones: then it starts.", "去掉按可用区指定的副本数即可启动。")
	case ChangeDefer:
		return api.T("Submit it without spec.deferrable: then it starts.", "去掉 spec.deferrable 重新提交即可启动。")
	case ChangeData:
		return api.T("Drop spec.zones.data: then it starts elsewhere, and moves its data.", "去掉 spec.zones.data 即可在其他可用区启动，但需搬运数据。")
	case ChangeRegion:
		return api.T("Let it stand in several regions (spec.zones.sameRegion: prefer): then it starts.", "允许跨区域（spec.zones.sameRegion: prefer）即可启动。")
	case ChangeSurvive:
		return api.T("Drop spec.zones.surviveZoneLoss: then it starts.", "去掉 spec.zones.surviveZoneLoss 即可启动。")
	case ChangeSpot:
		return api.T("Drop the rule on spot nodes: then it starts.", "去掉对竞价节点的规则（spot）即可启动。")
	case ChangeMaxLatency:
		return api.T("Allow a latency of %s between zones: then it starts.", "将可用区之间允许的延迟放宽到 %s 即可启动。", time.Duration(ch.Value))
	case ChangePriority:
		return api.T("Raise the priority to %d: then it goes first.", "将优先级提高到 %d 即可优先启动。", ch.Value)
	case ChangeLimit:
		return api.T("Have the limit of queue %[1]s raised: fermi queue set %[1]s --limit %[2]s=%[3]d", "请提高队列 %[1]s 的上限：fermi queue set %[1]s --limit %[2]s=%[3]d", ch.Target, ch.Key, Units(ch.Resource, ch.Value))
	case ChangeResume:
		return api.T("Resume the queue: fermi queue resume %s", "恢复队列：fermi queue resume %s", ch.Target)
	case ChangeUncordon:
		return api.T("Uncordon a node: fermi node uncordon %s", "解除节点隔离：fermi node uncordon %s", ch.Target)
	}
	return api.T("Wait for running work to end.", "等待运行中的任务结束。")
}

// The resources, by their place in a vector; from Types on it is one device type each.
const (
	CPU = iota
	Memory
	Devices
	Types
)

const thousand = 1000

// Plain is an amount of a resource as people count it: cores, GiB and devices, where the planner has
// thousandths and bytes.
func Plain(resource int, n int64) string {
	unit := int64(thousand) // CPU is in thousandths too
	if resource == Memory {
		unit = 1 << 30
	}
	return strconv.FormatFloat(float64((n*1000+unit-1)/unit)/1000, 'f', -1, 64) // needs round up, to a thousandth
}

// Single is a unit after a number: 1 device, 2 devices.
func Single(n int, unit string) string {
	if n == 1 && unit == "devices" {
		return "device"
	}
	return unit
}

// Units is the same in whole units, rounded up.
func Units(resource int, n int64) int {
	unit := int64(thousand)
	if resource == Memory {
		unit = 1 << 30
	}
	return int((n + unit - 1) / unit)
}
