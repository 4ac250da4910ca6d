package placement

import (
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// Bounds of a preview, so that a crowd of them never holds the planner up: how many at once, how many
// zones and regions are tried, and how many alternatives are shown. The planner's lock is taken for
// one dry run at a time and given back in between.
const (
	maxPreviews     = 2
	maxZonesTried   = 6 // of the cheapest, of the cleanest and of the nearest
	maxRegionsTried = 4
	maxAlternatives = 3
)

var errNotLeading = fault.New(fault.Unavailable, "NotLeading", fault.T(
	"This server does not lead; only the leader knows what is free.", "本服务不是主节点；只有主节点掌握空闲资源。")).
	WithHint(fault.T("Ask the leader, or try again in a moment.", "请访问主节点，或稍后重试。"))

// preview is one question and what was gathered for it.
type preview struct {
	prices
	seat   *seat
	queues shares
	top    int          // the highest priority that it may be advised to have
	ended  func() error // nobody waits for the answer any more
}

// answer is the whole answer.
func (p *preview) answer() (api.Preview, error) {
	w := demand(p.task, p.queues)
	at, ok, err := p.dry(w)
	if err != nil {
		return api.Preview{}, err
	}
	if !ok {
		return p.waits(w)
	}
	out := api.Preview{Fits: true, Start: &p.now, StartBasis: "now"}
	planned := p.judge(p.parts(w, at))
	shown := planned.PlacementOption
	shown.Name, shown.Moving, shown.Text = cost.Planned, p.moving(w, shown.Zones), p.queues.why(p.task)
	out.Planned = &shown
	others, err := p.elsewhere(w, planned)
	if err != nil {
		return api.Preview{}, err
	}
	out.Alternatives = cost.Choose(planned, others, maxAlternatives)
	out.Windows = p.windows(p.parts(w, at))
	if hold, ok := p.window(p.now, w); ok {
		out.Fits, out.Start, out.StartBasis = false, &hold.Start, "predicted"
		out.Reason, out.Message, out.Action = hold.Reason, hold.Message, hold.Action
	}
	if why, paused := p.paused(w); paused {
		out.Fits, out.Start, out.StartBasis = false, nil, "unknown"
		out.Reason, out.Message, out.Action = why.Reason, why.Message, why.Action
	}
	return out, nil
}

// dry asks the planner for one place, under its lock.
func (p *preview) dry(w *sched.Workload) (at sched.Assignment, ok bool, err error) {
	led := p.seat.with(func(m *model) {
		w.Avoid = m.dates.avoid(p.task, p.now)
		at, ok = sched.Preview(m.cluster, w)
	})
	if !led {
		return nil, false, errNotLeading
	}
	return at, ok, nil
}

// paused says that the task fits, but its queue lets nothing start.
func (p *preview) paused(w *sched.Workload) (why sched.Explanation, ok bool) {
	p.seat.with(func(m *model) { why = sched.ExplainNew(m.cluster, m.queues, w, api.HighestPriority) })
	return why, why.Reason == advice.ReasonQueuePaused
}

// window says that the task fits, but waits for better hours.
func (p *preview) window(now time.Time, w *sched.Workload) (hold sched.Explanation, ok bool) {
	p.seat.with(func(m *model) {
		if win, waits := sched.WindowOf(now, m.cluster, m.queues, w); waits {
			hold, ok = win.Explain(now), true
		}
	})
	return hold, ok
}

// moving is how long it takes to bring the task's data to these zones.
func (p *preview) moving(w *sched.Workload, zones []api.ZonePart) (longest api.Duration) {
	p.seat.with(func(m *model) {
		for _, z := range zones {
			longest = max(longest, api.Duration(sched.Moving(m.cluster, w, z.Zone).Round(time.Second)))
		}
	})
	return longest
}

// elsewhere judges other places where the gang fits now: in single zones, in the zones of one region
// (the cheapest, the cleanest and the healthy first), and spread over racks. A split stays as it is.
func (p *preview) elsewhere(w *sched.Workload, planned cost.Place) ([]cost.Place, error) {
	var out []cost.Place
	try := func(other sched.Workload, change api.Text) error {
		if err := p.ended(); err != nil {
			return err
		}
		at, ok, err := p.dry(&other)
		if err == nil && ok {
			place := p.judge(p.parts(w, at))
			if place.Change = change; change.IsZero() {
				place.Change = allowText(place.Zones)
			}
			place.Moving = p.moving(w, place.Zones)
			out = append(out, place)
		}
		return err
	}
	if len(w.Split) == 0 {
		for _, allow := range p.candidates(w, planned) {
			other := *w
			other.Allow, other.Deny = allow, nil
			if err := try(other, api.Text{}); err != nil {
				return nil, err
			}
		}
	}
	if w.Topology == (sched.Topology{}) && w.Replicas() > 1 {
		other := *w
		other.Topology.Spread = true
		if err := try(other, api.T("topology: spread", "topology: spread")); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func allowText(zones []api.ZonePart) api.Text {
	return api.T("zones.allow: [%s]", "zones.allow: [%s]", zoneNames(zones))
}

func zoneNames(zones []api.ZonePart) string {
	names := make([]string, len(zones))
	for i, z := range zones {
		names[i] = z.Zone
	}
	return strings.Join(names, ", ")
}
