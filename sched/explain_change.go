package sched

import (
	"slices"
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

// Apply is a workload after a change of it; a change of something else leaves it as it is.
func (ch Change) Apply(w *Workload) *Workload {
	out := *w
	out.Roles = slices.Clone(w.Roles)
	switch ch.Kind {
	case ChangeZones:
		out.Allow, out.Deny = nil, nil
	case ChangeTopology:
		out.Topology = Topology{}
	case ChangeSplit:
		out.Split = nil
	case ChangeDefer:
		out.Defer = ""
	case ChangeData:
		out.Data = nil
	case ChangeRegion:
		out.OneRegion = false
	case ChangeSurvive:
		out.Survive = false
	case ChangeMaxLatency:
		out.MaxLatency = time.Duration(ch.Value)
	case ChangePriority:
		out.Priority = int(ch.Value)
	}
	for i := range out.Roles {
		r := &out.Roles[i]
		switch {
		case ch.Kind == ChangeReplicas && r.Name == ch.Target:
			r.Replicas, r.Min, r.Max = int(ch.Value), 0, 0
		case ch.Kind == ChangeDevices && r.Name == ch.Target:
			r.Need.Devices = int(ch.Value)
		case ch.Kind == ChangeType:
			r.Need.DeviceType, r.Need.DeviceTypes = ch.Target, nil
		}
	}
	return &out
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
	case ChangeMaxLatency:
		return api.T("Allow a latency of %s between zones: then it starts.", "将可用区之间允许的延迟放宽到 %s 即可启动。", time.Duration(ch.Value))
	case ChangePriority:
		return api.T("Raise the priority to %d: then it goes first.", "将优先级提高到 %d 即可优先启动。", ch.Value)
	case ChangeLimit:
		return api.T("Have the limit of queue %[1]s raised: fermi queue set %[1]s --limit %[2]s=%[3]d", "请提高队列 %[1]s 的上限：fermi queue set %[1]s --limit %[2]s=%[3]d", ch.Target, ch.Key, units(ch.Resource, ch.Value))
	case ChangeResume:
		return api.T("Resume the queue: fermi queue resume %s", "恢复队列：fermi queue resume %s", ch.Target)
	case ChangeUncordon:
		return api.T("Uncordon a node: fermi node uncordon %s", "解除节点隔离：fermi node uncordon %s", ch.Target)
	}
	return api.T("Wait for running work to end.", "等待运行中的任务结束。")
}

// farAway is a latency beyond any.
const farAway = time.Hour

// smallestChange is the first of the changes that admits the workload now, by the planner's own
// judgement: first those that ask for the same in another way, then those that ask for less.
func (x *explainer) smallestChange() Change {
	for _, ch := range x.sameWork() {
		if x.admits(ch.Apply(x.w)) {
			return ch
		}
	}
	if ch, ok := x.uncordon(); ok {
		return ch
	}
	if ch, ok := x.less(); ok {
		return ch
	}
	return Change{}
}

// sameWork are changes after which the workload does the same, elsewhere or otherwise arranged.
func (x *explainer) sameWork() []Change {
	var out []Change
	w := x.w
	if w.Topology != (Topology{}) {
		out = append(out, Change{Kind: ChangeTopology})
	}
	if len(w.Split) > 0 {
		out = append(out, Change{Kind: ChangeSplit})
	}
	if w.OneRegion {
		out = append(out, Change{Kind: ChangeRegion})
	}
	if len(w.Allow)+len(w.Deny) > 0 {
		out = append(out, Change{Kind: ChangeZones})
	}
	if w.Replicas() > 1 && len(x.zones) > 1 {
		out = append(out, x.latencies()...)
	}
	if w.Survive {
		out = append(out, Change{Kind: ChangeSurvive})
	}
	for _, name := range x.c.typeNames {
		if slices.ContainsFunc(w.Roles, func(r Role) bool { return r.Need.Devices > 0 && !(r.Need.choices() == 1 && r.Need.choice(0) == "") }) {
			out = append(out, Change{Kind: ChangeType, Target: name})
		}
	}
	return out[:min(len(out), maxChanges)]
}

// maxChanges bounds what is tried of one kind.
const maxChanges = 64

// latencies are the bounds above the present one that bring more zones together, the least first.
func (x *explainer) latencies() []Change {
	var list []time.Duration
	for i, a := range x.zones {
		for _, b := range x.zones[i+1:] {
			if !x.w.nearEnough(a, b) {
				list = append(list, latencyOf(a, b))
			}
		}
		if len(list) > maxChanges {
			break
		}
	}
	slices.Sort(list)
	var out []Change
	for _, d := range slices.Compact(list) {
		out = append(out, Change{Kind: ChangeMaxLatency, Value: int64(d)})
	}
	return out[:min(len(out), 8)]
}

// less asks for fewer replicas, or for fewer devices each, of the most demanding role.
func (x *explainer) less() (Change, bool) {
	r := x.largest()
	if ch, ok := x.fewer(ChangeReplicas, r.Name, atLeast(r)-1); ok {
		return ch, true
	}
	return x.fewer(ChangeDevices, r.Name, r.Need.Devices-1)
}

// fewer looks for the most that is admitted. Where not even one is, it looks no further.
func (x *explainer) fewer(kind ChangeKind, role string, most int) (Change, bool) {
	try := func(n int) bool { return x.admits(Change{Kind: kind, Target: role, Value: int64(n)}.Apply(x.w)) }
	if most < 1 || !try(1) {
		return Change{}, false
	}
	lo, hi := 1, most+1 // lo is admitted; hi is not, or too many
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; try(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return Change{Kind: kind, Target: role, Value: int64(lo)}, true
}

// largest is the role that asks for most.
func (x *explainer) largest() *Role {
	best := &x.w.Roles[0]
	for i := range x.w.Roles {
		r := &x.w.Roles[i]
		if r.Need.Devices*r.Replicas > best.Need.Devices*best.Replicas {
			best = r
		}
	}
	return best
}

// uncordon looks for one closed node that would do. The cluster is as before on return.
func (x *explainer) uncordon() (Change, bool) {
	tried := 0
	for _, z := range x.zones {
		for _, n := range z.nodes {
			if (!n.Closed && n.ClosedDevices == 0) || slices.Contains(x.w.Avoid, n.Number) {
				continue
			}
			if tried++; tried > maxChanges {
				return Change{}, false
			}
			if x.opened(n) {
				return Change{Kind: ChangeUncordon, Target: n.Name, Value: int64(n.Number)}, true
			}
		}
	}
	return Change{}, false
}

func (x *explainer) opened(n *node) bool {
	closed, devices, stamp := n.Closed, n.ClosedDevices, n.stamp
	n.Closed, n.ClosedDevices = false, 0
	n.refresh(devices)
	x.c.touch(n)
	ok := x.admits(x.w)
	n.Closed, n.ClosedDevices = closed, devices
	n.refresh(devices)
	x.c.touch(n)
	n.stamp = stamp
	return ok
}
