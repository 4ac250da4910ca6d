package sched

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched/pack"
)

// digest is everything a decision depends on, as text; what was worked out about it is not in it.
func (c *Cluster) digest() string {
	var b strings.Builder
	for _, z := range c.order {
		fmt.Fprintf(&b, "%+v\n", z.Zone)
		for _, n := range z.nodes {
			fmt.Fprintf(&b, "  %+v %+v %d %v %d\n", n.Node, n.room, n.disk, n.used, n.room.Standing)
		}
	}
	for _, name := range sortedKeys(c.hosts) {
		fmt.Fprintf(&b, "%+v\n", *c.hosts[name])
	}
	for _, id := range sortedKeys(c.holds) {
		fmt.Fprintf(&b, "%s %+v\n", id, *c.holds[id])
	}
	fmt.Fprintf(&b, "%v %v %d", c.total, c.TypeNames(), c.lemons)
	return b.String()
}

var types = []string{"A100", "V100", "H800"}

// world is a random cluster and its random life.
type world struct {
	t    *rapid.T
	c    *Cluster
	next int
	held []string
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, c: NewCluster()}
	zones := rapid.IntRange(1, 4).Draw(t, "zones")
	for i := range zones {
		z := Zone{Name: fmt.Sprintf("z%d", i), Region: fmt.Sprintf("r%d", i/2), Degraded: w.odds(5)}
		if w.odds(4) {
			z.Latency = map[string]time.Duration{fmt.Sprintf("z%d", w.n(zones)): time.Duration(w.n(9)) * time.Millisecond}
		}
		w.c.SetZone(z)
	}
	for range rapid.IntRange(1, 24).Draw(t, "nodes") {
		w.addNode(zones)
	}
	if w.odds(4) {
		w.c.SetHost(Host{Name: "h", Processes: w.n(12)})
	}
	return w
}

func (w *world) n(below int) int   { return rapid.IntRange(0, below-1).Draw(w.t, "n") }
func (w *world) odds(one int) bool { return w.n(one) == one-1 }

func (w *world) addNode(zones int) {
	w.next++
	n := Node{
		Number: uint32(w.next), Name: fmt.Sprintf("n%d", w.next), Zone: fmt.Sprintf("z%d", w.n(zones)),
		CPU: api.MilliCPU(1000 << w.n(5)), Memory: 4 << 30 << w.n(3),
	}
	rack := w.n(6)
	if rack > 0 {
		n.Rack, n.Leaf = fmt.Sprintf("rack%d", rack), fmt.Sprintf("leaf%d", rack/3)
	}
	if w.odds(20) { // a rack under two leaves
		n.Leaf = "leaf9"
	}
	if w.odds(5) {
		n.Disk = api.Bytes(1 + w.n(8))
	}
	if w.odds(8) {
		n.Host = "h"
	}
	kind := w.n(3)
	for i := range []int{0, 1, 4, 8, 8}[w.n(5)] {
		if w.odds(12) {
			kind = w.n(3)
		}
		n.Devices = append(n.Devices, types[kind])
		n.Islands = append(n.Islands, fmt.Sprint(i/4))
	}
	w.set(n)
}

func (w *world) set(n Node) {
	if err := w.c.SetNode(n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) need() Need {
	n := Need{CPU: api.MilliCPU(500 * (1 + w.n(4))), Memory: api.Bytes(w.n(3)) << 30, Devices: []int{0, 1, 1, 2, 4, 8}[w.n(6)]}
	switch w.n(4) {
	case 0:
		n.DeviceType = types[w.n(3)]
	case 1:
		n.DeviceTypes = []string{types[w.n(3)], types[w.n(3)]}
	}
	if n.Devices == 1 && w.odds(2) {
		n.Share = []uint16{100, 250, 500, 810}[w.n(4)]
	}
	if w.odds(8) {
		n.Disk = api.Bytes(w.n(4))
	}
	if w.odds(50) {
		n.CPU, n.Memory = 0, 0
	}
	return n
}

// workload is a gang; plain ones have no wish but their roles.
func (w *world) workload(plain bool) *Workload {
	w.next++
	g := &Workload{ID: fmt.Sprintf("t%05d", w.next)}
	for i := range []int{1, 1, 1, 2, 3}[w.n(5)] {
		g.Roles = append(g.Roles, Role{Name: fmt.Sprint("r", i), Replicas: []int{1, 1, 2, 3, 5, 8, 13}[w.n(7)], Need: w.need()})
	}
	if plain {
		return g
	}
	zones := len(w.c.order)
	switch w.n(8) {
	case 0:
		g.Topology.Spread = true
	case 1:
		g.Topology.MaxPerRack = 1 + w.n(4)
	case 2:
		counts := map[string]int{fmt.Sprintf("z%d", w.n(zones)): 1}
		counts[fmt.Sprintf("z%d", w.n(zones))] += g.Replicas() - 1
		g.Split = where.Split{}
		for z, n := range counts {
			g.Split[z] = where.Span{Least: max(0, n-w.n(3)), Most: n + w.n(3)}
		}
		g.Balance = w.n(2) == 0
	case 7:
		g.Balance = true
	case 3:
		g.Data = []Datum{{Bytes: 5 << 40, Zones: []string{fmt.Sprintf("z%d", w.n(zones))}}, {Bytes: 7 << 30, Zones: []string{fmt.Sprintf("z%d", w.n(zones))}}}
	case 5:
		g.Survive = true
	case 6:
		g.OneRegion = true
	case 4:
		g.MaxLatency = time.Duration(1+w.n(30)) * time.Millisecond
	}
	if w.odds(6) {
		g.Avoid = []uint32{uint32(w.n(w.next)), uint32(w.n(w.next))}
	}
	if w.odds(6) {
		g.Deny = []string{fmt.Sprintf("z%d", w.n(zones))}
	}
	return g
}

func (w *world) someNode() *node {
	numbers := make([]uint32, 0, len(w.c.nodes))
	for number := range w.c.nodes {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return w.c.nodes[numbers[w.n(len(numbers))]]
}

// step lets something happen.
func (w *world) step() {
	switch op := w.n(12); {
	case op < 6:
		g := w.workload(false)
		if w.odds(3) {
			w.c.Arrive(g)
		}
		before := w.c.digest()
		at, ok := place(w.c, g)
		if after := w.c.digest(); after != before {
			w.t.Fatalf("looking for room changed the cluster:\n%s\n%s", before, after)
		}
		if ok {
			w.keep(g, at)
			if err := w.c.Hold(g.ID, g.Roles, at); err != nil {
				w.t.Fatalf("%+v at %v: %v", g, at, err)
			}
			w.held = append(w.held, g.ID)
		}
	case op < 8 && len(w.held) > 0:
		i := w.n(len(w.held))
		id := w.held[i]
		w.held = slices.Delete(w.held, i, i+1)
		w.c.Release(id)
	case op == 8 && len(w.held) > 0: // away and back is as if nothing had been
		id := w.held[w.n(len(w.held))]
		h := *w.c.holds[id]
		if w.lostDevices(&h) {
			return
		}
		before := w.c.digest()
		w.c.Release(id)
		if err := w.c.Hold(id, h.roles, h.at); err != nil {
			w.t.Fatal(err)
		}
		if after := w.c.digest(); after != before {
			w.t.Fatalf("release and hold:\n%s\n%s", before, after)
		}
	case op == 9:
		n := w.someNode().Node
		n.Closed = w.odds(2)
		n.ClosedDevices = uint64(w.n(4)) * uint64(w.n(2))
		n.Failures = w.n(3) * w.n(2)
		w.set(n)
	case op == 10:
		n := w.someNode().Node
		n.CPU = max(n.CPU>>1<<w.n(3), 500)
		if w.odds(3) && len(n.Devices) > 0 {
			n.Devices = n.Devices[:len(n.Devices)-1]
		}
		if w.odds(3) {
			n.Host = []string{"", "h"}[w.n(2)]
		}
		w.set(n)
	case op == 11:
		if n := w.someNode(); w.odds(3) && n.room.Standing == 0 && len(w.c.nodes) > 1 {
			if err := w.c.RemoveNode(n.Number); err != nil {
				w.t.Fatal(err)
			}
			return
		}
		w.addNode(len(w.c.order))
	}
}

// lostDevices says that a gang stands on devices its node no longer has.
func (w *world) lostDevices(h *hold) bool {
	for _, slots := range h.at {
		for _, s := range slots {
			if s.Devices>>len(w.c.nodes[s.Node].Devices) != 0 {
				return true
			}
		}
	}
	return false
}

// keep checks a found place against the workload's own words.
func (w *world) keep(g *Workload, at Assignment) {
	racks, perZone, zones := map[string]int{}, map[string]int{}, []*zone{}
	for i := range g.Roles {
		if len(at[i]) != g.Roles[i].Replicas {
			w.t.Fatalf("%d of %d replicas", len(at[i]), g.Roles[i].Replicas)
		}
		for _, s := range at[i] {
			n := w.c.nodes[s.Node]
			if n.Closed || s.Devices&n.ClosedDevices != 0 || slices.Contains(g.Avoid, n.Number) || slices.Contains(g.Deny, n.Zone) {
				w.t.Fatalf("%s stands on %+v", g.ID, n.Node)
			}
			rack := n.Zone + "/" + n.Rack
			if n.Rack == "" {
				rack = n.Name
			}
			racks[rack]++
			perZone[n.Zone]++
			if z := w.c.zones[n.Zone]; !slices.Contains(zones, z) {
				zones = append(zones, z)
			}
			w.rightDevices(&g.Roles[i].Need, n, s.Devices)
		}
	}
	for rack, count := range racks {
		if most := g.Topology.MaxPerRack; most > 0 && count > most {
			w.t.Fatalf("%d replicas in %s, at most %d wanted", count, rack, most)
		}
	}
	for z, count := range g.Split {
		if perZone[z] < count.Least || perZone[z] > count.Most {
			w.t.Fatalf("split %v, got %v", g.Split, perZone)
		}
	}
	for i, a := range zones {
		for _, b := range zones[:i] {
			if len(g.Split) == 0 && !g.nearEnough(a, b) {
				w.t.Fatalf("cut over %s and %s, which are %v apart", a.Name, b.Name, latencyOf(a, b))
			}
		}
	}
}

func (w *world) rightDevices(need *Need, n *node, mask uint64) {
	var kinds []string
	count := 0
	for i, t := range n.Devices {
		if mask>>i&1 != 0 {
			count++
			if !slices.Contains(kinds, t) {
				kinds = append(kinds, t)
			}
		}
	}
	if count != need.Devices || mask>>len(n.Devices) != 0 || len(kinds) > 1 {
		w.t.Fatalf("mask %b of types %v for %+v", mask, kinds, need)
	}
	wish := need.DeviceTypes
	if wish == nil && need.DeviceType != "" {
		wish = []string{need.DeviceType}
	}
	if len(kinds) == 1 && wish != nil && !slices.Contains(wish, kinds[0]) {
		w.t.Fatalf("%v for %+v", kinds, need)
	}
}

// sound checks the sums of the model against who stands where, slowly.
func (w *world) sound() {
	type sums struct {
		cpu, memory int64
		used        [64]int
		standing    int64
	}
	want, hosts := map[uint32]*sums{}, map[string]int{}
	for number := range w.c.nodes {
		want[number] = &sums{}
	}
	for _, h := range w.c.holds {
		for i, slots := range h.at {
			need := &h.roles[i].Need
			for _, s := range slots {
				sum := want[s.Node]
				sum.cpu += int64(need.CPU)
				sum.memory += int64(need.Memory)
				sum.standing++
				hosts[w.c.nodes[s.Node].Host]++
				for d := range 64 {
					if s.Devices>>d&1 != 0 {
						sum.used[d] += int(need.Part())
					}
				}
			}
		}
	}
	for number, n := range w.c.nodes {
		sum := want[number]
		if n.room.CPU != int64(n.CPU)-sum.cpu || n.room.Memory != int64(n.Memory)-sum.memory || n.room.Standing != sum.standing {
			w.t.Fatalf("%s: %+v, want %+v", n.Name, n.room, sum)
		}
		for d, used := range n.used {
			if int(used) != sum.used[d] || used > WholeDevice {
				w.t.Fatalf("%s device %d: %d thousandths used, %d held", n.Name, d, used, sum.used[d])
			}
		}
		for d, free := range n.room.Free {
			closed := n.ClosedDevices>>d&1 != 0
			if (closed && free != 0) || (!closed && int(free) != WholeDevice-sum.used[d]) {
				w.t.Fatalf("%s device %d: %d left, closed %v, %d held", n.Name, d, free, closed, sum.used[d])
			}
		}
	}
	w.bounded()
	for name, h := range w.c.hosts {
		if h.used != hosts[name] {
			w.t.Fatalf("host %s: %d used, %d stand", name, h.used, hosts[name])
		}
	}
}

// bounded counts what the bounds should be.
func (w *world) bounded() {
	b := &w.c.bounds
	cpu, memory, whole, parts := int64(0), int64(0), make([]int64, len(b.Whole)), make([]int64, len(b.Parts))
	for _, n := range w.c.nodes {
		if n.room.CPU > 0 {
			cpu += n.room.CPU
		}
		if n.room.Memory > 0 {
			memory += n.room.Memory
		}
		for i, free := range n.room.Free {
			parts[n.room.Types[i]] += int64(free)
			whole[n.room.Types[i]] += int64(free / WholeDevice)
		}
	}
	if b.CPU != cpu || b.Memory != memory || !slices.Equal(b.Whole, whole) || !slices.Equal(b.Parts, parts) {
		w.t.Fatalf("the bounds are %+v, counted %d %d %v %v", b, cpu, memory, whole, parts)
	}
}

// emptied counts what all nodes would take with nothing on them.
func (w *world) emptied(ix *index) int64 {
	sum := int64(0)
	for _, n := range w.c.nodes {
		empty := *n
		empty.Closed, empty.Failures, empty.disk = false, 0, n.Disk
		empty.room = pack.Room{CPU: int64(n.CPU), Memory: int64(n.Memory), Types: n.room.Types}
		for range n.Devices {
			empty.room.Free = append(empty.room.Free, WholeDevice)
		}
		fits, _ := slowFits(w.c, &empty, ix)
		sum += int64(fits)
	}
	return sum
}

// agree checks every index against a scan that knows nothing.
func (w *world) agree() {
	t := w.c.topology()
	for _, ix := range w.c.known.Indexes {
		ix.CatchUp(w.c.known.demand.Version())
		var sums [levels]map[int32]int64
		for level := range levels {
			sums[level] = map[int32]int64{}
		}
		for at, n := range t.nodes {
			fits, score := slowFits(w.c, n, ix)
			if fits != ix.Fits[at] || score != ix.Score[at] {
				w.t.Fatalf("%s takes %d (%d) of %+v, the index says %d (%d)", n.Name, fits, score, ix.Key, ix.Fits[at], ix.Score[at])
			}
			for level := range levels {
				sums[level][t.Of[level][at]] += int64(fits)
			}
		}
		for level := range levels {
			for id, sum := range ix.Sum[level] {
				if sums[level][int32(id)] != sum {
					w.t.Fatalf("level %d domain %d: %d, the index says %d", level, id, sums[level][int32(id)], sum)
				}
			}
		}
		if key := ix.Key; !key.Strict {
			if got, want := w.c.emptyHolds(key), w.emptied(ix); got != want {
				w.t.Fatalf("the empty cluster holds %d of %+v, not %d", want, key, got)
			}
		}
		lo, hi := w.n(len(t.nodes)), w.n(len(t.nodes)+1)
		for _, count := range []int32{1, 2, 8} {
			best := int32(-1)
			for at := lo; at < hi; at++ {
				if ix.Fits[at] >= count && (best < 0 || ix.Better(int32(at), best, count)) {
					best = int32(at)
				}
			}
			if got := ix.Best(int32(lo), int32(hi), count); got != best {
				w.t.Fatalf("best for %d of [%d,%d): %d, the index says %d", count, lo, hi, best, got)
			}
		}
	}
}

// slowFits puts replicas on a copy of the node until one does not fit.
func slowFits(c *Cluster, n *node, ix *index) (int32, int64) {
	if n.Closed || (ix.Key.Strict && n.Failures > 0) {
		return 0, math.MinInt64
	}
	r := n.room
	r.Free = slices.Clone(r.Free)
	disk, score := n.disk, int64(math.MinInt64)
	for count := int32(0); ; count++ {
		if count == pack.MostFits || r.CPU < 0 || r.Memory < 0 || (n.Disk > 0 && (disk < 0 || ix.Key.Disk > int64(disk))) {
			return count, score
		}
		s, mask, ok := c.known.demand.Score(&r, &ix.Ask)
		if !ok {
			return count, score
		}
		if count == 0 {
			score = s
		}
		r.CPU -= ix.Ask.CPU
		r.Memory -= ix.Ask.Memory
		disk -= api.Bytes(ix.Key.Disk)
		for i := range r.Free {
			if mask>>i&1 != 0 {
				r.Free[i] -= ix.Ask.Share
			}
		}
	}
}

func TestIndexAgreesWithAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			w.step()
			w.sound()
			if w.odds(8) {
				w.agree()
			}
		}
		w.agree()
	})
}
