package sched

import (
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/advice"
)

// Apply is a workload after a change of it; a change of something else leaves it as it is.
func Apply(ch Change, w *Workload) *Workload {
	out := *w
	out.Roles = slices.Clone(w.Roles)
	switch ch.Kind {
	case advice.ChangeZones:
		out.Allow, out.Deny = nil, nil
	case advice.ChangeTopology:
		out.Topology = Topology{}
	case advice.ChangeSplit:
		out.Split = nil
	case advice.ChangeDefer:
		out.Defer = ""
	case advice.ChangeData:
		out.Data = nil
	case advice.ChangeRegion:
		out.OneRegion = false
	case advice.ChangeSurvive:
		out.Survive = false
	case advice.ChangeMaxLatency:
		out.MaxLatency = time.Duration(ch.Value)
	case advice.ChangePriority:
		out.Priority = int(ch.Value)
	}
	for i := range out.Roles {
		r := &out.Roles[i]
		switch {
		case ch.Kind == advice.ChangeReplicas && r.Name == ch.Target:
			r.Replicas, r.Min, r.Max = int(ch.Value), 0, 0
		case ch.Kind == advice.ChangeDevices && r.Name == ch.Target:
			r.Need.Devices = int(ch.Value)
		case ch.Kind == advice.ChangeType:
			r.Need.DeviceType, r.Need.DeviceTypes = ch.Target, nil
		}
	}
	return &out
}

// farAway is a latency beyond any.
const farAway = time.Hour

// smallestChange is the first of the changes that admits the workload now, by the planner's own
// judgement: first those that ask for the same in another way, then those that ask for less.
func (x *explainer) smallestChange() Change {
	for _, ch := range x.sameWork() {
		if x.admits(Apply(ch, x.w)) {
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
		out = append(out, Change{Kind: advice.ChangeTopology})
	}
	if len(w.Split) > 0 {
		out = append(out, Change{Kind: advice.ChangeSplit})
	}
	if w.OneRegion {
		out = append(out, Change{Kind: advice.ChangeRegion})
	}
	if len(w.Allow)+len(w.Deny) > 0 {
		out = append(out, Change{Kind: advice.ChangeZones})
	}
	if w.Replicas() > 1 && len(x.zones) > 1 {
		out = append(out, x.latencies()...)
	}
	if w.Survive {
		out = append(out, Change{Kind: advice.ChangeSurvive})
	}
	for _, name := range x.c.TypeNames() {
		if slices.ContainsFunc(w.Roles, func(r Role) bool { return r.Need.Devices > 0 && !(r.Need.Choices() == 1 && r.Need.Choice(0) == "") }) {
			out = append(out, Change{Kind: advice.ChangeType, Target: name})
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
		out = append(out, Change{Kind: advice.ChangeMaxLatency, Value: int64(d)})
	}
	return out[:min(len(out), 8)]
}

// less asks for fewer replicas, or for fewer devices each, of the most demanding role.
func (x *explainer) less() (Change, bool) {
	r := x.largest()
	if ch, ok := x.fewer(advice.ChangeReplicas, r.Name, atLeast(r)-1); ok {
		return ch, true
	}
	return x.fewer(advice.ChangeDevices, r.Name, r.Need.Devices-1)
}

// fewer looks for the most that is admitted. Where not even one is, it looks no further.
func (x *explainer) fewer(kind advice.ChangeKind, role string, most int) (Change, bool) {
	try := func(n int) bool { return x.admits(Apply(Change{Kind: kind, Target: role, Value: int64(n)}, x.w)) }
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
			if (!n.Closed && n.ClosedDevices == 0) || x.w.shuns(n) {
				continue
			}
			if tried++; tried > maxChanges {
				return Change{}, false
			}
			if x.opened(n) {
				return Change{Kind: advice.ChangeUncordon, Target: n.Name, Value: int64(n.Number)}, true
			}
		}
	}
	return Change{}, false
}

func (x *explainer) opened(n *node) bool {
	x.c.topology()
	closed, devices, stamp := n.Closed, n.ClosedDevices, x.c.known.Stamp(n.at)
	n.Closed, n.ClosedDevices = false, 0
	n.refresh(devices)
	x.c.touch(n)
	ok := x.admits(x.w)
	n.Closed, n.ClosedDevices = closed, devices
	n.refresh(devices)
	x.c.touch(n)
	x.c.known.Restamp(n.at, stamp)
	return ok
}
