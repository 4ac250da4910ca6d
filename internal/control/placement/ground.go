package placement

import (
	"maps"
	"reflect"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/control/placement/past"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// ground is where gangs can stand: the nodes and zones, and what the planner was told of them. The model's owner locks it.
type ground struct {
	cluster *sched.Cluster
	in      places            // node → where it is
	nodes   map[string]uint32 // node name → number
	drains  map[uint32]uint64 // nodes to be emptied → which devices, all ones for the node
	faults  past.Faults       // that tasks had on nodes
	zones   map[string]*api.Zone
	known   map[string]sched.Zone // as last told to the planner
	host    string                // the machine behind virtual nodes
	now     func() time.Time      // nil: as of the last turn
	heard   *remarks              // the model's
}

func newGround(heard *remarks, host string, processes int) ground {
	g := ground{
		cluster: sched.NewCluster(), in: places{}, nodes: map[string]uint32{}, drains: map[uint32]uint64{}, faults: past.Faults{},
		zones: map[string]*api.Zone{}, known: map[string]sched.Zone{}, host: host, heard: heard,
	}
	g.cluster.SetHost(sched.Host{Name: host, Processes: processes})
	return g
}

// time is the clock's; zero where there is none.
func (g *ground) time() (now time.Time) {
	if g.now != nil {
		now = g.now()
	}
	return now
}

func (g *ground) setZone(z *api.Zone) {
	was := g.zones[z.Meta.Name]
	g.zones[z.Meta.Name] = z
	if (was != nil && was.Spec.Outage) != z.Spec.Outage {
		for _, n := range g.in {
			if n.Spec.Zone == z.Meta.Name {
				g.setNode(n)
			}
		}
	}
	list := make([]*api.Zone, 0, len(g.zones))
	for _, name := range slices.Sorted(maps.Keys(g.zones)) {
		list = append(list, g.zones[name])
	}
	far := cost.ZonesOf(list, g.time()) // where no clock is known, every measurement is fresh
	for _, other := range list {
		if s := asPlanned(other, list, far); other == z || !reflect.DeepEqual(s, g.known[s.Name]) {
			g.known[s.Name] = s
			g.cluster.SetZone(s)
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

func (g *ground) dropZone(name string) {
	delete(g.zones, name)
	delete(g.known, name)
	g.cluster.RemoveZone(name)
}

func (g *ground) setNode(n *api.Node) {
	zone := g.zones[n.Spec.Zone]
	out := zone != nil && zone.Spec.Outage
	s := sched.Node{
		Number: n.Spec.Number, Name: n.Meta.Name, Zone: n.Spec.Zone, Rack: n.Spec.Rack, Leaf: n.Spec.Leaf,
		CPU: n.Spec.CPU, Memory: n.Spec.Memory, Disk: n.Spec.Disk, Sort: sched.Sort{Spot: n.Spec.Spot},
		Closed:   out || n.Spec.Cordoned || n.Spec.Lost || !n.Status.Ready || n.Meta.DeletedAt != nil,
		Failures: g.faults.Of(n.Meta.Name, g.time()) + n.Status.Failures,
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
	if delete(g.drains, s.Number); leave != 0 {
		g.drains[s.Number] = leave
	}
	s.ClosedDevices |= n.Status.Holds.Closed() | taken // what was given up there may still run
	if n.Spec.Virtual {
		s.Host = g.host
	}
	g.in[s.Number] = n
	if err := g.cluster.SetNode(s); err != nil {
		g.heard.note(grave, "a node can't be used", "node", n.Meta.Name, "error", err)
		return
	}
	g.nodes[n.Meta.Name] = s.Number
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

// blame holds the faults that a task tells of against its nodes.
func (g *ground) blame(t *api.Workload) {
	for _, name := range g.faults.Note(t) {
		if n := g.in[g.nodes[name]]; n != nil && n.Meta.Name == name {
			g.setNode(n)
		}
	}
}

func (g *ground) dropNode(name string) {
	number, ok := g.nodes[name]
	if !ok {
		return
	}
	if err := g.cluster.RemoveNode(number); err != nil {
		g.heard.note(worse, "a deleted node still holds work; it takes no more", "node", name, "error", err)
		return
	}
	delete(g.nodes, name)
	delete(g.in, number)
}

// classOf is the class of latency between zones, as it is known now.
func (g *ground) classOf(zones []string) string {
	if len(zones) < 2 {
		return cost.ClassOf(0).Name
	}
	var list []*api.Zone
	for _, name := range zones {
		if z := g.zones[name]; z != nil {
			list = append(list, z)
		}
	}
	return cost.ClassOf(cost.ZonesOf(list, g.time()).Farthest(zones).P50).Name
}

// namesOf are the nodes of an assignment, sorted.
func (g *ground) namesOf(at sched.Assignment) []string {
	numbers := map[uint32]bool{}
	for _, slots := range at {
		for _, s := range slots {
			numbers[s.Node] = true
		}
	}
	var out []string
	for name, number := range g.nodes {
		if numbers[number] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
