package sched

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/advice"
)

func (x *explainer) victims(e *entry) Explanation {
	return Explanation{
		Reason:   advice.ReasonVictims,
		Message:  api.T("%d [gang was|gangs were] asked to make room for it.", "已请 %d 个任务为其让出资源。", len(e.claim.pending)),
		Evidence: []Evidence{{Fact: "GangsToGo", Text: api.T("gangs still to go", "尚未退出的任务"), Count: len(e.claim.pending)}},
		Action:   Change{}.Text(),
	}
}

var waitText = api.T("workloads wait in this queue", "个任务在该队列中等待")

func (x *explainer) paused(name string) Explanation {
	ch := Change{Kind: advice.ChangeResume, Target: name}
	ex := Explanation{
		Reason:   advice.ReasonQueuePaused,
		Message:  api.T("Queue %s is paused; nothing in it starts.", "队列 %s 已暂停，其中的任务不会启动。", name),
		Evidence: []Evidence{{Fact: "Waiting", Text: waitText, Count: x.q.Waiting(x.w.Queue)}},
		Action:   ch.Text(),
	}
	x.q.tree.SetPaused(name, false)
	if _, still := x.q.tree.Paused(x.w.Queue); !still && x.admits(x.w) {
		ex.Change = ch
	}
	x.q.tree.SetPaused(name, true)
	return ex
}

func (x *explainer) noZone() Explanation {
	var names []string
	for _, z := range x.c.order {
		names = append(names, z.Name)
	}
	slices.Sort(names)
	ex := Explanation{
		Reason: advice.ReasonNoZone,
		Message: api.T("The task's zone rules leave no zone; there are: %s.", "任务的可用区规则排除了所有可用区；现有：%s。",
			strings.Join(names, ", ")),
		Action:     api.T("Change spec.zones.", "修改 spec.zones。"),
		Impossible: true,
	}
	if ch := (Change{Kind: advice.ChangeZones}); len(names) > 0 && x.admits(Apply(ch, x.w)) {
		ex.Change, ex.Action = ch, ch.Text()
	}
	return ex
}

func (x *explainer) anyNode() bool {
	return slices.ContainsFunc(x.zones, func(z *zone) bool { return len(z.nodes) > 0 })
}

// noNodes is for one whose zones are still empty: nodes may come at any time.
func (x *explainer) noNodes() Explanation {
	ex := Explanation{
		Reason:   advice.ReasonNoNodes,
		Message:  api.T("None of the %d [zone|zones] that it may use has a node yet.", "可使用的 %d 个可用区中还没有任何节点。", len(x.zones)),
		Evidence: []Evidence{{Fact: "Zones", Text: api.T("zones without nodes", "个没有节点的可用区"), Count: len(x.zones)}},
		Action:   api.T("Add nodes to them, or change spec.zones.", "请添加节点，或修改 spec.zones。"),
	}
	if ch := (Change{Kind: advice.ChangeZones}); len(x.w.Allow)+len(x.w.Deny) > 0 && x.admits(Apply(ch, x.w)) {
		ex.Change, ex.Action = ch, ch.Text()
	}
	return ex
}

// overLimit names the queue that has no room for the workload at its least size: first one whose
// limit it could never meet.
func (x *explainer) overLimit() (Explanation, bool) {
	_, why, ok := smallest(x.w).within(x.c, x.q.tree.RoomEver, true)
	if ok {
		_, why, ok = smallest(x.w).within(x.c, x.q.tree.Room, false)
	}
	if ok {
		return Explanation{}, false
	}
	queue, resource, need := why.queue, why.resource, why.need
	used, limit := x.q.tree.Limit(queue, resource)
	unit := advice.UnitOf(resource, x.c.TypeName)
	ex := Explanation{
		Reason: advice.ReasonQueueLimit,
		Message: api.T("Queue %[1]s may use at most %[2]s %[5]s and uses %[3]s; this needs %[4]s.", "队列 %[1]s 最多可用 %[2]s %[6]s，已用 %[3]s；该任务需要 %[4]s。",
			queue, advice.Plain(resource, limit), advice.Plain(resource, used), advice.Plain(resource, need), advice.Single(advice.Units(resource, limit), unit.EN), unit.ZH),
		Evidence: []Evidence{
			{Fact: "Used", Text: api.T("%[1]s used, and kept for those about to start", "%[2]s已用及为即将启动者保留", unit.EN, unit.ZH), Count: advice.Units(resource, used)},
			{Fact: "Limit", Text: api.T("%[1]s at most", "%[2]s上限", advice.Single(advice.Units(resource, limit), unit.EN), unit.ZH), Count: advice.Units(resource, limit)},
			{Fact: "Needed", Text: api.T("%[1]s needed", "%[2]s所需", advice.Single(advice.Units(resource, need), unit.EN), unit.ZH), Count: advice.Units(resource, need)},
		},
		Impossible: need > limit,
	}
	ex.Change = x.withinLimit(queue, resource, used+need)
	ex.Action = ex.Change.Text()
	return ex, true
}

// withinLimit raises the limit, if with that alone it starts, or asks for less.
func (x *explainer) withinLimit(queue string, resource int, to int64) Change {
	back := x.q.tree.TryLimit(queue, resource, to)
	ok := x.admits(smallest(x.w))
	back()
	if ok {
		return Change{Kind: advice.ChangeLimit, Target: queue, Resource: resource, Value: to, Key: advice.ShareKey(resource, x.c.TypeName)}
	}
	ch, _ := x.less()
	return ch
}

// soon is for one that fits.
func (x *explainer) soon(e *entry) Explanation {
	if x.q.swept != x.c.freed && x.now.Before(x.q.pausedTo) && !x.q.lane(x.w.Queue).shelf.IsReady(e.class) {
		return Explanation{
			Reason:  advice.ReasonDeferred,
			Message: api.T("It fits; refused work is looked at again at %s.", "资源充足，将于 %s 重新调度。", x.q.pausedTo.UTC().Format("15:04:05.0")),
			Action:  Change{}.Text(),
		}
	}
	if best, _, ok := x.q.lane(x.w.Queue).best(x.q); ok && best.entries.Top() != e {
		first := best.entries.Top().w
		ex := Explanation{
			Reason:   advice.ReasonBehind,
			Message:  api.T("It fits, and %s of the same queue goes first.", "资源充足，但同队列中的 %s 排在前面。", first.ID),
			Evidence: []Evidence{{Fact: "Waiting", Text: waitText, Count: x.q.Waiting(x.w.Queue)}},
			Action:   api.T("Wait until those that go first have started.", "等待排在前面的任务启动。"),
		}
		if ch := (Change{Kind: advice.ChangePriority, Value: int64(first.Priority) + 1}); first.Priority < x.top {
			ex.Change, ex.Action = ch, ch.Text()
		}
		return ex
	}
	return Explanation{Reason: advice.ReasonScheduling, Message: api.T("It fits; it is about to be placed.", "资源充足，即将调度。")}
}

// reserved is for one that fits only where others are expected.
func (x *explainer) reserved(e *entry) Explanation {
	blockers := x.turn().blockers(e)
	ex := Explanation{
		Reason:   advice.ReasonReserved,
		Message:  api.T("The room is kept for gangs that go first.", "空位已为排在前面的任务预留。"),
		Evidence: []Evidence{{Fact: "Reservations", Text: api.T("reservations in the way", "个预留占用空位"), Count: len(blockers)}},
	}
	top := x.w.Priority
	for _, r := range blockers {
		top = max(top, r.rank.Priority+1)
	}
	if len(blockers) > 0 {
		r := blockers[0]
		ex.Message = api.T("The room is kept for %s until %s.", "空位已为 %s 预留至 %s。", r.ID, r.Start.UTC().Format("2006-01-02 15:04:05"))
	}
	if ex.Change = (Change{Kind: advice.ChangePriority, Value: int64(top)}); top > x.top || !x.admits(Apply(ex.Change, x.w)) {
		ex.Change = x.smallestChange()
	}
	ex.Action = ex.Change.Text()
	return ex
}

// noRoom is for one that fits nowhere now.
func (x *explainer) noRoom() Explanation {
	ch := x.smallestChange()
	ex, never := Explanation{}, false
	if x.w.Only == "" {
		ex, never = x.never()
	}
	switch {
	case never:
	case x.w.Only != "":
		message, action := onOneNode(x.w, x.c)
		ex = x.rule(advice.ReasonOnly, message)
		ex.Action = action
	case ch.Kind == advice.ChangeTopology:
		ex = x.rule(advice.ReasonTopology, api.T("Its topology rule leaves no room for %s; without it there is.", "拓扑规则使 %s 无处可放；去掉该规则即有空位。", describe(x.w)))
	case ch.Kind == advice.ChangeSplit:
		ex = x.rule(advice.ReasonSplit, lacking(api.T("Its split over zones leaves no room for %s; without it there is.", "按可用区指定的副本数使 %s 无处可放；去掉即有空位。", describe(x.w)), x.c, x.w))
	case ch.Kind == advice.ChangeRegion:
		ex = x.rule(advice.ReasonRegion, api.T("No one region has room for %s; several together do.", "没有单个区域能放下 %s，跨区域则可以。", describe(x.w)))
	case ch.Kind == advice.ChangeSpot:
		ex = x.rule(advice.ReasonSpot, api.T("With spot: %[2]s there is no room for %[1]s; without it there is.", "spot: %[2]s 使 %[1]s 无处可放；去掉即有空位。", describe(x.w), x.w.spot()))
	case ch.Kind == advice.ChangeSurvive:
		ex = x.rule(advice.ReasonSurvive, api.T("%s fits, but not so that the loss of any one zone leaves %s.", "%s 可以放下，但无法保证失去任一可用区后仍有 %s。", describe(x.w), survivors(x.w)))
	case ch.Kind == advice.ChangeMaxLatency:
		ex = x.rule(advice.ReasonLatency, api.T("The zones that have room for %s together are too far apart.", "合起来能放下 %s 的可用区之间延迟过高。", describe(x.w)))
	case !x.fitsBare(false):
		ex = x.rule(advice.ReasonClosed, api.T("%s would fit if nodes were not cordoned or not ready.", "若节点未被隔离或均已就绪，%s 即可放下。", describe(x.w)))
	default:
		ex = x.busy()
	}
	if ch.Kind != "" || ex.Action == (api.Text{}) {
		ex.Change, ex.Action = ch, ch.Text()
	}
	return ex
}

// onOneNode is why one that may stand on a single node is not there, and what to do.
func onOneNode(w *Workload, c *Cluster) (message, action api.Text) {
	for _, n := range c.topology().nodes {
		switch {
		case n.Name != w.Only:
		case n.Closed:
			return api.T("Its home is on node %s, which takes no new work now.", "其主目录在节点 %s 上，该节点目前不接收新任务。", w.Only),
				api.T("Wait until the machine is back, or uncordon it.", "请等待该机器恢复，或解除其隔离。")
		default:
			return api.T("Its home is on node %s, which has no room for %s now.", "其主目录在节点 %s 上，该节点目前放不下 %s。", w.Only, describe(w)),
				api.T("Ask for less, or wait until something there ends.", "请减少用量，或等待该节点上的任务结束。")
		}
	}
	return api.T("Its home is on node %s, which is not in the cluster any more.", "其主目录在节点 %s 上，该节点已不在集群中。", w.Only),
		api.T("Have the machine join again under its name, or make another environment.", "请让该机器以原名称重新加入，或新建环境。")
}

func (x *explainer) rule(reason string, message api.Text) Explanation {
	return Explanation{Reason: reason, Message: message, Evidence: x.evidence()}
}

// never asks whether the gang would fit if nothing else stood anywhere and nothing was cordoned.
func (x *explainer) never() (Explanation, bool) {
	if x.fitsBare(true) {
		return Explanation{}, false
	}
	ex := x.rule(advice.ReasonNeverFits, api.T("Even the empty cluster has no room for %s. The largest nodes have: %s.",
		"即使集群空闲也放不下 %s。单节点最多：%s。", describe(x.w), x.kinds()))
	ex.Impossible = true
	ex.Action = api.T("Ask for fewer replicas, fewer devices a replica, another type, or more zones.",
		"请减少副本数或每副本的加速卡数，换用其他类型，或放宽可用区。")
	if reason, ok := x.ruledOut(); ok {
		r := x.against(reason)
		ex.Reason, ex.Message, ex.Action = reason, r.Message, r.Hint
	}
	return ex, true
}

// ruledOut names the one rule without which the empty cluster has room.
func (x *explainer) ruledOut() (reason string, ok bool) {
	empty := x.empty(true, false)
	for _, r := range []struct {
		kind   advice.ChangeKind
		value  int64
		has    bool
		reason string
	}{
		{advice.ChangeTopology, 0, x.w.Topology != (Topology{}), advice.ReasonTopology},
		{advice.ChangeSplit, 0, len(x.w.Split) > 0, advice.ReasonSplit},
		{advice.ChangeRegion, 0, x.w.OneRegion, advice.ReasonRegion},
		{advice.ChangeMaxLatency, int64(farAway), x.w.Replicas() > 1, advice.ReasonLatency},
		{advice.ChangeSurvive, 0, x.w.Survive, advice.ReasonSurvive},
		{advice.ChangeSpot, 0, x.w.spot() != "", advice.ReasonSpot},
	} {
		if r.has && fitsOn(empty, Apply(Change{Kind: r.kind, Value: r.value}, x.w)) {
			return r.reason, true
		}
	}
	return "", false
}

// kinds is the most devices of each type on one node.
func (x *explainer) kinds() string {
	best := map[string]int{}
	for _, z := range x.zones {
		for _, n := range z.nodes {
			count := map[string]int{}
			for _, t := range n.Devices {
				count[t]++
				best[t] = max(best[t], count[t])
			}
		}
	}
	var out []string
	for _, t := range sortedKeys(best) {
		out = append(out, fmt.Sprintf("%d × %s", best[t], t))
	}
	if len(out) == 0 {
		return "no accelerators / 无加速卡"
	}
	return strings.Join(out, ", ")
}

// busy names the dominant obstacle on nodes that could take a replica when empty.
func (x *explainer) busy() Explanation {
	counts := x.tally()
	need := x.largest().Need
	free, want := x.freeDevices(need), int64(smallest(x.w).Replicas())*int64(need.Devices)*int64(need.Part())
	switch {
	case counts[misfitHost] > 0:
		return x.rule(advice.ReasonProcessLimit, api.T("The machine behind the virtual nodes already runs as many processes as it may; %s waits.",
			"虚拟节点背后的机器已达到进程数上限；%s 需等待。", describe(x.w)))
	case x.c.hosted() && !fitsOn(x.empty(false, true), x.w):
		return x.rule(advice.ReasonProcessLimit, api.T("%s are more processes than the machine behind the virtual nodes may run, even with nothing else on it.",
			"%s 的进程数超过虚拟节点背后机器的上限，即使其空闲也无法启动。", describe(x.w)))
	case need.Devices > 0 && counts[misfitFull] == 0 && free >= want:
		return x.rule(advice.ReasonFragmented, api.T("%s needs %s devices, %s are free, but not together.",
			"%s 共需 %s 张加速卡，空闲 %s 张，但过于分散。", describe(x.w), advice.Plain(VectorDevices, want), advice.Plain(VectorDevices, free)))
	case counts[misfitDevices] >= counts[misfitFull] && counts[misfitDevices] > 0:
		return x.rule(advice.ReasonDevicesBusy, api.T("%s does not fit now: %d [node has|nodes have] its devices in use, %d could take a replica.",
			"%s 暂无空位：%d 个节点的加速卡被占用，%d 个节点可容纳副本。", describe(x.w), counts[misfitDevices], counts[fits]))
	}
	return x.rule(advice.ReasonNodesFull, api.T("%s does not fit now: CPU, memory or disk are in use on %d [node|nodes], %d could take a replica.",
		"%s 暂无空位：%d 个节点的 CPU、内存或磁盘已被占用，%d 个节点可容纳副本。", describe(x.w), counts[misfitFull], counts[fits]))
}

// freeDevices is the thousandths left of devices a need allows, on open nodes.
func (x *explainer) freeDevices(need Need) (sum int64) {
	allow := x.c.kinds(&need)
	for _, z := range x.zones {
		for _, n := range z.nodes {
			for i, free := range n.room.Free {
				if !n.Closed && (allow == nil || slices.Contains(allow, n.room.Types[i])) {
					sum += int64(free)
				}
			}
		}
	}
	return sum
}

// tally counts nodes by how the most demanding role meets them.
func (x *explainer) tally() map[misfit]int {
	need := x.largest().Need
	counts := map[misfit]int{}
	for _, z := range x.zones {
		for _, n := range z.nodes {
			_, why := x.c.fit(n, need)
			counts[why]++
		}
	}
	return counts
}

func (x *explainer) evidence() []Evidence {
	counts := x.tally()
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
		{misfitSpot, "NodesBarredBySpot", api.T("nodes that its rule on spot nodes rules out", "被竞价节点规则（spot）排除的节点")},
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
	for i := range w.Roles {
		r := &w.Roles[i]
		s := fmt.Sprintf("%d × (%s CPU, %s", r.Replicas, r.Need.CPU, r.Need.Memory)
		if r.Need.Devices > 0 {
			t := strings.Join(r.Need.DeviceTypes, "|")
			if t == "" {
				t = r.Need.DeviceType
			}
			if t == "" {
				t = "GPU"
			}
			s += fmt.Sprintf(", %s × %s", advice.Plain(VectorDevices, int64(r.Need.Devices)*int64(r.Need.Part())), t)
		}
		parts = append(parts, s+")")
	}
	return strings.Join(parts, " + ")
}
