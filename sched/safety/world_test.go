package safety

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/cost"
	"github.com/fermi-cluster/fermi/sched/fair"
)

var epoch = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)

// world is one scenario: the planner's model, and the book that is kept beside it.
type world struct {
	rng  *rand.Rand
	c    *sched.Cluster
	q    *sched.Queues
	p    sched.Policy
	now  time.Time
	last time.Time // of the latest turn
	b    *book
	next int // number of the next workload
	st   stats
	sum  uint64 // over all results
	talk bool   // somebody reads the log
	log  func(format string, args ...any)
}

// stats shows that something happened.
type stats struct {
	nodes, workloads                                              int
	plans, starts, evictions, shrinks, grows, reservations, undos int
	claimsKept, limited, closedNodes, restarts, moved, sent       int
}

func (s *stats) add(o stats) {
	s.plans += o.plans
	s.starts += o.starts
	s.evictions += o.evictions
	s.shrinks += o.shrinks
	s.grows += o.grows
	s.reservations += o.reservations
	s.undos += o.undos
	s.claimsKept += o.claimsKept
	s.limited += o.limited
	s.closedNodes += o.closedNodes
	s.restarts += o.restarts
	s.moved += o.moved
	s.sent += o.sent
}

var types = []string{"A100", "H800", "Ascend 910", "T4"}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func pick[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }

func newWorld(seed uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 0x5eed)), now: epoch, log: func(string, ...any) {},
		b: newBook(), c: sched.NewCluster(), q: sched.NewQueues(),
	}
	w.p = sched.Policy{NoTurns: w.chance(30), NoPreemption: w.chance(10), MaxDecisions: pick(w, 0, 0, 0, 5)}
	w.p.Reservations = pick(w, -1, -1, 1, 2, 2, 0)
	if seed%5 == 3 { // no draw: the others stay as they were
		w.p.Moves, w.p.Reservations = func(*sched.Workload) bool { return true }, 0
	}
	w.makeZones()
	w.makeNodes()
	w.load()
	w.setQueues([]fair.Queue{{Name: "a"}, {Name: "a1", Parent: "a"}, {Name: "a2", Parent: "a"}, {Name: "b"}})
	return w
}

func (w *world) makeZones() {
	n := 1 + w.rng.IntN(4)
	for i := range n {
		z := sched.Zone{Name: fmt.Sprintf("z%d", i), Region: pick(w, "north", "north", "south"), Degraded: w.chance(10), Latency: map[string]time.Duration{}}
		for k := range n {
			if k != i && w.chance(50) { // a table with holes
				z.Latency[fmt.Sprintf("z%d", k)] = time.Duration(pick(w, 1, 3, 6, 30)) * time.Millisecond
			}
		}
		z.Cost = w.prices(z.Name)
		w.b.zones = append(w.b.zones, z)
	}
	if w.chance(25) {
		w.b.hosts["h"] = 20 + w.rng.IntN(60)
	}
}

// prices are none, or some that change by the hour; carbon is a series with a hole for every other zone.
func (w *world) prices(name string) *cost.Zone {
	if w.chance(20) {
		return nil
	}
	z := &api.Zone{Meta: api.Meta{Name: name}}
	if w.chance(70) {
		z.Spec.Price.Windows = []api.PriceWindow{{From: "02:00", To: "05:00", Factor: 0.5}, {From: "10:30", To: "11:00", Factor: 3}}
	}
	if w.chance(50) {
		z.Spec.Carbon = &api.Carbon{}
		for range 24 {
			z.Spec.Carbon.ByHour = append(z.Spec.Carbon.ByHour, float64(w.rng.IntN(900)))
		}
	}
	return cost.ZoneOf(z)
}

func (w *world) makeNodes() {
	w.st.nodes = 14 + w.rng.IntN(17)
	for i := range w.st.nodes {
		n := sched.Node{
			Number: uint32(i + 1), Name: fmt.Sprintf("n%d", i+1), Zone: pick(w, w.b.zones...).Name,
			Rack: pick(w, "", "r1", "r2", "r3"), Leaf: pick(w, "l1", "l1", "l2"),
			CPU: api.MilliCPU(pick(w, 8000, 16000, 32000, 64000)), Memory: api.Bytes(pick(w, 32, 64, 128)) << 30,
			Disk: api.Bytes(pick(w, 0, 0, 200)) << 30, Closed: w.chance(6),
		}
		kind := pick(w, types...)
		for k := range pick(w, 0, 2, 4, 4, 8, 8) {
			if k == 2 && w.chance(10) {
				kind = pick(w, types...)
			}
			n.Devices = append(n.Devices, kind)
			n.Islands = append(n.Islands, fmt.Sprint(k/4))
		}
		if w.chance(8) {
			n.ClosedDevices = uint64(w.rng.IntN(256))
		}
		if w.chance(8) {
			n.Failures = 1
		}
		if _, ok := w.b.hosts["h"]; ok && w.chance(50) {
			n.Host = "h"
		}
		w.b.nodes = append(w.b.nodes, n)
	}
}

// load tells a cluster of everything in the book.
func (w *world) load() {
	for _, z := range w.b.zones {
		w.c.SetZone(z)
	}
	for name, n := range w.b.hosts {
		w.c.SetHost(sched.Host{Name: name, Processes: n})
	}
	for _, n := range w.b.nodes {
		w.setNode(n)
	}
}

func (w *world) setNode(n sched.Node) {
	if err := w.c.SetNode(n); err != nil {
		panic(err)
	}
}

// editQueues hangs queues elsewhere, or takes one away, whatever runs in them.
func (w *world) editQueues() {
	queues := []fair.Queue{{Name: "a"}, {Name: "a1", Parent: pick(w, "a", "a", "b", "")}, {Name: "a2", Parent: pick(w, "a", "a", "a1", "")}, {Name: "b"}}
	if w.chance(20) && queues[1].Parent != "b" {
		queues = queues[:3]
	}
	for _, q := range queues {
		if old, ok := w.b.queues[q.Name]; ok && old.Parent != q.Parent {
			w.st.moved++
		}
	}
	w.setQueues(queues)
}

// setQueues gives the queues of a tree what amounts there are.
func (w *world) setQueues(queues []fair.Queue) {
	total := w.c.Total()
	part := func(percent int) []int64 {
		v := []int64{-1, -1, total[sched.VectorDevices] * int64(percent) / 100}
		if w.chance(30) {
			v[sched.VectorCPU] = total[sched.VectorCPU] * int64(percent) / 100
		}
		if w.chance(20) {
			v = append(v, slices.Repeat([]int64{-1}, len(total)-3)...)
			k := 3 + w.rng.IntN(len(v)-3)
			v[k] = total[k] * int64(percent) / 100
		}
		return v
	}
	sure := func(percent int) []int64 { return []int64{0, 0, total[sched.VectorDevices] * int64(percent) / 100} }
	for i := range queues {
		q := &queues[i]
		q.Weight = int64(w.rng.IntN(4))
		if w.chance(50) {
			q.Guarantee = sure(pick(w, 10, 20, 20, 40))
		}
		if w.chance(50) {
			q.Limit = part(pick(w, 15, 30, 50, 80))
		}
		q.Paused = w.chance(4)
	}
	if err := w.q.Set(queues, total); err != nil { // over-committed, or a limit below a guarantee
		for i := range queues {
			queues[i].Guarantee = nil
		}
		if err := w.q.Set(queues, total); err != nil {
			panic(err)
		}
	}
	w.b.queues = map[string]fair.Queue{}
	for _, q := range queues {
		w.b.queues[q.Name] = q
	}
}

var queueNames = []string{"a", "a1", "a2", "b", "free"}

// newWorkload is a random wish.
func (w *world) newWorkload() *sched.Workload {
	w.next++
	out := &sched.Workload{
		ID: fmt.Sprintf("t%04d", w.next), Queue: pick(w, "a", "a1", "a1", "a2", "a2", "b", "b", "b", "free"),
		Priority: pick(w, 1, 1, 5, 5, 9), Submitted: w.now, User: pick(w, "u", "v"), Name: pick(w, "n", "m"),
		Preemptible: w.chance(75), RestartCost: time.Duration(w.rng.IntN(120)) * time.Second,
	}
	if w.chance(50) {
		out.Expected = pick(w, time.Minute, time.Hour, 24*time.Hour)
	}
	out.Roles = append(out.Roles, w.newRole("worker", pick(w, 1, 1, 1, 1, 2, 2, 4, 8)))
	if w.chance(15) {
		out.Roles = append(out.Roles, w.newRole("ps", 1+w.rng.IntN(2)))
	}
	if w.chance(10) {
		out.Allow = []string{pick(w, w.b.zones...).Name}
	} else if w.chance(6) {
		out.Deny = []string{pick(w, w.b.zones...).Name}
	}
	switch {
	case w.chance(8):
		out.Topology.MaxPerRack = 1 + w.rng.IntN(2)
	case w.chance(8):
		out.Topology.Spread = true
	}
	if w.chance(8) {
		out.Avoid = []uint32{uint32(1 + w.rng.IntN(len(w.b.nodes))), uint32(1 + w.rng.IntN(len(w.b.nodes)))}
	}
	if w.chance(10) {
		out.MaxLatency = time.Duration(pick(w, 2, 4, 40)) * time.Millisecond
	}
	if n := out.Replicas(); n > 1 && len(w.b.zones) > 1 && w.chance(10) {
		k := 1 + w.rng.IntN(n-1)
		out.Split = where.Split{"z0": where.Exactly(k), "z1": where.Exactly(n - k)}
		if w.chance(50) {
			out.Split = where.Split{"z0": {Least: k - 1, Most: n}, "z1": {Least: n - k, Most: n - k + 1}}
		}
	}
	if w.chance(10) {
		out.Expected, out.Defer = time.Hour, pick(w, api.DeferCheap, api.DeferGreen)
		if w.chance(50) {
			out.Deadline = w.now.Add(time.Duration(w.rng.IntN(30)) * time.Hour)
		}
	}
	if w.chance(12) {
		out.Data = []sched.Datum{{Bytes: pick[api.Bytes](w, 1<<20, 1<<36, 1<<44), Zones: []string{pick(w, w.b.zones...).Name}}}
	}
	out.OneRegion = w.chance(12)
	out.Survive = out.Replicas() > 1 && w.chance(12)
	return out
}

func (w *world) newRole(name string, replicas int) sched.Role {
	r := sched.Role{Name: name, Replicas: replicas, Need: sched.Need{
		CPU: api.MilliCPU(pick(w, 500, 1000, 4000, 8000)), Memory: api.Bytes(pick(w, 1, 4, 16)) << 30,
		Disk: api.Bytes(pick(w, 0, 10, 50)) << 30, Devices: pick(w, 0, 1, 1, 1, 2, 2, 4, 8),
	}}
	if name == "ps" {
		r.Need.Devices = pick(w, 0, 0, 1)
	}
	if r.Need.Devices == 1 && w.chance(40) {
		r.Need.Share = uint16(pick(w, 100, 250, 333, 334, 500, 700))
	}
	switch {
	case w.chance(30):
		r.Need.DeviceType = pick(w, "A100", "H800", "ascend-910", "T4")
	case w.chance(15):
		r.Need.DeviceTypes = []string{pick(w, types...), pick(w, types...)}
	}
	if replicas > 1 && w.chance(30) {
		r.Min, r.Max = 1+w.rng.IntN(replicas), replicas+w.rng.IntN(4)
	}
	return r
}
