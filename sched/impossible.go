package sched

import (
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// Impossible says that a workload can never start on this cluster with these queues, and why: it
// is to be refused when it is submitted. What is cordoned, not ready, paused or in use counts as if
// it were not, and as long as no node is known nothing is impossible.
func Impossible(c *Cluster, q *Queues, w *Workload) (Refusal, bool) {
	defer c.known.keepFew()
	x := newExplainer(q.now, c, q, w)
	switch {
	case len(c.nodes) == 0:
		return Refusal{}, false
	case len(x.zones) == 0:
		ex := x.noZone()
		return Refusal{Reason: ex.Reason, Wrong: advice.WrongZones, Message: ex.Message, Hint: ex.Action}, true
	}
	if r, over := x.beyondLimit(); over {
		return r, true
	}
	if !x.anyNode() || x.fitsBare(true) {
		return Refusal{}, false
	}
	return x.refusal(), true
}

// fewIndexes is how many indexes a question about a bare cluster may leave behind.
const fewIndexes = 16

// keepFew bounds the memory of a cluster that is only asked such questions.
func (k *known) keepFew() {
	if len(k.Indexes) > fewIndexes {
		k.Forget()
	}
}

// beyondLimit is for one that is larger than a queue's whole limit.
func (x *explainer) beyondLimit() (Refusal, bool) {
	_, why, ok := smallest(x.w).within(x.c, x.q.tree.RoomEver, true)
	if ok {
		if held, _, all := x.w.within(x.c, x.q.tree.RoomEver, true); all {
			x.w = held
		}
		return Refusal{}, false
	}
	_, limit := x.q.tree.Limit(why.queue, why.resource)
	unit := advice.UnitOf(why.resource, x.c.TypeName)
	return Refusal{
		Reason: advice.ReasonQueueLimit, Wrong: advice.WrongQueue,
		Message: api.T("Queue %[1]s may use at most %[2]s %[4]s; this needs %[3]s.", "队列 %[1]s 最多可用 %[2]s %[5]s；该任务需要 %[3]s。",
			why.queue, advice.Plain(why.resource, limit), advice.Plain(why.resource, why.need), unit.EN, unit.ZH),
		Hint: api.T("Ask for less, use another queue, or have its limit raised.", "请减少用量，换用其他队列，或请管理员提高上限。"),
	}, true
}

// refusal finds what keeps a wish off the empty cluster: a rule without which there is room, a role of which no node
// takes even one replica, or else the number of replicas.
func (x *explainer) refusal() Refusal {
	if reason, ok := x.ruledOut(); ok {
		return x.against(reason)
	}
	for i := range x.w.Roles {
		if r, wrong := x.tooLarge(i); wrong {
			return r
		}
	}
	return x.tooMany()
}

// against is for a rule without which there is room.
func (x *explainer) against(reason string) Refusal {
	switch reason {
	case advice.ReasonTopology:
		return Refusal{
			Reason: reason, Wrong: advice.WrongTopology,
			Message: api.T("No cluster state lets %s keep its topology rule; without it there is room.", "集群的任何状态都无法让 %s 满足拓扑规则；去掉即可放下。", describe(x.w)),
			Hint:    api.T("Lift the rule, or allow more replicas a rack.", "请去掉该规则，或允许每机架更多副本。"),
		}
	case advice.ReasonSplit:
		return Refusal{
			Reason: reason, Wrong: advice.WrongSplit,
			Message: lacking(api.T("The zones of the split can't take %s so divided; without it there is room.", "按指定的分区副本数无法放下 %s；去掉即可放下。", describe(x.w)), x.empty(true, false), x.w),
			Hint:    api.T("Divide it otherwise, or leave the split out.", "请调整或去掉分区副本数。"),
		}
	case advice.ReasonRegion:
		return Refusal{
			Reason: reason, Wrong: advice.WrongRegion,
			Message: api.T("No one region has room for %s, even when empty; several together have.", "即使空闲，也没有单个区域能放下 %s；跨区域则可以。", describe(x.w)),
			Hint:    api.T("Use sameRegion: prefer, or ask for fewer replicas.", "请使用 sameRegion: prefer，或减少副本数。"),
		}
	case advice.ReasonSpot:
		return advice.NoSpot(x.w.spot(), describe(x.w))
	case advice.ReasonSurvive:
		return Refusal{
			Reason: reason, Wrong: advice.WrongSurvive,
			Message: api.T("No zones near enough to each other take %s so that the loss of any one leaves %s, even when empty.", "即使空闲，也没有距离足够近的可用区能放下 %s 并在失去其一后保留 %s。", describe(x.w), survivors(x.w)),
			Hint:    api.T("Leave surviveZoneLoss out, allow a higher latency, or ask for fewer replicas.", "请去掉 surviveZoneLoss，放宽延迟，或减少副本数。"),
		}
	}
	return Refusal{
		Reason: reason, Wrong: advice.WrongLatency,
		Message: api.T("No zones near enough to each other have room for %s together, even when empty.", "即使空闲，也没有距离足够近的可用区能合起来放下 %s。", describe(x.w)),
		Hint:    api.T("Allow a higher latency, or ask for fewer replicas.", "请放宽延迟，或减少副本数。"),
	}
}

// most is the largest of each thing that a single node has.
type most struct {
	devices int
	cpu     api.MilliCPU
	memory  api.Bytes
	disk    api.Bytes // 0: some node does not count it
	fits    bool      // some node takes a replica
}

// survey looks at every node that a role may use, as if it were empty. CPU, memory and disk are
// those of nodes with enough devices, or of all where none has.
func (x *explainer) survey(need *Need) most {
	var all, apt most
	note := func(m *most, n *node, devices int) {
		m.devices = max(m.devices, devices)
		m.cpu, m.memory = max(m.cpu, n.CPU), max(m.memory, n.Memory)
		if m.disk = max(m.disk, n.Disk); n.Disk == 0 {
			m.disk = maxDisk
		}
	}
	for _, z := range x.zones {
		for _, n := range z.nodes {
			if x.w.shuns(n) {
				continue
			}
			devices := x.devicesOn(n, need)
			note(&all, n, devices)
			if devices >= need.Devices {
				note(&apt, n, devices)
			}
			all.fits = all.fits || x.takesOne(n, need)
		}
	}
	if apt.cpu == 0 {
		return all
	}
	apt.fits = all.fits
	return apt
}

const maxDisk = api.Bytes(1) << 62

// devicesOn is how many devices of one type that a need allows a node has.
func (x *explainer) devicesOn(n *node, need *Need) (best int) {
	for i := range need.Choices() {
		id, known := x.c.TypeID(need.Choice(i))
		if need.Choice(i) != "" && !known {
			continue
		}
		count := map[uint16]int{}
		for _, t := range n.room.Types {
			if need.Choice(i) == "" || t == id {
				count[t]++
				best = max(best, count[t])
			}
		}
	}
	return best
}

func (x *explainer) takesOne(n *node, need *Need) bool {
	for i := range need.Choices() {
		if key, ok := x.c.askKey(need, i); ok {
			if n.bare(&key, true) > 0 {
				return true
			}
		}
	}
	return false
}

// tooLarge is for a role of which no node takes even one replica.
func (x *explainer) tooLarge(role int) (Refusal, bool) {
	need := &x.w.Roles[role].Need
	m := x.survey(need)
	if m.fits {
		return Refusal{}, false
	}
	say := func(w advice.Wrong, message, hint api.Text) (Refusal, bool) {
		return Refusal{Reason: advice.ReasonNeverFits, Role: role, Wrong: w, Message: message, Hint: hint}, true
	}
	atMost := func(what any) api.Text { return api.T("Ask for at most %v.", "请不要超过 %v。", what) }
	kind := typeText(need)
	switch {
	case need.Devices > 0 && m.devices == 0:
		return say(advice.WrongType, api.T("No node that it may use has %s; there are: %s.", "可用的节点都不带 %s；现有：%s。", kind, x.kinds()),
			api.T("Ask for a type that is there.", "请选择现有的类型。"))
	case m.devices < need.Devices:
		return say(advice.WrongDevices, api.T("No node that it may use has %d × %s; the largest has %d.", "可用的节点中没有一个有 %d × %s；最多的有 %d。", need.Devices, kind, m.devices),
			api.T("Ask for at most %d [device|devices] a replica, and for more replicas if need be.", "每副本请不要超过 %d 卡；如有需要可增加副本数。", m.devices))
	case need.Devices > 0 && need.Part() < WholeDevice && x.fitsWhole(need):
		return say(advice.WrongShare, api.T("Parts of real cards are not given out: nothing would hold a process to its part. No virtual %s is there.", "真实加速卡不按份额分配：目前无法把进程限制在其份额内；且没有虚拟的 %s。", kind),
			api.T("Ask for a whole card: leave share out.", "请申请整卡：去掉 share。"))
	case m.cpu < need.CPU:
		return say(advice.WrongCPU, api.T("No node with its devices has %s CPU; the largest has %s.", "带有所需加速卡的节点都没有 %s CPU；最多的有 %s。", need.CPU, m.cpu), atMost(m.cpu))
	case m.memory < need.Memory:
		return say(advice.WrongMemory, api.T("No node with its devices has %s of memory; the largest has %s.", "带有所需加速卡的节点都没有 %s 内存；最多的有 %s。", need.Memory, m.memory), atMost(m.memory))
	case m.disk < need.Disk:
		return say(advice.WrongDisk, api.T("No node with its devices has %s of disk; the largest has %s.", "带有所需加速卡的节点都没有 %s 磁盘；最多的有 %s。", need.Disk, m.disk), atMost(m.disk))
	}
	return say(advice.WrongTogether, api.T("No single node has all that a replica of %s asks for, though each is there on some.", "没有一个节点同时满足角色 %s 每副本的全部需求，虽然各项分别有节点满足。", x.w.Roles[role].Name),
		api.T("Ask for less of one of them.", "请减少其中一项。"))
}

// fitsWhole says that a node would take a replica that asks for the whole device.
func (x *explainer) fitsWhole(need *Need) bool {
	whole := *need
	whole.Share = 0
	return x.survey(&whole).fits
}

// typeText is how a need names its devices.
func typeText(need *Need) string {
	var names []string
	for i := range need.Choices() {
		if t := need.Choice(i); t != "" {
			names = append(names, t)
		}
	}
	if len(names) == 0 {
		return "GPU"
	}
	return strings.Join(names, "|")
}

// tooMany is for one of which there is only room for fewer.
func (x *explainer) tooMany() Refusal {
	r := Refusal{Reason: advice.ReasonNeverFits, Wrong: advice.WrongReplicas}
	empty, large := x.empty(true, false), x.largest()
	for i := range x.w.Roles {
		if &x.w.Roles[i] == large {
			r.Role = i
		}
	}
	lo, hi := 0, atLeast(large)
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if fitsOn(empty, Apply(Change{Kind: advice.ChangeReplicas, Target: large.Name, Value: int64(mid)}, x.w)) {
			lo = mid
		} else {
			hi = mid
		}
	}
	r.Message = api.T("Even the empty cluster has no room for %s; of %s it takes at most %d [replica|replicas].", "即使集群空闲也放不下 %s；角色 %s 最多可放 %d 个副本。", describe(x.w), large.Name, lo)
	r.Hint = api.T("Ask for at most %d [replica|replicas], or for less a replica.", "副本数请不要超过 %d，或减少每副本的用量。", lo)
	if lo == 0 {
		r.Message = api.T("Even the empty cluster has no room for all roles of %s together.", "即使集群空闲也无法同时放下 %s 的所有角色。", describe(x.w))
		r.Hint = api.T("Ask for fewer replicas, or for less a replica.", "请减少副本数或每副本的用量。")
	}
	return r
}
