package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/booked"
)

// dates are the bookings and their nodes. The planner knows nothing of them: work is told which nodes to avoid, and told again when that
// changes. The model's owner locks it.
type dates struct {
	shares shares // what queues wish
	all    map[string]*booking.Booking
	on     map[string]map[uint32]bool // by booking: its nodes
	told   map[string][]uint32        // by id of waiting work: what it was told to avoid; absent: nothing
	news   bool                       // something else than time has passed since then
	next   time.Time                  // when to look again; zero: when there is news
	now    time.Time                  // of the last look
}

func newDates(given shares) *dates {
	return &dates{shares: given, all: map[string]*booking.Booking{}, on: map[string]map[uint32]bool{}, told: map[string][]uint32{}}
}

func (d *dates) set(b *booking.Booking) {
	d.all[b.Meta.Name], d.news = b, true
	delete(d.on, b.Meta.Name) // found anew at the next look
}

func (d *dates) drop(name string) {
	delete(d.all, name)
	delete(d.on, name)
	d.news = true
}

// node notes a node that came or changed.
func (d *dates) node(n *api.Node) {
	for name, b := range d.all {
		if on := d.on[name]; on == nil || on[n.Spec.Number] != b.Spec.Covers(n) {
			delete(d.on, name)
			d.news = true
		}
	}
}

// look tells waiting work anew, where bookings, nodes or the time have changed what it has to avoid, and says when to look again.
func (d *dates) look(m *model, now time.Time) time.Time {
	if !d.news && (d.next.IsZero() || now.Before(d.next)) {
		return d.next
	}
	d.news, d.next, d.now = false, time.Time{}, now
	for name, b := range d.all {
		if d.on[name] == nil {
			d.on[name] = map[uint32]bool{}
			for number, n := range m.in {
				if b.Spec.Covers(n) {
					d.on[name][number] = true
				}
			}
		}
		d.next = sooner(d.next, booked.Next(&b.Spec, now))
	}
	maps.DeleteFunc(d.told, func(id string, _ []uint32) bool { return m.tasks[id] == nil })
	for id, t := range m.tasks {
		was := d.told[id]
		w := d.demand(t, now)
		if _, held := m.cluster.Held(id); !held && !slices.Equal(was, w.Avoid) {
			m.queues.Add(w)
		}
	}
	for id, p := range m.stands {
		if w, ok := m.queues.Running(id); ok { // nobody reads it without the lock
			w.Avoid = d.numbers(booked.Work{Project: p.Meta.Project, Ends: w.Expected, Moves: w.Preemptible || !w.LastCheckpoint.IsZero()}, now)
		}
	}
	return d.next
}

// demand is work as the planner is to know it, with what it has to avoid now.
func (d *dates) demand(t *api.Workload, now time.Time) *sched.Workload {
	w := demand(t, d.shares)
	if w.Avoid = d.avoid(t, now); len(w.Avoid) > 0 {
		d.told[t.Meta.ID] = w.Avoid
	} else {
		delete(d.told, t.Meta.ID)
	}
	return w
}

func (d *dates) avoid(t *api.Workload, now time.Time) []uint32 { return d.numbers(asBooked(t), now) }

// asBooked is what counts of work that waits. What has saved goes on from there, wherever it is.
func asBooked(t *api.Workload) booked.Work {
	return booked.Work{Project: t.Meta.Project, Ends: cmp.Or(t.Wish.ExpectedTime, t.Wish.MaxRun).Std(), Moves: t.Wish.Preemptible || !t.Ran.Known.SavedAt.IsZero()}
}

// numbers are the nodes that bookings keep work away from, in order.
func (d *dates) numbers(w booked.Work, now time.Time) []uint32 {
	var out []uint32
	for _, b := range d.all {
		if booked.Keeps(&b.Spec, w, now) {
			out = slices.AppendSeq(out, maps.Keys(d.on[b.Meta.Name]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leavers adds the placements that stand where somebody else's booking, or a maintenance, has begun.
func (d *dates) leavers(m *model, out []*api.Placement) []*api.Placement {
	for name, b := range d.all {
		for number := range d.on[name] {
			for id := range m.on[number] {
				p := m.stands[id]
				if p != nil && p.Spec.Evict == nil && booked.Leaves(&b.Spec, p.Meta.Project, d.now) && !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// text says which booking makes a gang leave; where there is none, what was said stays.
func (d *dates) text(p *api.Placement, e api.Eviction) api.Eviction {
	for _, name := range slices.Sorted(maps.Keys(d.all)) {
		b := d.all[name]
		if !booked.Leaves(&b.Spec, p.Meta.Project, d.now) {
			continue
		}
		for number := range d.on[name] {
			if !uses(p, number, everything) {
				continue
			}
			words := b.Spec.Words(name)
			e.Message = fault.T("Its node is booked (%[1]s); it saves and waits for another place.", "所在节点已被预订（%[2]s），任务将保存并等待重新调度。", words.EN, words.ZH)
			if e.To != nil {
				e.Message = fault.T("Its node is booked (%[1]s); it saves and goes on elsewhere.", "所在节点已被预订（%[2]s），任务将保存并在别处继续。", words.EN, words.ZH)
			}
			return e
		}
	}
	return e
}

// reasonBooked is why work waits that would fit where bookings keep it away.
const reasonBooked = "Booked"

// why names the bookings without which waiting work would fit; where they do not matter, what was said stays.
func (d *dates) why(m *model, t *api.Workload, said sched.Explanation, now time.Time) sched.Explanation {
	if t == nil || said.Reason == advice.ReasonQueuePaused || said.Reason == advice.ReasonQueueLimit {
		return said
	}
	var names []string
	for name, b := range d.all {
		if len(d.on[name]) > 0 && booked.Keeps(&b.Spec, asBooked(t), now) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return said
	}
	w := demand(t, d.shares)
	if _, fits := sched.Elsewhere(m.cluster, m.queues, w); !fits {
		return said
	}
	w.Avoid = d.avoid(t, now)
	if _, fits := sched.Elsewhere(m.cluster, m.queues, w); fits {
		return said
	}
	slices.Sort(names)
	first := d.all[names[0]]
	words := first.Spec.Words(names[0])
	out := sched.Explanation{
		Reason: reasonBooked, Ahead: said.Ahead,
		Message: fault.T("It would fit, but %[1]d [node is|nodes are] booked: %[2]s.", "资源足够，但有 %[1]d 个节点已被预订：%[3]s。", len(w.Avoid), words.EN, words.ZH),
		Action:  fault.T("Wait until it is over.", "请等待预订结束。"),
	}
	switch active := first.Spec.PhaseAt(now) == booking.Active; {
	case active && len(names) == 1:
		out.Start = first.Spec.To
	case active:
	case asBooked(t).Ends == 0:
		out.Action = fault.T("Say how long it runs (spec.expectedTime): what ends before %s starts now. Or let it be moved (spec.preemptible).", "请说明运行时长（spec.expectedTime）：在 %s 之前结束的任务可立即启动；或允许迁移（spec.preemptible）。", first.Spec.From.UTC().Format(time.RFC3339))
	default:
		out.Action = fault.T("It would still run when that begins. Let it be moved (spec.preemptible), or wait until it is over.", "任务届时仍在运行。可允许迁移（spec.preemptible），或等待预订结束。")
	}
	return out
}
