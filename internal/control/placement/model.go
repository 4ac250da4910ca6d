package placement

import (
	"cmp"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// model is the planner's view, kept in step with the store. Its owner locks it.
type model struct {
	cluster *sched.Cluster
	queues  *sched.Queues
	tasks   map[string]*api.Workload   // by id: Pending ones that may wait
	stands  map[string]*api.Placement  // by task id
	on      map[uint32]map[string]bool // node → ids of tasks that stand on it
	doubts  map[string]*api.Placement  // by task id: as it was before a write that may have reserved a place
	lost    map[string]bool            // ids of tasks that look for others in the stead of lost replicas
	in      places                     // node → where it is
	drains  map[uint32]uint64          // nodes to be emptied → which devices, all ones for the node
	nodes   map[string]uint32          // node name → number
	zones   map[string]*api.Zone
	shares  shares
	telling
	known  map[string]sched.Zone // as last told to the planner
	log    *slog.Logger
	trials shown   // what tasks showed
	guests *guests // tasks inside others
	dates  *dates  // which nodes are booked
	// host is the machine behind virtual nodes.
	host string
	now  func() time.Time // nil: as of the last turn
}

// telling is what the planner knows of the queues.
type telling struct {
	untold bool         // shares changed since the planner was told
	told   []fair.Queue // as last told to the planner
	types  int          // how many amounts there were when the queues were told
}

func newModel(log *slog.Logger, host string, processes int) *model {
	given := shares{}
	m := &model{
		cluster: sched.NewCluster(), queues: sched.NewQueues(), tasks: map[string]*api.Workload{},
		zones: map[string]*api.Zone{}, known: map[string]sched.Zone{}, shares: given,
		nodes: map[string]uint32{}, log: log, host: host, trials: shown{cost.NewTrials(), faults{}},
		stands: map[string]*api.Placement{}, on: map[uint32]map[string]bool{}, drains: map[uint32]uint64{},
		doubts: map[string]*api.Placement{}, lost: map[string]bool{}, in: places{}, guests: newGuests(), dates: newDates(given),
	}
	m.cluster.SetHost(sched.Host{Name: host, Processes: processes})
	return m
}

func (m *model) setZone(z *api.Zone) {
	was := m.zones[z.Meta.Name]
	m.zones[z.Meta.Name] = z
	if (was != nil && was.Spec.Outage) != z.Spec.Outage {
		for _, n := range m.in {
			if n.Spec.Zone == z.Meta.Name {
				m.setNode(n)
			}
		}
	}
	list := make([]*api.Zone, 0, len(m.zones))
	for _, name := range slices.Sorted(maps.Keys(m.zones)) {
		list = append(list, m.zones[name])
	}
	var now time.Time // where no clock is known, every measurement is fresh
	if m.now != nil {
		now = m.now()
	}
	far := cost.ZonesOf(list, now)
	for _, other := range list {
		if s := asPlanned(other, list, far); other == z || !reflect.DeepEqual(s, m.known[s.Name]) {
			m.known[s.Name] = s
			m.cluster.SetZone(s)
		}
	}
}

// asPlanned is a zone as the planner sees it. Distances are those of the preview: measured ones for a
// day, else declared ones; where there is neither, the planner assumes. A measurement that grows old
// is dropped at the next change of any zone.
func asPlanned(z *api.Zone, all []*api.Zone, far *cost.Zones) sched.Zone {
	s := sched.Zone{
		Name: z.Meta.Name, Region: z.Spec.Region, Degraded: z.Status.Health == api.ZoneDegraded, Latency: map[string]time.Duration{},
		Bandwidth: map[string]int64{}, Cost: cost.ZoneOf(z),
	}
	for to, gbps := range z.Spec.BandwidthGbps {
		s.Bandwidth[to] = int64(gbps * 1e9 / 8)
	}
	for _, other := range all {
		if l := far.Between(z.Meta.Name, other.Meta.Name); l.Source == cost.Measured || l.Source == cost.Declared {
			s.Latency[other.Meta.Name] = time.Duration(l.P50 * float64(time.Millisecond))
		}
	}
	return s
}

func (m *model) dropZone(name string) {
	delete(m.zones, name)
	delete(m.known, name)
	m.cluster.RemoveZone(name)
}

func (m *model) setNode(n *api.Node) {
	zone := m.zones[n.Spec.Zone]
	out := zone != nil && zone.Spec.Outage
	s := sched.Node{
		Number: n.Spec.Number, Name: n.Meta.Name, Zone: n.Spec.Zone, Rack: n.Spec.Rack, Leaf: n.Spec.Leaf,
		CPU: n.Spec.CPU, Memory: n.Spec.Memory, Disk: n.Spec.Disk, Sort: sched.Sort{Spot: n.Spec.Spot},
		Closed:   out || n.Spec.Cordoned || n.Spec.Lost || !n.Status.Ready || n.Meta.DeletedAt != nil,
		Failures: m.trials.faults.of(n.Meta.Name, timeOf(m)) + n.Status.Failures,
	}
	for _, d := range n.Spec.Devices {
		s.Devices, s.Islands = append(s.Devices, d.Type), append(s.Islands, d.Island)
		s.WholeOnly = s.WholeOnly || !d.Virtual
	}
	for _, i := range n.Spec.CordonedDevices {
		s.ClosedDevices |= 1 << i
	}
	taken := countOthers(&s, n.Status.Others)
	ill := card.Closed(n.Status.Devices)
	leave := ill // what stands on a device at fault leaves, whatever an operator cordoned
	s.ClosedDevices |= ill
	if n.Spec.Drain {
		leave = s.ClosedDevices
		if n.Spec.Cordoned {
			leave = everything
		}
	}
	if out || !n.Status.Ready && engine.IsLeft(n.Status.Reason) {
		leave = everything
	}
	if delete(m.drains, s.Number); leave != 0 {
		m.drains[s.Number] = leave
	}
	s.ClosedDevices |= n.Status.Holds.Closed() | taken // what was given up there may still run
	if n.Spec.Virtual {
		s.Host = m.host
	}
	m.in[s.Number] = n
	m.dates.node(n)
	if err := m.cluster.SetNode(s); err != nil {
		m.log.Error("a node can't be used", "node", n.Meta.Name, "error", err)
		return
	}
	m.nodes[n.Meta.Name] = s.Number
	if len(m.shares) > 0 && len(m.cluster.Total()) != m.types {
		m.tellQueues() // a type that none had before
	}
}

// countOthers takes away what work uses that is not ours, and gives the devices that it has.
func countOthers(s *sched.Node, o *api.OtherUse) (taken uint64) {
	if o == nil {
		return 0
	}
	s.CPU, s.Memory = max(s.CPU-o.CPU, 0), max(s.Memory-o.Memory, 0)
	for _, i := range o.Devices {
		taken |= 1 << i
	}
	return taken
}

const everything = ^uint64(0)

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

func uses(p *api.Placement, number uint32, devices uint64) bool {
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			if s.Node == number && (devices == everything || s.Devices&devices != 0) {
				return true
			}
		}
	}
	return false
}

// stand files a placement under its nodes, or takes it out.
func (m *model) stand(p *api.Placement, stands bool) {
	if stands {
		m.stands[p.Spec.TaskID] = p
	} else {
		delete(m.stands, p.Spec.TaskID)
	}
	delete(m.lost, p.Spec.TaskID)
	if stands && p.Spec.Lost != nil {
		m.lost[p.Spec.TaskID] = true
	}
	for _, r := range p.Spec.Roles {
		for _, s := range r.Slots {
			if !stands {
				delete(m.on[s.Node], p.Spec.TaskID)
				continue
			}
			if m.on[s.Node] == nil {
				m.on[s.Node] = map[string]bool{}
			}
			m.on[s.Node][p.Spec.TaskID] = true
		}
	}
}

// knows says that this very placement was taken up.
func (m *model) knows(p *api.Placement) bool {
	known := m.stands[p.Spec.TaskID]
	if len(p.Spec.Inside) > 0 {
		known = m.guests.stands[p.Spec.TaskID]
	}
	return known != nil && known.Meta.ID == p.Meta.ID
}

func (m *model) dropNode(name string) {
	number, ok := m.nodes[name]
	if !ok {
		return
	}
	if err := m.cluster.RemoveNode(number); err != nil {
		m.log.Warn("a deleted node still holds work; it takes no more", "node", name, "error", err)
		return
	}
	delete(m.nodes, name)
	delete(m.in, number)
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
	blameNodes(m, t)
	if !t.Waits() {
		if t.Phase.Finished() {
			m.showed(o)
		}
		sched.Know(m.queues, id, t.Ran.Known.SavedAt, restartOf(t))
		m.dropTask(id)
		return
	}
	w := m.dates.demand(t, timeOf(m))
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
		m.log.Error("a placement does not fit the model", "task", id, "error", err)
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
	t, again := m.tasks[id]
	m.stop(id, !again)
	if again {
		m.queues.Add(m.dates.demand(t, timeOf(m)))
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
		Nodes: sched.Nodes{Only: t.Wish.Node}, Expected: t.Wish.ExpectedTime.Std(), Preemptible: t.Wish.Preemptible, LastCheckpoint: t.Ran.Known.SavedAt, RestartCost: restartOf(t),
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
		w.Stay = z.Stay
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
