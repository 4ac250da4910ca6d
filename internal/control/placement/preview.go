package placement

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
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
	c      *Controller
	task   *api.Workload
	now    time.Time
	wish   cost.Wish
	zones  *cost.Zones
	nodes  map[uint32]*api.Node
	queues shares
}

// Preview says what would become of a task, prepared as for a submit, if it were submitted now. It
// changes nothing. Fault Unavailable when this server does not lead. Safe for concurrent use.
func (c *Controller) Preview(ctx context.Context, t api.Work) (api.Preview, error) {
	done, err := c.enter(ctx)
	if err != nil {
		return api.Preview{}, err
	}
	defer done()
	p, err := c.gather(ctx, t)
	if err != nil {
		return api.Preview{}, err
	}
	w := workload(t, p.queues)
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
	others, err := p.elsewhere(ctx, w, planned)
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

// enter waits for a turn: only so many are worked on at once. done ends it.
func (c *Controller) enter(ctx context.Context) (done func(), err error) {
	select {
	case c.previews <- struct{}{}:
		return func() { <-c.previews }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// gather reads zones and nodes from the cache; the planner is not asked for what the store knows.
func (c *Controller) gather(ctx context.Context, o api.Work) (*preview, error) {
	t := o.Workload()
	now := c.cfg.Clock.Now().UTC()
	p := &preview{
		c: c, task: &t, now: now, nodes: map[uint32]*api.Node{}, queues: shares{},
		wish: cost.Wish{Spot: t.Wish.Preemptible, Expected: t.Wish.ExpectedTime.Std(), Samples: c.samples(o)},
	}
	list, err := c.cfg.Store.List(ctx, api.KindZone, "", 0)
	if err != nil {
		return nil, err
	}
	var zones []*api.Zone
	each(list, func(z *api.Zone) { zones = append(zones, z) })
	p.zones = cost.ZonesOf(zones, now)
	if list, err = c.cfg.Store.List(ctx, api.KindQueue, "", 0); err != nil {
		return nil, err
	}
	each(list, func(q *api.Queue) { p.queues[q.Meta.Name] = q })
	return p, p.readNodes(ctx)
}

func (p *preview) readNodes(ctx context.Context) error {
	list, err := p.c.cfg.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return err
	}
	each(list, func(n *api.Node) { p.nodes[n.Spec.Number] = n })
	return nil
}

// node finds a node by number. One that the planner has learned of since we read the nodes is in the
// cache by now: the planner hears from it.
func (p *preview) node(number uint32) *api.Node {
	n, ok := p.nodes[number]
	if !ok {
		_ = p.readNodes(context.Background()) // from memory; a store that closes leaves an unnamed node
		if n, ok = p.nodes[number]; !ok {
			return &api.Node{}
		}
	}
	return n
}

func each[T api.Object](snap store.Snapshot, f func(T)) {
	snap.Ascend("", func(o api.Object) bool {
		f(o.(T))
		return true
	})
}

// dry asks the planner for one place, under its lock.
func (p *preview) dry(w *sched.Workload) (sched.Assignment, bool, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.m == nil {
		return nil, false, errNotLeading
	}
	w.Avoid = p.c.m.dates.avoid(p.task, p.now)
	at, ok := sched.Preview(p.c.m.cluster, w)
	return at, ok, nil
}

// paused says that the task fits, but its queue lets nothing start.
func (p *preview) paused(w *sched.Workload) (sched.Explanation, bool) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.m == nil {
		return sched.Explanation{}, false
	}
	why := sched.ExplainNew(p.c.m.cluster, p.c.m.queues, w, api.HighestPriority)
	return why, why.Reason == advice.ReasonQueuePaused
}

// window says that the task fits, but waits for better hours.
func (p *preview) window(now time.Time, w *sched.Workload) (sched.Explanation, bool) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.m == nil {
		return sched.Explanation{}, false
	}
	win, ok := sched.WindowOf(now, p.c.m.cluster, p.c.m.queues, w)
	return win.Explain(now), ok
}

// moving is how long it takes to bring the task's data to these zones.
func (p *preview) moving(w *sched.Workload, zones []api.ZonePart) (longest api.Duration) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, z := range zones {
		if p.c.m != nil {
			longest = max(longest, api.Duration(sched.Moving(p.c.m.cluster, w, z.Zone).Round(time.Second)))
		}
	}
	return longest
}

func (p *preview) judge(parts []cost.Part) cost.Place { return p.zones.Judge(parts, p.wish, p.now) }

func (p *preview) windows(parts []cost.Part) []api.StartWindow {
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
func (p *preview) parts(w *sched.Workload, at sched.Assignment) []cost.Part {
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
func (p *preview) add(out []cost.Part, index map[partKey]int, role int, n *api.Node, deviceType string) []cost.Part {
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

// elsewhere judges other places where the gang fits now: in single zones, in the zones of one region
// (the cheapest, the cleanest and the healthy first), and spread over racks. A split stays as it is.
func (p *preview) elsewhere(ctx context.Context, w *sched.Workload, planned cost.Place) ([]cost.Place, error) {
	var out []cost.Place
	try := func(other sched.Workload, change api.Text) error {
		if err := ctx.Err(); err != nil {
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

func (p *preview) candidates(w *sched.Workload, planned cost.Place) [][]string {
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
func (p *preview) orders(zones []*cost.Zone) [][]*cost.Zone {
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
func (p *preview) whole() cost.Part {
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
