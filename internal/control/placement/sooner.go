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
	why, err := p.explain(w)
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

func (p *preview) explain(w *sched.Workload) (why sched.Explanation, err error) {
	led := p.seat.with(func(m *model) {
		why = m.dates.why(m, p.task, sched.ExplainNew(m.cluster, m.queues, w, p.top), p.now)
	})
	if !led {
		return why, errNotLeading
	}
	return why, nil
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
