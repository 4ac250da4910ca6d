package advice

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Explanation is why a workload waits: one dominant reason with evidence in numbers, when it is
// expected to start, and the smallest change found that admits it.
type Explanation struct {
	Reason   string     `json:"reason"`
	Message  api.Text   `json:"message"`
	Evidence []Evidence `json:"evidence,omitempty"`
	Action   api.Text   `json:"action,omitzero"`
	// Change is the action in a form a program can apply; its kind is "" where only time helps.
	Change Change `json:"change,omitzero"`
	// Ahead counts workloads of the same class that were there first.
	Ahead int `json:"ahead"`
	// Start is when it is expected to start. Early and Late are the 10 and 90 % marks of the run whose
	// end it waits for: how often that holds is measured (make bench-chronus). Zero where nobody
	// worked it out.
	Start time.Time `json:"start,omitzero"`
	Early time.Time `json:"early,omitzero"`
	Late  time.Time `json:"late,omitzero"`
	// Impossible: no end of other work will ever let it start.
	Impossible bool `json:"impossible,omitempty"`
}

// Evidence is one counted fact.
type Evidence struct {
	Fact  string   `json:"fact"`
	Text  api.Text `json:"text"`
	Count int      `json:"count"`
}

// The reasons a workload waits. Reasons says what each means.
const (
	ReasonScheduling   = "Scheduling"
	ReasonDeferred     = "Deferred"
	ReasonWindow       = "WaitingForWindow"
	ReasonData         = "WaitingForData"
	ReasonBehind       = "BehindInQueue"
	ReasonVictims      = "WaitingForVictims"
	ReasonQueuePaused  = "QueuePaused"
	ReasonQueueLimit   = "QueueLimit"
	ReasonReserved     = "Reserved"
	ReasonNoZone       = "NoZone"
	ReasonNoNodes      = "NoNodes"
	ReasonNeverFits    = "NeverFits"
	ReasonClosed       = "NodesClosed"
	ReasonProcessLimit = "ProcessLimit"
	ReasonOnly         = "OneNode"
	ReasonTopology     = "TopologyRule"
	ReasonSplit        = "SplitUnfit"
	ReasonRegion       = "SameRegion"
	ReasonSurvive      = "SurviveZoneLoss"
	ReasonSpot         = "SpotRule"
	ReasonLatency      = "Latency"
	ReasonFragmented   = "Fragmented"
	ReasonDevicesBusy  = "DevicesBusy"
	ReasonNodesFull    = "NodesFull"
)

// Reasons is every reason the planner can give and what it means, in the order in which they are
// looked for.
var Reasons = []struct {
	Reason string
	Text   api.Text
}{
	{ReasonVictims, api.T("others were asked to make room; it starts when they have gone", "已请其他任务让出资源，待其退出后启动")},
	{ReasonWindow, api.T("it is deferrable and waits for its cheapest or cleanest hours", "任务可推迟，正在等待最便宜或最低碳的时段")},
	{ReasonQueuePaused, api.T("its queue, or one above it, is paused", "所在队列或其上级队列已暂停")},
	{ReasonNoZone, api.T("its zone rules leave no zone", "可用区规则排除了所有可用区")},
	{ReasonNoNodes, api.T("the zones it may use have no nodes yet", "可用的可用区中还没有节点")},
	{ReasonQueueLimit, api.T("its queue, or one above it, would exceed its limit", "所在队列或其上级队列将超过上限")},
	{ReasonReserved, api.T("it fits only where room is kept for a gang that goes first", "仅剩的空位已为排在前面的任务预留")},
	{ReasonData, api.T("it fits, and is sooner at work where its data lies, though it has to wait for room there", "资源充足，但等待数据所在可用区的空位比搬运数据更快")},
	{ReasonDeferred, api.T("it fits; refused work is looked at again in a moment", "资源充足，稍后将重新调度")},
	{ReasonBehind, api.T("it fits, and others of its queue go first", "资源充足，但同队列中有任务排在前面")},
	{ReasonScheduling, api.T("it fits; the next turn places it", "资源充足，即将调度")},
	{ReasonOnly, api.T("it may stand on one node alone, where its home is, and that node is not there, closed or full", "只能在其主目录所在的节点上运行，而该节点不存在、暂停接收新任务或资源不足")},
	{ReasonTopology, api.T("without its topology rule it would fit", "若无拓扑规则即可放下")},
	{ReasonSplit, api.T("without its split over zones it would fit, or the split makes no sense", "若不指定分区副本数即可放下，或该指定本身无法满足")},
	{ReasonRegion, api.T("no one region has room for it; several together do", "没有单个区域能放下，跨区域则可以")},
	{ReasonSurvive, api.T("it fits, but not so that the loss of a zone leaves enough of it", "可以放下，但无法保证失去一个可用区后仍有足够副本")},
	{ReasonSpot, api.T("its rule on spot nodes leaves no room; without it there is", "对竞价节点的规则使其无处可放；去掉即有空位")},
	{ReasonLatency, api.T("the zones that have room together are too far apart", "合起来有空位的可用区之间延迟过高")},
	{ReasonNeverFits, api.T("not even the empty cluster has room for it", "即使集群空闲也放不下")},
	{ReasonClosed, api.T("it would fit if nodes were not cordoned or not ready", "若节点未被隔离或均已就绪即可放下")},
	{ReasonProcessLimit, api.T("the machine behind virtual nodes runs as many processes as it may", "虚拟节点背后的机器已达到进程数上限")},
	{ReasonFragmented, api.T("there are enough free devices in all, but not together", "空闲加速卡总数足够，但过于分散")},
	{ReasonDevicesBusy, api.T("its devices are in use", "所需加速卡正被占用")},
	{ReasonNodesFull, api.T("CPU, memory or disk are in use", "CPU、内存或磁盘已被占用")},
}
