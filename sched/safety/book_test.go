package safety

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// book is who stands and waits where by what was decided and done, and nothing else. All sums are
// worked out anew each time.
type book struct {
	nodes  []sched.Node // by number, from 1
	zones  []sched.Zone
	hosts  map[string]int
	queues map[string]fair.Queue
	stands map[string]*gang
	waits  map[string]*sched.Workload
	claims map[string]*claim   // by who is to start
	wishes map[string]eviction // what victims were asked, not done yet
	turns  map[string]int      // evictions by equals, by victim
	forced map[string]int      // other evictions, by victim
}

type gang struct {
	w       *sched.Workload
	at      sched.Assignment
	since   time.Time
	resized time.Time
}

// claim is what evictions were for.
type claim struct {
	pending map[string]bool
	dirty   bool // something changed that no planner could know of
}

type eviction struct {
	shrink *sched.Resize    // nil: go
	to     sched.Assignment // nil: wait again
}

func newBook() *book {
	return &book{
		hosts: map[string]int{}, stands: map[string]*gang{}, waits: map[string]*sched.Workload{}, claims: map[string]*claim{},
		wishes: map[string]eviction{}, turns: map[string]int{}, forced: map[string]int{},
	}
}

// load is what is used of one node.
type load struct {
	cpu, memory, disk int64
	devices           [64]int
}

func (b *book) loads() []load {
	out := make([]load, len(b.nodes)+1)
	for _, g := range b.stands {
		put(out, g.w, g.at)
	}
	return out
}

func put(out []load, w *sched.Workload, at sched.Assignment) {
	for i, slots := range at {
		need := &w.Roles[i].Need
		for _, s := range slots {
			l := &out[s.Node]
			l.cpu += int64(need.CPU)
			l.memory += int64(need.Memory)
			l.disk += int64(need.Disk)
			for mask := s.Devices; mask != 0; mask &= mask - 1 {
				l.devices[bits.TrailingZeros64(mask)] += thousandths(need)
			}
		}
	}
}

func thousandths(need *sched.Need) int {
	if need.Share == 0 {
		return 1000
	}
	return int(need.Share)
}

// overfull names what is given beyond what a node has. hard is about devices only.
func (b *book) overfull(l *load, number uint32, hard bool) string {
	n := &b.nodes[number-1]
	for i, used := range l.devices[:len(n.Devices)] {
		if used > 1000 {
			return fmt.Sprintf("device %d of node %d is given to %d thousandths", i, number, used)
		}
	}
	switch {
	case hard:
	case l.cpu > int64(n.CPU):
		return fmt.Sprintf("node %d: %d of %d milli-cores", number, l.cpu, n.CPU)
	case l.memory > int64(n.Memory):
		return fmt.Sprintf("node %d: %d of %d bytes of memory", number, l.memory, n.Memory)
	case n.Disk > 0 && l.disk > int64(n.Disk):
		return fmt.Sprintf("node %d: %d of %d bytes of disk", number, l.disk, n.Disk)
	}
	return ""
}

// usage is what each queue uses with all below it.
func (b *book) usage(c *sched.Cluster) map[string]sched.Vector {
	out := map[string]sched.Vector{}
	for _, g := range b.stands {
		b.charge(out, c, g.w, g.at, +1)
	}
	return out
}

func (b *book) charge(out map[string]sched.Vector, c *sched.Cluster, w *sched.Workload, at sched.Assignment, sign int64) {
	need := b.takes(c, w, at)
	for _, name := range b.path(w.Queue) {
		out[name] = plus(out[name], need, sign)
	}
}

// takes is what a gang uses where it stands: also of types that it did not name.
func (b *book) takes(c *sched.Cluster, w *sched.Workload, at sched.Assignment) sched.Vector {
	v := needOf(c, w, func(i int) int { return len(at[i]) })
	for i := range w.Roles {
		need := &w.Roles[i].Need
		if len(need.DeviceTypes) == 1 || len(need.DeviceTypes) == 0 && need.DeviceType != "" {
			continue
		}
		for _, s := range at[i] {
			for k, kind := range b.nodes[s.Node-1].Devices {
				if id, ok := c.TypeID(kind); ok && s.Devices>>k&1 == 1 {
					v[3+int(id)] += int64(thousandths(need))
				}
			}
		}
	}
	return v
}

func needOf(c *sched.Cluster, w *sched.Workload, count func(i int) int) sched.Vector {
	v := make(sched.Vector, 16)
	for i := range w.Roles {
		need, n := &w.Roles[i].Need, int64(count(i))
		v[0] += n * int64(need.CPU)
		v[1] += n * int64(need.Memory)
		devices := n * int64(need.Devices) * int64(thousandths(need))
		v[2] += devices
		only := need.DeviceType
		switch len(need.DeviceTypes) {
		case 0:
		case 1:
			only = need.DeviceTypes[0]
		default:
			only = ""
		}
		if id, ok := c.TypeID(only); ok && only != "" {
			v[3+int(id)] += devices
		}
	}
	return v
}

func plus(a, b sched.Vector, sign int64) sched.Vector {
	if a == nil {
		a = make(sched.Vector, len(b))
	}
	for i, x := range b {
		a[i] += sign * x
	}
	return a
}

// path is a queue and all above it.
func (b *book) path(queue string) []string {
	out := []string{queue}
	for b.queues[queue].Parent != "" {
		queue = b.queues[queue].Parent
		out = append(out, queue)
	}
	return out
}

// rules names the rule of its own that a gang breaks where it stands. fresh: it starts now, so
// nodes must be open and all roles have one choice of type.
func (b *book) rules(w *sched.Workload, at sched.Assignment, fresh []api.Slot) string {
	zones := map[string]int{}
	racks := map[string]int{}
	for i, slots := range at {
		for _, s := range slots {
			n := &b.nodes[s.Node-1]
			zones[n.Zone]++
			rack := n.Zone + "/" + n.Rack
			if n.Rack == "" {
				rack += n.Name
			}
			racks[rack]++
			if why := b.slot(w, i, n, s); why != "" {
				return why
			}
		}
	}
	for _, s := range fresh {
		if n := &b.nodes[s.Node-1]; n.Closed || n.ClosedDevices&s.Devices != 0 {
			return fmt.Sprintf("%s starts on closed node %d or a closed device of it", w.ID, s.Node)
		}
	}
	if most := w.Topology.MaxPerRack; most > 0 {
		for rack, n := range racks {
			if n > most {
				return fmt.Sprintf("%s has %d replicas in rack %s", w.ID, n, rack)
			}
		}
	}
	for z, n := range w.Split {
		if zones[z] < n.Least || zones[z] > n.Most {
			return fmt.Sprintf("%s has %d replicas in zone %s, wants %s", w.ID, zones[z], z, n)
		}
	}
	if why := b.regions(w, at, zones); why != "" {
		return why
	}
	return b.near(w, zones)
}

// regions names a region too many, or a zone that would take too much with it.
func (b *book) regions(w *sched.Workload, at sched.Assignment, zones map[string]int) string {
	regions := map[string]bool{}
	for _, z := range b.zones {
		if zones[z.Name] == 0 {
			continue
		}
		regions[z.Region] = true
		for i := 0; w.Survive && i < len(at); i++ {
			left, must := 0, len(at[i])/2
			if r := &w.Roles[i]; r.Min > 0 && r.Min < r.Replicas {
				must = r.Min
			}
			for _, s := range at[i] {
				if b.nodes[s.Node-1].Zone != z.Name {
					left++
				}
			}
			if left < max(must, 1) {
				return fmt.Sprintf("%s keeps %d of %d in role %d without zone %s", w.ID, left, len(at[i]), i, z.Name)
			}
		}
	}
	if w.OneRegion && len(regions) > 1 {
		return fmt.Sprintf("%s stands in regions %v", w.ID, regions)
	}
	return ""
}

func (b *book) slot(w *sched.Workload, role int, n *sched.Node, s api.Slot) string {
	need := &w.Roles[role].Need
	if len(w.Allow) > 0 && !slices.Contains(w.Allow, n.Zone) || slices.Contains(w.Deny, n.Zone) {
		return fmt.Sprintf("%s is in zone %s", w.ID, n.Zone)
	}
	if slices.Contains(w.Avoid, s.Node) {
		return fmt.Sprintf("%s is on node %d, which it avoids", w.ID, s.Node)
	}
	if got := bits.OnesCount64(s.Devices); got != need.Devices {
		return fmt.Sprintf("%s has %d devices on node %d, wants %d", w.ID, got, s.Node, need.Devices)
	}
	wanted := need.DeviceTypes
	if len(wanted) == 0 && need.DeviceType != "" {
		wanted = []string{need.DeviceType}
	}
	first := ""
	for mask := s.Devices; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		if i >= len(n.Devices) {
			return fmt.Sprintf("%s has device %d of node %d", w.ID, i, s.Node)
		}
		kind := plain(n.Devices[i])
		if first == "" {
			first = kind
		}
		if kind != first || len(wanted) > 0 && !slices.ContainsFunc(wanted, func(t string) bool { return plain(t) == kind }) {
			return fmt.Sprintf("%s has a %s on node %d, wants one of %q", w.ID, n.Devices[i], s.Node, wanted)
		}
	}
	return ""
}

// plain makes the ways to write a type one. There are few.
func plain(kind string) string {
	if kind == "Ascend 910" || kind == "ascend-910" {
		return "ascend910"
	}
	return kind
}

// near holds a gang over several zones to its latency. An explicit split may ignore the default.
func (b *book) near(w *sched.Workload, zones map[string]int) string {
	for i, x := range b.zones {
		for _, y := range b.zones[i+1:] {
			if zones[x.Name] == 0 || zones[y.Name] == 0 {
				continue
			}
			there, ok1 := x.Latency[y.Name]
			back, ok2 := y.Latency[x.Name]
			trip := max(there, back)
			if !ok1 && !ok2 {
				trip = 20 * time.Millisecond
				if x.Region == y.Region {
					trip = time.Millisecond
				}
			}
			if w.MaxLatency > 0 && trip > w.MaxLatency || w.MaxLatency == 0 && len(w.Split) == 0 && trip >= 5*time.Millisecond {
				return fmt.Sprintf("%s is in %s and %s, %s apart", w.ID, x.Name, y.Name, trip)
			}
		}
	}
	return ""
}

func minOf(r *sched.Role) int {
	if r.Min > 0 && r.Min < r.Replicas {
		return r.Min
	}
	return r.Replicas
}

// whole names how a gang that starts is not whole: each role has all its replicas, or each its least.
func whole(w *sched.Workload, at sched.Assignment) string {
	if len(at) != len(w.Roles) {
		return fmt.Sprintf("%s has %d of %d roles", w.ID, len(at), len(w.Roles))
	}
	full, least := true, true
	for i := range w.Roles {
		full = full && len(at[i]) == w.Roles[i].Replicas
		least = least && len(at[i]) == minOf(&w.Roles[i])
	}
	if !full && !least {
		return fmt.Sprintf("%s is cut: %v", w.ID, at)
	}
	return ""
}

// same says that two gangs stand on the same.
func same(a, b sched.Assignment) bool {
	return slices.EqualFunc(a, b, func(x, y []api.Slot) bool { return slices.Equal(x, y) })
}

func slotsOf(at sched.Assignment) []api.Slot { return slices.Concat(at...) }
