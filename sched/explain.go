package sched

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched/pack"
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
	ReasonTopology     = "TopologyRule"
	ReasonSplit        = "SplitUnfit"
	ReasonRegion       = "SameRegion"
	ReasonSurvive      = "SurviveZoneLoss"
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
	{ReasonTopology, api.T("without its topology rule it would fit", "若无拓扑规则即可放下")},
	{ReasonSplit, api.T("without its split over zones it would fit, or the split makes no sense", "若不指定分区副本数即可放下，或该指定本身无法满足")},
	{ReasonRegion, api.T("no one region has room for it; several together do", "没有单个区域能放下，跨区域则可以")},
	{ReasonSurvive, api.T("it fits, but not so that the loss of a zone leaves enough of it", "可以放下，但无法保证失去一个可用区后仍有足够副本")},
	{ReasonLatency, api.T("the zones that have room together are too far apart", "合起来有空位的可用区之间延迟过高")},
	{ReasonNeverFits, api.T("not even the empty cluster has room for it", "即使集群空闲也放不下")},
	{ReasonClosed, api.T("it would fit if nodes were not cordoned or not ready", "若节点未被隔离或均已就绪即可放下")},
	{ReasonProcessLimit, api.T("the machine behind virtual nodes runs as many processes as it may", "虚拟节点背后的机器已达到进程数上限")},
	{ReasonFragmented, api.T("there are enough free devices in all, but not together", "空闲加速卡总数足够，但过于分散")},
	{ReasonDevicesBusy, api.T("its devices are in use", "所需加速卡正被占用")},
	{ReasonNodesFull, api.T("CPU, memory or disk are in use", "CPU、内存或磁盘已被占用")},
}

// Explain says why a workload waits, which may have at most the priority top: no more is advised. ok is false when it does not wait.
func Explain(now time.Time, c *Cluster, q *Queues, id string, top int) (Explanation, bool) {
	e, ok := q.waiting[id]
	if !ok {
		return Explanation{}, false
	}
	x := newExplainer(q.notBefore(now), c, q, e.w)
	x.top = top
	ex := x.explain(e)
	ex.Evidence = append(ex.Evidence, q.overdueEvidence(e)...)
	if e.class != nil {
		for _, other := range e.class.entries {
			if other.w.ID < id {
				ex.Ahead++
			}
		}
	}
	if r, ok := q.Predicted(id); ok && !ex.Impossible && r.Start.After(x.now) && !r.guess { // a time that has passed was wrong
		ex.Start, ex.Early, ex.Late = r.Start, r.Early, r.Late
	}
	return ex, true
}

// explainer looks for the reason of one workload.
type explainer struct {
	now   time.Time
	c     *Cluster
	q     *Queues
	w     *Workload
	zones []*zone
	top   int // the highest priority that may be advised
}

func newExplainer(now time.Time, c *Cluster, q *Queues, w *Workload) *explainer {
	return &explainer{now: now, c: c, q: q, w: w, zones: allowed(c, w), top: api.HighestPriority}
}

func (x *explainer) explain(e *entry) Explanation {
	if e.claim != nil {
		return x.victims(e)
	}
	if ex, ok := x.held(e); ok {
		return ex
	}
	if name, paused := x.q.tree.Paused(x.w.Queue); paused {
		return x.paused(name)
	}
	if len(x.c.nodes) > 0 && len(x.zones) == 0 {
		return x.noZone()
	}
	if !x.anyNode() {
		return x.noNodes()
	}
	if ex, ok := x.overLimit(); ok {
		return ex
	}
	if held, _, ok := x.w.within(x.c, x.q.tree.Room, false); ok {
		x.w = held
	}
	if x.fits(x.w) {
		if e.home != nil && x.now.Before(e.home.until) {
			return x.homing(e)
		}
		return x.soon(e)
	}
	if fitsOn(x.c, x.w) {
		return x.reserved(e)
	}
	return x.noRoom()
}

// entry is a workload as if it waited; its rank and expected time are its own.
func (x *explainer) entry(w *Workload) *entry {
	overdue := false
	if e, ok := x.q.waiting[w.ID]; ok && e.class != nil {
		overdue = e.class.overdue
	}
	key := classKey{queue: w.Queue, priority: w.Priority, shape: w.shape(), first: w.Displaced, overdue: overdue, level: x.q.level(w, x.q.ran(w.ID))}
	e := &entry{w: w, class: &class{classKey: key}, at: -1, age: -1}
	e.urgent = overdue && x.q.goesFirst(x.q.lane(w.Queue), e)
	return e
}

func (x *explainer) turn() *turn {
	return &turn{now: x.now, c: x.c, q: x.q, p: Policy{}.withDefaults(), noRoom: map[string]bool{}, kept: map[string]bool{}}
}

// fits asks the planner itself whether it has room for w now.
func (x *explainer) fits(w *Workload) bool {
	_, ok := x.turn().room(x.entry(w))
	return ok
}

// admits asks whether it would start w now: there is room, and nothing better beside its data. What
// the planner may still expect there depends on who else is looked at in that turn, so a gang that
// might wait for it is not promised a start.
func (x *explainer) admits(w *Workload) bool {
	t, e := x.turn(), x.entry(w)
	at, ok := t.room(e)
	return ok && t.staysAt(e, at)
}

// empty is the same cluster with nothing on it; open: and nothing cordoned; hosts: and the machines
// behind virtual nodes run no more processes than they may. One that is so already is not copied.
func (x *explainer) empty(open, hosts bool) *Cluster {
	if len(x.c.holds) == 0 && !(open && x.c.anyClosed()) && (hosts || !x.c.hosted()) {
		return x.c
	}
	out := NewCluster()
	for _, name := range sortedKeys(x.c.hosts) {
		if hosts {
			out.SetHost(x.c.hosts[name].Host)
		}
	}
	for _, z := range x.c.order {
		out.SetZone(z.Zone)
		for _, n := range z.nodes {
			fresh := n.Node
			if open {
				fresh.Closed, fresh.ClosedDevices = false, 0
			}
			_ = out.SetNode(fresh) // it was set once, so it can be
		}
	}
	return out
}

func (c *Cluster) anyClosed() bool {
	for _, n := range c.nodes {
		if n.Closed || n.ClosedDevices != 0 {
			return true
		}
	}
	return false
}

// hosted says that some node is virtual.
func (c *Cluster) hosted() bool {
	for _, h := range c.hosts {
		if h.nodes > 0 {
			return true
		}
	}
	return false
}

// fitsBare asks whether the gang would fit if nothing else stood anywhere; open: and nothing was
// cordoned. How many processes a machine behind virtual nodes runs is left out: that is no property
// of the cluster. One role in one zone is only counted; anything else is tried on an empty cluster.
func (x *explainer) fitsBare(open bool) bool {
	w := smallest(x.w)
	simple := len(w.Roles) == 1 && !w.Survive && len(w.Split)+len(w.Avoid) == 0 && w.Topology.MaxPerRack == 0
	for i := 0; simple && i < w.Roles[0].Need.choices(); i++ {
		key, ok := x.c.askKey(&w.Roles[0].Need, i)
		if !ok {
			continue
		}
		a := key.ask()
		for _, z := range x.zones {
			sum := 0
			for _, n := range z.nodes {
				if sum += n.bare(&a, key.disk, open); sum >= w.Roles[0].Replicas {
					return true
				}
			}
		}
	}
	return fitsOn(x.empty(open, false), x.w)
}

// bare counts the replicas an empty node takes.
func (n *node) bare(a *pack.Ask, disk api.Bytes, open bool) int {
	if n.Closed && !open {
		return 0
	}
	var free [64]uint16
	whole := pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types, Free: free[:len(n.Devices)], WholeOnly: n.WholeOnly}
	for i := range whole.Free {
		if open || n.ClosedDevices>>i&1 == 0 {
			whole.Free[i] = WholeDevice
		}
	}
	count := int(fitsIn(&whole, a))
	if n.Disk > 0 && disk > 0 {
		count = min(count, int(n.Disk/disk))
	}
	return count
}

// fitsOn asks whether w would fit, at its full size or its least, were there no others waiting.
func fitsOn(c *Cluster, w *Workload) bool {
	if _, ok := place(c, w); ok {
		return true
	}
	least := smallest(w)
	if least == w {
		return false
	}
	_, ok := place(c, least)
	return ok
}
