package placement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement/past"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// model is the planner's view, kept in step with the store. Its owner locks it.
type model struct {
	ground
	standing
	tree   tree
	shares shares // the tree's
	queues *sched.Queues
	tasks  map[string]*api.Workload // by id: Pending ones that may wait
	guests *guests                  // tasks inside others
	dates  *dates                   // which nodes are booked
	trials *cost.Trials             // what finished tasks showed
}

func newModel(host string, processes int) *model {
	heard := &remarks{}
	given, g, queues := shares{}, newGround(heard, host, processes), sched.NewQueues()
	return &model{
		ground: g, standing: newStanding(), tree: tree{shares: given, cluster: g.cluster, queues: queues, heard: heard}, shares: given, queues: queues,
		tasks: map[string]*api.Workload{}, guests: newGuests(), dates: newDates(given), trials: cost.NewTrials(),
	}
}

// setNode takes up a node as it is now.
func (m *model) setNode(n *api.Node) {
	m.ground.setNode(n)
	m.dates.node(n)
	m.tree.tellTypes()
}

func (m *model) setQueue(q *api.Queue) {
	if m.tree.set(q) {
		m.shares.weighAnew(m, q.Meta.Name)
	}
}

// leavers are placements that stand on what is to be emptied and were not asked to leave yet.
func (m *model) leavers() []*api.Placement {
	var out []*api.Placement
	for number, devices := range m.drains {
		for id := range m.on[number] {
			if p := m.stands[id]; p != nil && p.Spec.Evict == nil && uses(p, number, devices) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	out = m.dates.leavers(m, out)
	slices.SortFunc(out, func(a, b *api.Placement) int { return strings.Compare(a.Spec.TaskID, b.Spec.TaskID) })
	return out
}

// knows says that this very placement was taken up.
func (m *model) knows(p *api.Placement) bool {
	known := m.stands[p.Spec.TaskID]
	if len(p.Spec.Inside) > 0 {
		known = m.guests.stands[p.Spec.TaskID]
	}
	return known != nil && known.Meta.ID == p.Meta.ID
}

// setTask files a task under invariant 1.
func (m *model) setTask(o api.Work) {
	v := o.Workload()
	t, id := &v, v.Meta.ID
	m.guests.touch(under(t.Meta.Project, t.Meta.Name))
	if len(t.Wish.Inside) > 0 {
		m.guests.set(t)
		return
	}
	m.blame(t)
	if !t.Waits() {
		m.had.Follow(t, m.stands[id], m.in, &m.cluster.Caches)
		if t.Phase.Finished() {
			m.showed(o)
		}
		sched.Know(m.queues, id, t.Ran.Known.SavedAt, restartOf(t))
		m.dropTask(id)
		return
	}
	w := m.dates.demand(t, m.time())
	if _, known := m.tasks[id]; !known {
		m.cluster.Arrive(w)
	}
	m.tasks[id] = t
	if _, held := m.cluster.Held(id); held {
		m.queues.Remove(id)
		return
	}
	m.queues.Add(w)
}

func (m *model) dropTask(id string) {
	m.guests.drop(id)
	delete(m.tasks, id)
	m.queues.Remove(id)
}

// setPlacement takes up a gang that stands, or follows one that moves; w is nil when it is held
// already.
func (m *model) setPlacement(p *api.Placement, w *sched.Workload) {
	id := p.Spec.TaskID
	m.queues.Remove(id)
	old := m.stands[id]
	if old != nil {
		m.stand(old, false)
	}
	m.stand(p, true)
	at := assignment(p.Spec.Roles)
	held, known := m.cluster.Held(id)
	var err error
	switch {
	case known && slices.EqualFunc(held, at, slices.Equal):
	case known && old != nil && old.Spec.Attempt == p.Spec.Attempt && old.Spec.PlacedAt.Equal(p.Spec.PlacedAt): // more or fewer replicas, or one elsewhere
		err = sched.Resized(m.now(), m.cluster, m.queues, id, at)
	case known:
		err = sched.Moved(m.now(), m.cluster, m.queues, id, at, p.Spec.PlacedAt)
	case !known && w != nil:
		if err = m.cluster.Hold(id, w.Roles, at); err == nil {
			m.queues.Run(p.Spec.PlacedAt, m.cluster, w, at, p.Spec.PlacedAt)
		}
	}
	if err == nil {
		err = m.leaves(p)
	}
	if err != nil {
		m.heard.note(grave, "a placement does not fit the model", "task", id, "error", err)
	}
}

// leaves notes who was asked to leave, and holds the place that is reserved for it.
func (m *model) leaves(p *api.Placement) error {
	id, e := p.Spec.TaskID, p.Spec.Evict
	if p.Spec.Shrink != nil {
		m.queues.Leaving(id)
	}
	if e == nil || len(e.To) == 0 {
		m.cluster.Unreserve(id)
	}
	if e == nil {
		return nil
	}
	m.queues.Leaving(id)
	if _, reserved := m.cluster.Reserved(id); reserved || len(e.To) == 0 {
		return nil
	}
	return m.cluster.Reserve(id, assignment(e.To))
}

func (m *model) dropPlacement(gone *api.Placement) {
	if m.guests.leave(gone) {
		return
	}
	m.guests.touch(under(gone.Meta.Project, gone.OwnerName()))
	id := gone.Spec.TaskID
	p := m.stands[id]
	if p == nil {
		return
	}
	m.stand(p, false)
	delete(m.had, id)
	t, again := m.tasks[id]
	m.stop(id, !again)
	if again {
		m.queues.Add(m.dates.demand(t, m.time()))
	}
}

// stop takes a gang off its nodes; one that is over is learned from.
func (m *model) stop(id string, over bool) {
	m.cluster.Release(id)
	m.cluster.Unreserve(id)
	m.queues.Stop(m.now(), id, over) // where there is no clock it is the planner's last turn
}

// restartCost is what a start costs beside the work since the last checkpoint, where none of the task was measured.
const restartCost = 2 * time.Minute

func restartOf(t *api.Workload) time.Duration { return cmp.Or(t.Ran.Known.Restart, restartCost) }

// workload is work as the planner knows it.
func workload(o api.Work, queues shares) *sched.Workload {
	v := o.Workload()
	return demand(&v, queues)
}

func demand(t *api.Workload, queues shares) *sched.Workload {
	w := &sched.Workload{
		ID: t.Meta.ID, Queue: t.Queue, Priority: t.Priority, Roles: roles(t),
		User: t.Meta.Owner, Name: t.Meta.Project + "/" + cmp.Or(t.Meta.DisplayName, t.Meta.Name), Submitted: t.Meta.CreatedAt,
		Nodes: sched.Nodes{Only: t.Wish.Node, Reads: past.Versions(t)}, Expected: t.Wish.ExpectedTime.Std(), Preemptible: t.Wish.Preemptible, LastCheckpoint: t.Ran.Known.SavedAt, RestartCost: restartOf(t),
	}
	if t.Wish.Deadline != nil {
		w.Deadline = *t.Wish.Deadline
	}
	if z := t.Wish.Zones; z != nil {
		w.Allow, w.Deny, w.Split, w.MaxLatency = z.Allow, z.Deny, z.Split, z.MaxLatency.Std()
		w.OneRegion, w.Survive = z.SameRegion == api.RegionRequire, z.SurviveZoneLoss
		for _, d := range z.Data {
			w.Data = append(w.Data, sched.Datum{Bytes: d.Bytes, Zones: d.Zones})
		}
		w.Stay, w.Balance = z.Stay, z.Balance
	}
	w.Weigh = queues.weigh(t)
	// It lost its place to an operator or with its node, not to others: nobody of its priority goes before it.
	w.Displaced = t.Phase == api.PhasePending && (t.Ran.Reason == reasonDrained || t.Ran.Reason == reasonNodeLost)
	if t.Attempt == 0 { // what has run once is not held back again
		w.Defer = t.Wish.Deferrable
	}
	if t.Wish.MaxPending > 0 {
		w.StartBy = t.Meta.CreatedAt.Add(t.Wish.MaxPending.Std())
	}
	if top := t.Wish.Topology; top != nil {
		w.Topology = sched.Topology{Spread: top.Mode == api.TopologySpread, MaxPerRack: top.MaxPerRack}
	}
	return w
}

func roles(t *api.Workload) []sched.Role {
	out := make([]sched.Role, 0, len(t.Roles))
	for i := range t.Roles {
		r := &t.Roles[i]
		need := sched.Need{
			CPU: r.Resources.CPU, Memory: r.Resources.Memory, Disk: r.Resources.EphemeralDisk,
			DeviceType: r.Resources.Accelerators.Type, Devices: r.Resources.Accelerators.Count,
		}
		need.Share = uint16(r.Resources.Accelerators.Share)
		if t.Wish.Zones != nil {
			need.Spot = t.Wish.Zones.Spot
		}
		if types := r.Resources.Accelerators.Types(); len(types) > 1 {
			need.DeviceTypes = types
		}
		role := sched.Role{Name: r.Name, Replicas: r.Placed(), Need: need}
		if low, high := r.Range(); low != high { // 0 is as many as it asks for
			role.Min, role.Max = low, high
		}
		out = append(out, role)
	}
	return out
}
