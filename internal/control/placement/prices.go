package placement

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// prices is what places of a task cost and burn, as nodes and zones are now.
type prices struct {
	task   *api.Workload
	now    time.Time
	wish   cost.Wish
	zones  *cost.Zones
	nodes  places
	reread func() places
}

// node finds a node by number. One that the planner has learned of since we read the nodes is in the
// cache by now: the planner hears from it.
func (p *prices) node(number uint32) *api.Node {
	if p.nodes[number] == nil {
		maps.Copy(p.nodes, p.reread())
	}
	if n, ok := p.nodes[number]; ok {
		return n
	}
	return &api.Node{}
}

func (p *prices) judge(parts []cost.Part) cost.Place { return p.zones.Judge(parts, p.wish, p.now) }

func (p *prices) windows(parts []cost.Part) []api.StartWindow {
	if p.wish.Expected <= 0 {
		return nil
	}
	latest := p.now.Add(24 * time.Hour)
	if d := p.task.Wish.Deadline; d != nil {
		latest = d.Add(-p.wish.Expected)
	}
	// One that begins now is no advice.
	return slices.DeleteFunc(p.zones.Windows(parts, p.wish, p.now, latest), func(w api.StartWindow) bool { return !w.Start.After(p.now) })
}

// parts is an assignment as the book-keeping sees it: one part for each node and device type.
func (p *prices) parts(w *sched.Workload, at sched.Assignment) []cost.Part {
	var out []cost.Part
	index := map[partKey]int{}
	for i, slots := range at {
		for _, s := range slots {
			n := p.node(s.Node)
			deviceType := p.task.Roles[i].Resources.Accelerators.Type
			if first := bits.TrailingZeros64(s.Devices); first < len(n.Spec.Devices) {
				deviceType = n.Spec.Devices[first].Type
			}
			out = p.add(out, index, i, n, deviceType)
		}
	}
	return out
}

type partKey struct {
	node       *api.Node
	deviceType string
}

// add puts one more replica of a role on a node.
func (p *prices) add(out []cost.Part, index map[partKey]int, role int, n *api.Node, deviceType string) []cost.Part {
	need := p.task.Roles[role].Resources
	if need.Accelerators.Count == 0 {
		deviceType = ""
	}
	at, ok := index[partKey{n, deviceType}]
	if !ok {
		at = len(out)
		index[partKey{n, deviceType}] = at
		out = append(out, cost.Part{Zone: n.Spec.Zone, Node: n.Meta.Name, Rack: n.Spec.Rack, DeviceType: deviceType})
	}
	part := &out[at]
	part.Replicas++
	part.CPU += need.CPU
	part.Memory += need.Memory
	part.Devices += need.Accelerators.Count
	part.Thousandths += int64(need.Accelerators.Count) * need.Accelerators.Share.Of()
	return out
}

// within says that a whole gang stands in a zone.
func (p *prices) within(at sched.Assignment, zone string) bool {
	for _, slots := range at {
		for _, s := range slots {
			if p.node(s.Node).Spec.Zone != zone {
				return false
			}
		}
	}
	return true
}

func (p *prices) candidates(w *sched.Workload, planned cost.Place) [][]string {
	var zones []*cost.Zone
	regions := map[string][]string{}
	for _, z := range p.zones.All() {
		if (len(w.Allow) == 0 || slices.Contains(w.Allow, z.Name)) && !slices.Contains(w.Deny, z.Name) {
			zones = append(zones, z)
			regions[z.Region] = append(regions[z.Region], z.Name)
		}
	}
	var sets [][]string
	tried := map[string]bool{}
	if len(planned.Zones) == 1 {
		tried[planned.Zones[0].Zone] = true
	}
	for _, by := range p.orders(zones) {
		for _, z := range by[:min(len(by), maxZonesTried)] {
			if !tried[z.Name] {
				tried[z.Name] = true
				sets = append(sets, []string{z.Name})
			}
		}
	}
	seen := map[string]bool{}
	for _, z := range zones {
		if names := regions[z.Region]; len(names) > 1 && !seen[z.Region] && len(seen) < maxRegionsTried {
			seen[z.Region] = true
			sets = append(sets, names)
		}
	}
	return sets
}

// orders sorts zones by what the gang would cost there, by what it would burn, and healthy first.
func (p *prices) orders(zones []*cost.Zone) [][]*cost.Zone {
	whole := p.whole()
	price, grams := map[string]cost.Nano{}, map[string]cost.Nano{}
	for _, z := range zones {
		price[z.Name] = z.Rate(whole, p.now, p.wish.Spot).Total()
		if carbon, ok := z.Carbon(whole); ok {
			grams[z.Name] = carbon.At(p.now) + 1
		}
	}
	by := func(less func(a, b *cost.Zone) int) []*cost.Zone {
		sorted := slices.Clone(zones)
		slices.SortStableFunc(sorted, less)
		return sorted
	}
	known := slices.DeleteFunc(by(func(a, b *cost.Zone) int { return cmp.Compare(grams[a.Name], grams[b.Name]) }),
		func(z *cost.Zone) bool { return grams[z.Name] == 0 })
	return [][]*cost.Zone{
		by(func(a, b *cost.Zone) int { return cmp.Compare(price[a.Name], price[b.Name]) }),
		known,
		by(func(a, b *cost.Zone) int { return cmp.Compare(rank(a), rank(b)) }),
	}
}

func rank(z *cost.Zone) int {
	if z.Degraded {
		return 1
	}
	return 0
}

// whole is the gang as one heap.
func (p *prices) whole() cost.Part {
	var out cost.Part
	for _, r := range p.task.Roles {
		n := int64(r.Placed())
		out.CPU += r.Resources.CPU * api.MilliCPU(n)
		out.Memory += r.Resources.Memory * api.Bytes(n)
		a := r.Resources.Accelerators
		out.Thousandths += n * int64(a.Count) * a.Share.Of()
		if types := a.Types(); len(types) > 0 {
			out.DeviceType = types[0]
		}
	}
	return out
}

// sketch lays the gang on nodes as if they were empty: in one zone, else anywhere allowed, healthy
// zones first. It is for a price, not for a promise: closed nodes count too.
func (p *prices) sketch(w *sched.Workload) []cost.Part {
	byZone := map[string][]*api.Node{}
	for _, n := range p.nodes {
		byZone[n.Spec.Zone] = append(byZone[n.Spec.Zone], n)
	}
	var all []*api.Node
	zones := p.zones.All()
	slices.SortStableFunc(zones, func(a, b *cost.Zone) int { return rank(a) - rank(b) })
	for _, z := range zones {
		if len(w.Allow) > 0 && !slices.Contains(w.Allow, z.Name) || slices.Contains(w.Deny, z.Name) {
			continue
		}
		nodes := byZone[z.Name]
		slices.SortFunc(nodes, func(a, b *api.Node) int { return int(int64(a.Spec.Number) - int64(b.Spec.Number)) })
		if parts := p.layOut(nodes); parts != nil {
			return parts
		}
		all = append(all, nodes...)
	}
	return p.layOut(all)
}

// layOut fills empty nodes in order; nil when they are too few.
func (p *prices) layOut(nodes []*api.Node) []cost.Part {
	var out []cost.Part
	index := map[partKey]int{}
	used := make([]api.Resources, len(nodes))
	for i, r := range p.task.Roles {
		left := r.Replicas
		for k, n := range nodes {
			for left > 0 {
				deviceType, ok := roomFor(n, &used[k], r.Resources)
				if !ok {
					break
				}
				out = p.add(out, index, i, n, deviceType)
				left--
			}
		}
		if left > 0 {
			return nil
		}
	}
	return out
}

// roomFor takes one replica's need from what is left of an empty node. Devices are counted whole.
func roomFor(n *api.Node, used *api.Resources, need api.Resources) (deviceType string, ok bool) {
	if used.CPU+need.CPU > n.Spec.CPU || used.Memory+need.Memory > n.Spec.Memory {
		return "", false
	}
	if count := need.Accelerators.Count; count > 0 {
		wanted := need.Accelerators.Types()
		have := 0
		for _, d := range n.Spec.Devices {
			if len(wanted) == 0 || slices.ContainsFunc(wanted, func(t string) bool { return api.FoldDevice(t) == api.FoldDevice(d.Type) }) {
				deviceType = d.Type
				have++
			}
		}
		if used.Accelerators.Count+count > have {
			return "", false
		}
		used.Accelerators.Count += count
	}
	used.CPU += need.CPU
	used.Memory += need.Memory
	return deviceType, true
}
