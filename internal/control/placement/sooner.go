package placement

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// waits answers for a gang that does not fit now: why, what it would cost on empty nodes, and what
// smaller wish would start at once.
func (p *preview) waits(w *sched.Workload) (api.Preview, error) {
	why, err := p.explain(w, topPriority(p.c.cfg.Store, p.task.Meta.Project))
	if err != nil {
		return api.Preview{}, err
	}
	out := api.Preview{Reason: why.Reason, Message: why.Message, Action: why.Action, StartBasis: "unknown"}
	var planned cost.Place
	if parts := p.sketch(w); len(parts) > 0 {
		planned = p.judge(parts)
		shown := planned.PlacementOption
		shown.Name, shown.Estimated, shown.Text = cost.Planned, true, p.queues.why(p.task)
		out.Planned = &shown
		out.Windows = p.windows(parts)
	}
	if why.Reason == advice.ReasonQueuePaused {
		return out, nil // no smaller wish would help
	}
	for _, try := range []func(*sched.Workload) (*sched.Workload, api.Text, error){p.fewer, p.anyType} {
		smaller, change, err := try(w)
		if err != nil {
			return api.Preview{}, err
		}
		if smaller == nil {
			continue
		}
		at, ok, err := p.dry(smaller)
		if err != nil {
			return api.Preview{}, err
		}
		if !ok {
			continue
		}
		place := p.judge(p.parts(smaller, at))
		o := place.PlacementOption
		o.Name, o.Change = cost.Sooner, change
		if out.Planned != nil {
			o.Text = cost.Trade(planned, place)
		}
		out.Alternatives = append(out.Alternatives, o)
	}
	return out, nil
}

func (p *preview) explain(w *sched.Workload, top int) (sched.Explanation, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.m == nil {
		return sched.Explanation{}, errNotLeading
	}
	return p.c.m.dates.why(p.c.m, p.task, sched.ExplainNew(p.c.m.cluster, p.c.m.queues, w, top), p.now), nil
}

// fewer finds the largest number of replicas that starts now, by halving: at most 14 dry runs.
func (p *preview) fewer(w *sched.Workload) (*sched.Workload, api.Text, error) {
	if len(w.Roles) != 1 || w.Roles[0].Replicas < 2 || len(w.Split) > 0 {
		return nil, api.Text{}, nil
	}
	with := func(n int) *sched.Workload {
		out := *w
		out.Roles = slices.Clone(w.Roles)
		out.Roles[0].Replicas = n
		return &out
	}
	spares := p.task.Spares()
	low, high := spares, w.Roles[0].Replicas // low fits, high does not
	for high-low > 1 {
		middle := (low + high) / 2
		_, ok, err := p.dry(with(middle))
		if err != nil {
			return nil, api.Text{}, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	if low == spares {
		return nil, api.Text{}, nil
	}
	return with(low), api.T("replicas: %d instead of %d", "副本数 %d，原为 %d", low-spares, w.Roles[0].Replicas-spares), nil
}

// anyType drops the wish for a device type.
func (p *preview) anyType(w *sched.Workload) (*sched.Workload, api.Text, error) {
	out := *w
	out.Roles = slices.Clone(w.Roles)
	named := ""
	for i := range out.Roles {
		if t := p.task.Roles[i].Resources.Accelerators.Type; t != "" {
			named, out.Roles[i].Need.DeviceType, out.Roles[i].Need.DeviceTypes = t, "", nil
		}
	}
	if named == "" {
		return nil, api.Text{}, nil
	}
	return &out, api.T("any accelerator instead of %s", "不限加速卡类型，原为 %s", named), nil
}

// sketch lays the gang on nodes as if they were empty: in one zone, else anywhere allowed, healthy
// zones first. It is for a price, not for a promise: closed nodes count too.
func (p *preview) sketch(w *sched.Workload) []cost.Part {
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
func (p *preview) layOut(nodes []*api.Node) []cost.Part {
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
