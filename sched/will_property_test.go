package sched_test

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// standing is a run of a generated scene.
type standing struct {
	w     *sched.Workload
	at    sched.Assignment
	since time.Time
}

// scene is a full small cluster and one who wants in.
type scene struct {
	devices []int // by node
	runs    []standing
	big     *sched.Workload
}

func drawScene(t *rapid.T) scene { return drawSceneOf(t, 1, 3, 1) }

// drawSceneOf has so many nodes, of at least so many devices.
func drawSceneOf(t *rapid.T, fewest, most, devices int) scene {
	var s scene
	free := map[uint32]uint64{}
	for i := range rapid.IntRange(fewest, most).Draw(t, "nodes") {
		n := rapid.IntRange(devices, 4).Draw(t, "devices")
		s.devices = append(s.devices, n)
		free[uint32(i+1)] = 1<<n - 1
	}
	for i := range rapid.IntRange(1, 7).Draw(t, "runs") {
		w := gang(fmt.Sprintf("r%d", i), rapid.IntRange(0, 3).Draw(t, "priority"), 0, rapid.IntRange(1, 2).Draw(t, "each"), "")
		w.Roles[0].Need.CPU = 1
		w.Preemptible = rapid.IntRange(0, 5).Draw(t, "preemptible") > 0
		w.RestartCost = time.Duration(rapid.IntRange(0, 3).Draw(t, "restart")) * time.Minute
		r := standing{w: w, at: sched.Assignment{nil}, since: now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Minute)}
		if rapid.Bool().Draw(t, "checkpointed") {
			w.LastCheckpoint = now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "checkpoint")) * time.Minute)
		}
		for range rapid.IntRange(1, 2).Draw(t, "replicas") {
			node := uint32(rapid.IntRange(1, len(s.devices)).Draw(t, "node"))
			mask := uint64(0)
			for d := 0; d < 4 && bits.OnesCount64(mask) < w.Roles[0].Need.Devices; d++ {
				mask |= free[node] & (1 << d)
			}
			if bits.OnesCount64(mask) == w.Roles[0].Need.Devices {
				free[node] &^= mask
				w.Roles[0].Replicas++
				slot := sched.Assignment{{{Node: node, Devices: mask}}}
				r.at[0] = append(r.at[0], slot[0]...)
			}
		}
		if w.Roles[0].Replicas > 0 {
			s.runs = append(s.runs, r)
		}
	}
	s.big = gang("z", 3, rapid.IntRange(1, 3).Draw(t, "want"), rapid.IntRange(1, 4).Draw(t, "wantEach"), "")
	s.big.Roles[0].Need.CPU = 1
	return s
}

// play builds the scene without some of its runs, and plans.
func (s scene) play(t *rapid.T, without uint, p sched.Policy) sched.Result {
	c, q := sched.NewCluster(), sched.NewQueues()
	for i, n := range s.devices {
		if err := c.SetNode(node(uint32(i+1), "z", slices.Repeat([]string{"A100"}, n)...)); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range s.runs {
		if without&(1<<i) != 0 {
			continue
		}
		if err := c.Hold(r.w.ID, r.w.Roles, r.at); err != nil {
			t.Fatal(err)
		}
		q.Run(now, c, r.w, r.at, r.since)
	}
	q.Add(s.big)
	return sched.Plan(now, c, q, p)
}

func (r standing) lost() time.Duration {
	since := r.since
	if r.w.LastCheckpoint.After(since) {
		since = r.w.LastCheckpoint
	}
	devices := len(r.at[0]) * r.w.Roles[0].Need.Devices
	return time.Duration(devices) * (now.Sub(since) + r.w.RestartCost)
}

// TestVictimsAreTheMinimum tries every set of runs of lower priority and compares: least work lost,
// then fewest victims; and nobody is asked when no set helps.
func TestVictimsAreTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		res := s.play(t, 0, sched.Policy{NoTurns: true})
		starts := func(without uint) bool {
			return len(s.play(t, without, sched.Policy{NoPreemption: true}).Decisions) > 0
		}
		if starts(0) {
			if len(res.Decisions) != 1 || len(res.Evictions) != 0 {
				t.Fatalf("there was room: %+v", res)
			}
			return
		}
		type cost struct {
			lost  time.Duration
			count int
		}
		best := cost{-1, 0}
		for mask := uint(1); mask < 1<<len(s.runs); mask++ {
			var c cost
			allowed := true
			for m := mask; m != 0; m &= m - 1 {
				r := s.runs[bits.TrailingZeros(m)]
				allowed = allowed && r.w.Preemptible && r.w.Priority < s.big.Priority
				c.lost += r.lost()
				c.count++
			}
			better := best.lost < 0 || c.lost < best.lost || c.lost == best.lost && c.count < best.count
			if allowed && better && starts(mask) {
				best = c
			}
		}
		var got cost
		for _, e := range res.Evictions {
			got.lost += e.Lost
			got.count++
		}
		if best.lost < 0 {
			best = cost{}
		}
		if got != best {
			t.Fatalf("%+v; the minimum is %+v: %+v", got, best, res.Evictions)
		}
	})
}

// troupe is a longer life: queues with guarantees and limits, priorities, elastic gangs, evictions
// carried out late.
type troupe struct {
	s      *stage
	all    map[string]*sched.Workload
	held   map[string]sched.Assignment
	asked  []sched.Eviction
	shrink []sched.Resize
	next   int
	log    []string
	limits map[string]int64
	evicts int
}

func newTroupe(t *rapid.T, p sched.Policy) *troupe {
	s := &stage{c: sched.NewCluster(), q: sched.NewQueues(), now: now, p: p}
	for i := range 5 {
		if err := s.c.SetNode(node(uint32(i+1), "z", slices.Repeat([]string{"A100"}, 4)...)); err != nil {
			t.Fatal(err)
		}
	}
	k := func(n int64) []int64 { return []int64{-1, -1, n * 1000} }
	g := func(n int64) []int64 { return []int64{0, 0, n * 1000} }
	err := s.q.Set([]fair.Queue{
		{Name: "org", Limit: k(18)},
		{Name: "a", Parent: "org", Guarantee: g(6)},
		{Name: "b", Parent: "org", Guarantee: g(6), Weight: 2, Limit: k(12)},
		{Name: "c"},
	}, s.c.Total())
	if err != nil {
		t.Fatal(err)
	}
	return &troupe{s: s, all: map[string]*sched.Workload{}, held: map[string]sched.Assignment{}, limits: map[string]int64{"org": 18000, "b": 12000}}
}

func (l *troupe) step(t *rapid.T, op, seed int) {
	switch op {
	case 0, 1:
		l.next++
		w := gang(fmt.Sprintf("t%04d", l.next), seed%3, seed%4+1, seed/7%4+1, "")
		w.Queue, w.User, w.Name, w.Submitted = []string{"a", "b", "c"}[seed/31%3], fmt.Sprint(seed%2), fmt.Sprint(seed%5), l.s.now
		w.Preemptible, w.Roles[0].Need.CPU = seed%7 > 0, 1
		if seed%5 == 0 && w.Roles[0].Replicas > 1 {
			w.Roles[0].Min, w.Roles[0].Max = 1, w.Roles[0].Replicas+2
		}
		l.all[w.ID] = w
		l.s.q.Add(w)
	case 2:
		l.plan(t)
	case 3: // one ends
		if ids := sortedIDs(l.held); len(ids) > 0 {
			l.gone(ids[seed%len(ids)], true)
		}
	case 4:
		l.s.now = l.s.now.Add(time.Duration(seed%200) * time.Minute)
	case 5:
		l.obey(t)
	}
}

func sortedIDs(m map[string]sched.Assignment) []string {
	var out []string
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (l *troupe) gone(id string, finished bool) {
	delete(l.held, id)
	l.s.c.Release(id)
	l.s.q.Stop(l.s.now, id, finished)
}

func (l *troupe) plan(t *rapid.T) sched.Result {
	res := sched.Plan(l.s.now, l.s.c, l.s.q, l.s.p)
	for _, d := range res.Decisions {
		l.held[d.Workload.ID] = d.At
		l.log = append(l.log, fmt.Sprint("start ", d.Workload.ID, d.At))
	}
	for _, e := range res.Evictions {
		l.log = append(l.log, fmt.Sprintf("evict %+v", e))
		if _, ok := l.held[e.ID]; !ok || !l.all[e.ID].Preemptible {
			t.Fatalf("%s can't be asked to go", e.ID)
		}
		if e.Why == sched.EvictPriority && l.all[e.For].Priority <= l.all[e.ID].Priority {
			t.Fatalf("%+v: not of lower priority", e)
		}
		l.evicts++
	}
	l.asked = append(l.asked, res.Evictions...)
	for _, r := range res.Resizes {
		l.log = append(l.log, fmt.Sprintf("resize %+v", r))
		if r.For == "" {
			l.held[r.ID] = r.At
		} else {
			l.shrink = append(l.shrink, r)
		}
	}
	for _, r := range res.Reservations {
		l.log = append(l.log, r.String())
	}
	return res
}

// obey carries out what was asked for.
func (l *troupe) obey(t *rapid.T) {
	for _, e := range l.asked {
		if _, ok := l.held[e.ID]; ok {
			l.gone(e.ID, false)
			l.s.q.Add(l.all[e.ID])
		}
	}
	for _, r := range l.shrink {
		if _, ok := l.held[r.ID]; ok {
			if err := sched.Resized(l.s.now, l.s.c, l.s.q, r.ID, r.At); err != nil {
				t.Fatal(err)
			}
			l.held[r.ID] = r.At
		}
	}
	l.asked, l.shrink = nil, nil
}

func (l *troupe) check(t *rapid.T) {
	taken, used := map[uint32]uint64{}, map[string]int64{}
	for _, id := range sortedIDs(l.held) {
		w, at := l.all[id], l.held[id]
		r := w.Roles[0]
		if n := len(at[0]); n != r.Replicas && (r.Min == 0 || n < r.Min || n > r.Max) {
			t.Fatalf("%s: %d replicas of %+v", id, n, r)
		}
		for _, s := range at[0] {
			if taken[s.Node]&s.Devices != 0 || bits.OnesCount64(s.Devices) != r.Need.Devices {
				t.Fatalf("%s: devices %b of node %d", id, s.Devices, s.Node)
			}
			taken[s.Node] |= s.Devices
			used[w.Queue] += int64(r.Need.Devices) * 1000
		}
	}
	used["org"] = used["a"] + used["b"]
	for _, q := range []string{"a", "b", "c", "org"} {
		got := int64(0)
		if u := l.s.q.Usage(q); len(u) > sched.VectorDevices {
			got = u[sched.VectorDevices]
		}
		if got != used[q] {
			t.Fatalf("queue %s: %d charged, %d in use", q, got, used[q])
		}
		if limit, ok := l.limits[q]; ok && used[q] > limit {
			t.Fatalf("queue %s uses %d of at most %d", q, used[q], limit)
		}
	}
	if l.s.q.Runs() != len(l.held) {
		t.Fatalf("%d run, %d are held", l.s.q.Runs(), len(l.held))
	}
}

// TestTheWillIsSafe: no device twice, gangs whole, limits kept, usage exact, deterministic, and
// after any life with nobody coming or ending, asking each other to go comes to an end.
func TestTheWillIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := sched.Policy{NoTurns: rapid.Bool().Draw(t, "noTurns"), LongestWait: 5 * time.Hour}
		life, twin := newTroupe(t, p), newTroupe(t, p)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			op, seed := rapid.IntRange(0, 5).Draw(t, "op"), rapid.IntRange(0, 1<<20).Draw(t, "seed")
			life.step(t, op, seed)
			twin.step(t, op, seed)
			life.check(t)
		}
		if diff := cmp.Diff(life.log, twin.log); diff != "" {
			t.Fatal("the same input gave two answers:", diff)
		}
		life.settles(t)
	})
}

func (l *troupe) settles(t *rapid.T) {
	l.obey(t)
	l.evicts = 0
	quiet := 0
	for round := 0; quiet < 30; round++ {
		before := l.evicts
		res := l.plan(t)
		wanted := map[string]bool{}
		for _, e := range res.Evictions {
			wanted[e.For] = true
		}
		for _, r := range res.Resizes {
			if r.For != "" {
				wanted[r.For] = true
			}
		}
		l.obey(t)
		if len(wanted) > 0 { // whoever others went for starts in the very next turn
			for _, d := range l.plan(t).Decisions {
				delete(wanted, d.Workload.ID)
			}
			if len(wanted) > 0 {
				t.Fatalf("others went for %v, and it did not start", wanted)
			}
		}
		l.check(t)
		l.s.now = l.s.now.Add(11 * time.Minute)
		if quiet++; l.evicts != before {
			quiet = 0
		}
		if l.evicts > 40*len(l.all) {
			t.Fatalf("%d evictions among %d workloads, and no end: %v", l.evicts, len(l.all), strings.Join(l.log[len(l.log)-40:], "\n"))
		}
	}
}
