package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Explanation is why a workload waits: one dominant reason with evidence in numbers and the
// change that would help.
type Explanation struct {
	Reason   string     `json:"reason"`
	Message  api.Text   `json:"message"`
	Evidence []Evidence `json:"evidence,omitempty"`
	Action   api.Text   `json:"action,omitzero"`
	// Ahead counts workloads of the same class that were there first.
	Ahead int `json:"ahead"`
}

// Evidence is one counted fact.
type Evidence struct {
	Fact  string   `json:"fact"`
	Text  api.Text `json:"text"`
	Count int      `json:"count"`
}

// The reasons a workload waits.
const (
	ReasonScheduling   = "Scheduling"   // it fits; the next turn places it
	ReasonQueuePaused  = "QueuePaused"  //
	ReasonQueueLimit   = "QueueLimit"   // its queue, or one above, may not use more
	ReasonReserved     = "Reserved"     // there is room, and it is kept for one before it
	ReasonNoZone       = "NoZone"       // its rules leave no zone
	ReasonNeverFits    = "NeverFits"    // not even on the empty cluster
	ReasonClosed       = "NodesClosed"  // only cordoned or unready nodes could take it
	ReasonProcessLimit = "ProcessLimit" // the machine behind virtual nodes runs enough processes
	ReasonDevicesBusy  = "DevicesBusy"
	ReasonNodesFull    = "NodesFull" // CPU, memory or disk
)

// Explain says why a workload waits; ok is false when it does not.
func Explain(_ time.Time, c *Cluster, q *Queues, id string) (Explanation, bool) {
	e, ok := q.waiting[id]
	if !ok {
		return Explanation{}, false
	}
	w := e.w
	ex := explain(c, q, w)
	for _, other := range e.class.entries {
		if other.w.ID < id {
			ex.Ahead++
		}
	}
	return ex, true
}

func explain(c *Cluster, q *Queues, w *Workload) Explanation {
	if name, paused := q.tree.Paused(w.Queue); paused {
		return Explanation{
			Reason:  ReasonQueuePaused,
			Message: api.T("Queue %s is paused; nothing in it starts.", "队列 %s 已暂停，其中的任务不会启动。", name),
			Action:  api.T("Resume the queue: fermi queue resume %s", "恢复队列：fermi queue resume %s", name),
		}
	}
	zones := allowed(c, w)
	if len(zones) == 0 {
		return Explanation{
			Reason:  ReasonNoZone,
			Message: api.T("The task's zone rules leave no zone; there are: %s.", "任务的可用区规则排除了所有可用区；现有：%s。", zoneNames(c)),
			Action:  api.T("Change spec.zones.", "修改 spec.zones。"),
		}
	}
	if name, resource, ok := q.tree.Room(w.Queue, c.Need(smallest(w))); !ok {
		return queueLimit(c, name, resource)
	}
	if at, ok := place(c, w); ok {
		if r, kept := keptFor(q, w, at); kept {
			return Explanation{
				Reason: ReasonReserved,
				Message: api.T("There is room, but it is kept for %s, which is before it and is expected to start at %s.",
					"有空闲资源，但已为排在前面、预计于 %[2]s 启动的 %[1]s 预留。", r.ID, r.Start.UTC().Format(time.RFC3339)),
				Action: api.T("Say how long the task takes (a short one may go first), or raise its priority.", "填写任务的预计时长（短任务可先行），或提高优先级。"),
			}
		}
		return Explanation{Reason: ReasonScheduling, Message: api.T("It fits; it is about to be placed.", "资源充足，即将调度。")}
	}
	if ex, never := neverFits(c, w, zones); never {
		return ex
	}
	return busy(c, w, zones)
}

func queueLimit(c *Cluster, queue string, resource int) Explanation {
	what := api.T("devices", "加速卡")
	switch {
	case resource == VectorCPU:
		what = api.T("CPU", "CPU")
	case resource == VectorMemory:
		what = api.T("memory", "内存")
	case resource >= VectorTypes:
		name := c.TypeName(uint16(resource - VectorTypes))
		what = api.Text{EN: name, ZH: name}
	}
	return Explanation{
		Reason: ReasonQueueLimit,
		Message: api.Text{
			EN: fmt.Sprintf("Queue %s has reached its limit of %s.", queue, what.EN),
			ZH: fmt.Sprintf("队列 %s 已达到其%s上限。", queue, what.ZH),
		},
		Action: api.T("Wait for work of the queue to end, or have its limit raised.", "等待该队列的任务结束，或提高其上限。"),
	}
}

// keptFor is another's reservation where w would stand.
func keptFor(q *Queues, w *Workload, at Assignment) (*Reservation, bool) {
	for _, r := range q.reservations() {
		if r.ID != w.ID && overlap([]*Reservation{r}, at) {
			return r, true
		}
	}
	return nil, false
}

func zoneNames(c *Cluster) string {
	var names []string
	for _, z := range c.order {
		names = append(names, z.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// neverFits asks whether the gang would fit if nothing else stood anywhere.
func neverFits(c *Cluster, w *Workload, zones []*zone) (Explanation, bool) {
	empty := NewCluster()
	best := map[string]int{} // most devices of a type on one node
	for _, h := range c.hosts {
		empty.SetHost(h.Host)
	}
	for _, z := range zones {
		empty.SetZone(z.Zone)
		for _, n := range z.nodes {
			open := n.Node
			open.Closed = false
			if err := empty.SetNode(open); err != nil {
				continue
			}
			for _, t := range n.Devices {
				best[t] = max(best[t], len(slices.DeleteFunc(slices.Clone(n.Devices), func(o string) bool { return o != t })))
			}
		}
	}
	if _, ok := place(empty, w); ok {
		return Explanation{}, false
	}
	var kinds []string
	for t, n := range best {
		kinds = append(kinds, fmt.Sprintf("%d × %s", n, t))
	}
	slices.Sort(kinds)
	if len(kinds) == 0 {
		kinds = []string{"no accelerators / 无加速卡"}
	}
	return Explanation{
		Reason: ReasonNeverFits,
		Message: api.T("Even the empty cluster has no room for %s. The largest nodes have: %s.",
			"即使集群空闲也放不下 %s。单节点最多：%s。", describe(w), strings.Join(kinds, ", ")),
		Evidence: evidence(c, w, zones),
		Action: api.T("Ask for fewer replicas, fewer devices a replica, another type, or more zones.",
			"请减少副本数或每副本的加速卡数，换用其他类型，或放宽可用区。"),
	}, true
}

// busy names the dominant obstacle on nodes that could take a replica when empty.
func busy(c *Cluster, w *Workload, zones []*zone) Explanation {
	counts := tally(c, w, zones)
	ex := Explanation{Evidence: evidence(c, w, zones)}
	switch {
	case counts[misfitHost] > 0:
		ex.Reason = ReasonProcessLimit
		ex.Message = api.T("The machine behind the virtual nodes already runs as many processes as it may; %s waits.",
			"虚拟节点背后的机器已达到进程数上限；%s 需等待。", describe(w))
		ex.Action = api.T("Wait for a running task to end, or stop one.", "等待运行中的任务结束，或停止其中之一。")
	case counts[misfitClosed] > 0 && counts[misfitDevices]+counts[misfitFull]+counts[fits] == 0:
		ex.Reason = ReasonClosed
		ex.Message = api.T("All %d nodes that could take it are cordoned or not ready.", "可容纳该任务的 %d 个节点均被隔离或未就绪。", counts[misfitClosed])
		ex.Action = api.T("Uncordon a node: fermi node uncordon NAME", "解除节点隔离：fermi node uncordon NAME")
	case counts[misfitDevices] >= counts[misfitFull]:
		ex.Reason = ReasonDevicesBusy
		ex.Message = api.T("%s does not fit now: %d nodes have its devices in use, %d could take a replica.",
			"%s 暂无空位：%d 个节点的加速卡被占用，%d 个节点可容纳副本。", describe(w), counts[misfitDevices], counts[fits])
		ex.Action = api.T("Wait for running work to end, raise the priority, or ask for another type or fewer devices.",
			"等待运行中的任务结束，提高优先级，或换用其他类型、减少卡数。")
	default:
		ex.Reason = ReasonNodesFull
		ex.Message = api.T("%s does not fit now: CPU, memory or disk are in use on %d nodes, %d could take a replica.",
			"%s 暂无空位：%d 个节点的 CPU、内存或磁盘已被占用，%d 个节点可容纳副本。", describe(w), counts[misfitFull], counts[fits])
		ex.Action = api.T("Wait for running work to end, or ask for less CPU, memory or disk.", "等待运行中的任务结束，或减少 CPU、内存、磁盘的申请。")
	}
	return ex
}

// tally counts nodes by how the most demanding role meets them.
func tally(c *Cluster, w *Workload, zones []*zone) map[misfit]int {
	role := w.Roles[0]
	for _, r := range w.Roles {
		if r.Need.Devices > role.Need.Devices {
			role = r
		}
	}
	counts := map[misfit]int{}
	for _, z := range zones {
		for _, n := range z.nodes {
			_, why := c.fit(n, role.Need)
			counts[why]++
		}
	}
	return counts
}

func evidence(c *Cluster, w *Workload, zones []*zone) []Evidence {
	counts := tally(c, w, zones)
	rows := []struct {
		why  misfit
		fact string
		text api.Text
	}{
		{fits, "NodesThatFit", api.T("nodes that could take one more replica", "可再容纳一个副本的节点")},
		{misfitDevices, "NodesDevicesBusy", api.T("nodes whose matching devices are in use", "匹配的加速卡已被占用的节点")},
		{misfitFull, "NodesFull", api.T("nodes whose CPU, memory or disk are in use", "CPU、内存或磁盘已被占用的节点")},
		{misfitType, "NodesWithoutDevices", api.T("nodes without enough devices of this type", "没有足够该类型加速卡的节点")},
		{misfitSize, "NodesTooSmall", api.T("nodes too small even when empty", "即使空闲也过小的节点")},
		{misfitClosed, "NodesClosed", api.T("nodes cordoned or not ready", "被隔离或未就绪的节点")},
		{misfitHost, "NodesProcessLimit", api.T("nodes whose machine runs enough processes", "所在机器进程数已满的节点")},
	}
	var out []Evidence
	for _, r := range rows {
		if counts[r.why] > 0 {
			out = append(out, Evidence{Fact: r.fact, Text: r.text, Count: counts[r.why]})
		}
	}
	return out
}

func describe(w *Workload) string {
	var parts []string
	for _, r := range w.Roles {
		s := fmt.Sprintf("%d × (%s CPU, %s", r.Replicas, r.Need.CPU, r.Need.Memory)
		if r.Need.Devices > 0 {
			t := r.Need.DeviceType
			if t == "" {
				t = "GPU"
			}
			s += fmt.Sprintf(", %d × %s", r.Need.Devices, t)
		}
		parts = append(parts, s+")")
	}
	return strings.Join(parts, " + ")
}
