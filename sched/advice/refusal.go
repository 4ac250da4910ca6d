package advice

import (
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
)

// Wrong is what of a wish can't be had.
type Wrong string

// What can be wrong with a wish; Wrongs says what each means.
const (
	WrongZones    Wrong = "Zones"
	WrongQueue    Wrong = "Queue"
	WrongTopology Wrong = "Topology"
	WrongSplit    Wrong = "Split"
	WrongRegion   Wrong = "Region"
	WrongLatency  Wrong = "Latency"
	WrongSurvive  Wrong = "Survive"
	WrongSpot     Wrong = "Spot"
	WrongType     Wrong = "Type"
	WrongDevices  Wrong = "Devices"
	WrongShare    Wrong = "Share"
	WrongCPU      Wrong = "CPU"
	WrongMemory   Wrong = "Memory"
	WrongDisk     Wrong = "Disk"
	WrongTogether Wrong = "Together"
	WrongReplicas Wrong = "Replicas"
)

// Wrongs is everything that can be wrong, the field of a task it is about ([] is the role's), and
// what it means.
var Wrongs = []struct {
	Wrong Wrong
	Field string
	Text  api.Text
}{
	{WrongZones, "spec.zones", api.T("its zone rules leave no zone", "可用区规则排除了所有可用区")},
	{WrongQueue, "spec.queue", api.T("it is larger than the whole limit of its queue, or of one above it", "超过所在队列或其上级队列的总上限")},
	{WrongTopology, "spec.topology", api.T("its topology rule can't be kept", "拓扑规则无法满足")},
	{WrongSplit, "spec.zones.split", api.T("its split over zones can't be had", "分区副本数无法满足")},
	{WrongLatency, "spec.zones.maxLatency", api.T("the zones that it would need are too far apart", "所需可用区之间延迟过高")},
	{WrongRegion, "spec.zones.sameRegion", api.T("no one region is large enough; several together are", "没有单个区域足够大，跨区域才能放下")},
	{WrongSurvive, "spec.zones.surviveZoneLoss", api.T("there are not two zones near enough that each could lose the other", "没有两个距离足够近、可互为容灾的可用区")},
	{WrongSpot, "spec.zones.spot", api.T("the nodes that its rule on spot nodes leaves can't take it", "规则所允许的节点放不下")},
	{WrongType, "spec.roles[].resources.accelerators.type", api.T("no node has such a device", "没有节点带该类型加速卡")},
	{WrongDevices, "spec.roles[].resources.accelerators.count", api.T("no node has so many devices", "没有节点有这么多加速卡")},
	{WrongShare, "spec.roles[].resources.accelerators.share", api.T("real cards are given whole, and there is no virtual one", "真实加速卡只整卡分配，且没有虚拟卡")},
	{WrongCPU, "spec.roles[].resources.cpu", api.T("no node has so much CPU", "没有节点有这么多 CPU")},
	{WrongMemory, "spec.roles[].resources.memory", api.T("no node has so much memory", "没有节点有这么多内存")},
	{WrongDisk, "spec.roles[].resources.ephemeralDisk", api.T("no node has so much disk", "没有节点有这么多磁盘")},
	{WrongTogether, "spec.roles[].resources", api.T("no single node has all of it", "没有一个节点同时满足全部需求")},
	{WrongReplicas, "spec.roles[].replicas", api.T("all nodes together take fewer replicas", "所有节点合计也放不下这么多副本")},
}

// Field is the path of the field that is wrong.
func (r *Refusal) Field() string {
	for _, row := range Wrongs {
		if row.Wrong == r.Wrong {
			return strings.Replace(row.Field, "[]", "["+strconv.Itoa(r.Role)+"]", 1)
		}
	}
	return "spec"
}

// Refusal is why a wish is refused when it is submitted, and what would be right.
type Refusal struct {
	Reason  string
	Wrong   Wrong
	Role    int // which role
	Message api.Text
	Hint    api.Text
}

// NoSpot is for what has room only where its rule on spot nodes keeps it away.
func NoSpot(rule spot.Rule, what string) Refusal {
	r := Refusal{Reason: ReasonSpot, Wrong: WrongSpot, Hint: api.T("Use spot: prefer, or leave it out.", "请使用 spot: prefer，或去掉该规则。")}
	if r.Message = api.T("Even when empty, the spot nodes have no room for %s; the others have.", "即使空闲，竞价节点也放不下 %s；其他节点可以。", what); rule == spot.Never {
		r.Message = api.T("Even when empty, the nodes that are not spot have no room for %s; with the spot nodes there is.", "即使空闲，非竞价节点也放不下 %s；加上竞价节点则可以。", what)
		r.Hint = api.T("Leave spot: never out, or ask for less.", "请去掉 spot: never，或减少用量。")
	}
	return r
}
