package node

import (
	"maps"
	"reflect"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// view is what a sync is decided by: what the engines report, and what is written down.
type view struct {
	now      time.Time
	ids      *id.Source
	reported []api.Node
	whole    bool // all nodes are reported
	declared []api.Zone
	// nodes and zones are those in the store.
	nodes, zones store.Snapshot
	launchers    map[string][]api.LauncherVersion // of other versions than ours, by node
	found        bool                             // all launchers are known
}

// nodeOps are what differs between the nodes that are reported and those that are written down.
func (v *view) nodeOps() []store.Op {
	have := map[string]*api.Node{}
	taken := map[uint32]bool{}
	v.nodes.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		have[n.Meta.Name] = n
		taken[n.Spec.Number] = true
		return true
	})
	var ops []store.Op
	for i := range v.reported {
		n := v.reported[i]
		old, ok := have[n.Meta.Name]
		delete(have, n.Meta.Name)
		if !ok && n.Status.Agent != nil {
			continue // it was removed; joining makes it
		}
		if !ok {
			for taken[n.Spec.Number] || n.Spec.Number == 0 {
				n.Spec.Number++
			}
			taken[n.Spec.Number] = true
			v.born(&n.Meta, "node")
			ops = append(ops, store.Create(&n))
			continue
		}
		n.Spec.Number, n.Spec.Cordoned = old.Spec.Number, old.Spec.Cordoned
		n.Spec.CordonedDevices, n.Spec.Drain, n.Spec.DeviceOrders = old.Spec.CordonedDevices, old.Spec.Drain, old.Spec.DeviceOrders
		n.Spec.Devices = kept(old.Spec.Devices, n.Spec.Devices)
		n.Status.Devices, n.Status.Failures = old.Status.Devices, old.Status.Failures // control/card's
		n.Spec.Lost, n.Status.Holds = old.Spec.Lost, old.Status.Holds
		n.Spec.Agent = old.Spec.Agent
		if n.Status.Launchers = v.launchers[n.Meta.Name]; !v.found {
			n.Status.Launchers = old.Status.Launchers
		}
		ops = v.change(ops, old, n.Spec, n.Status)
	}
	if !v.whole {
		return ops // who is missing may be reported yet
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		gone := have[name]
		status := gone.Status
		status.Ready, status.Reason = false, "NotReported"
		status.Message = fault.T("No engine reports this node any more.", "没有引擎再上报该节点。")
		if v.found {
			status.Launchers = v.launchers[gone.Meta.Name]
		}
		ops = v.change(ops, gone, gone.Spec, status)
	}
	return ops
}

func (v *view) change(ops []store.Op, old *api.Node, spec api.NodeSpec, status api.NodeStatus) []store.Op {
	if reflect.DeepEqual(spec, old.Spec) && reflect.DeepEqual(status, old.Status) {
		return ops
	}
	n := store.Clone(old)
	n.Spec, n.Status, n.Meta.UpdatedAt = spec, status, v.now
	return append(ops, store.Update(n))
}

// zoneOps creates the zones that are missing; their state is control/zone's.
func (v *view) zoneOps() []store.Op {
	var ops []store.Op
	have := map[string]bool{}
	v.zones.Ascend("", func(o api.Object) bool {
		have[o.GetMeta().Name] = true
		return true
	})
	for i := range v.declared {
		z := v.declared[i]
		if have[z.Meta.Name] {
			continue
		}
		v.born(&z.Meta, "zone")
		ops = append(ops, store.Create(&z))
	}
	return ops
}

func (v *view) born(m *api.Meta, prefix string) {
	m.ID, m.CreatedAt, m.UpdatedAt = v.ids.New(prefix), v.now, v.now
	if m.DisplayName == "" {
		m.DisplayName = m.Name
	}
}

// versions counts the launchers that live and are not of our version, by node.
func versions(all []engine.Observation, ours string) map[string][]api.LauncherVersion {
	counts := map[string]map[string]int{}
	for _, o := range all {
		if !o.Launched || o.State == engine.StateDone || o.Version == ours {
			continue
		}
		if counts[o.Node] == nil {
			counts[o.Node] = map[string]int{}
		}
		counts[o.Node][o.Version]++
	}
	out := map[string][]api.LauncherVersion{}
	for node, versions := range counts {
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			out[node] = append(out[node], api.LauncherVersion{Version: v, Count: versions[v]})
		}
	}
	return out
}

// kept is a node's devices as they are reported now, each in the place it had: placements name devices by it. One that is not
// reported any more has dropped and stays, until another card is on its bus; new ones come last.
func kept(old, now []api.Device) []api.Device {
	if len(old) == 0 {
		return now // also none: what is stored of an empty list is nil, and one that is not would be written for ever
	}
	left := slices.Clone(now)
	take := func(is func(api.Device) bool) (api.Device, bool) {
		i := slices.IndexFunc(left, is)
		if i < 0 {
			return api.Device{}, false
		}
		d := left[i]
		left = slices.Delete(left, i, i+1)
		return d, true
	}
	if slices.ContainsFunc(slices.Concat(old, now), func(d api.Device) bool { return d.UUID == "" }) {
		return now // nobody can tell which is which
	}
	out := make([]api.Device, len(old))
	same := make([]bool, len(old))
	for i, d := range old {
		out[i], same[i] = take(func(n api.Device) bool { return n.UUID == d.UUID })
	}
	for i, d := range old {
		if same[i] {
			continue
		}
		if n, ok := take(func(n api.Device) bool { return d.Bus != "" && n.Bus == d.Bus }); ok {
			out[i] = n
		} else {
			out[i] = d
		}
	}
	out = append(out, left...)
	for i := range out {
		out[i].Index = i
	}
	return out[:min(len(out), maxDevices)]
}

// maxDevices are as many as a placement's mask has bits.
const maxDevices = 64
