package sched_test

import (
	"fmt"
	"math/bits"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

var now = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)

func node(number uint32, zone string, devices ...string) sched.Node {
	return sched.Node{Number: number, Name: fmt.Sprintf("n%d", number), Zone: zone, CPU: 8000, Memory: 64 << 30, Devices: devices}
}

func gang(id string, priority, replicas, devices int, deviceType string) *sched.Workload {
	return &sched.Workload{ID: id, Queue: "q", Priority: priority, Roles: []sched.Role{{
		Name: "worker", Replicas: replicas, Need: sched.Need{CPU: 1000, Memory: 1 << 30, Devices: devices, DeviceType: deviceType},
	}}}
}

func cluster(t interface{ Fatal(...any) }, nodes ...sched.Node) *sched.Cluster {
	c := sched.NewCluster()
	for _, n := range nodes {
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func ids(r sched.Result) []string {
	var out []string
	for _, d := range r.Decisions {
		out = append(out, d.Workload.ID)
	}
	return out
}

func TestPlanOrder(t *testing.T) {
	a2 := []string{"A100", "A100"}
	tests := map[string]struct {
		nodes   []sched.Node
		waiting []*sched.Workload
		want    []string
	}{
		"older first": {
			nodes:   []sched.Node{node(1, "z", a2...)},
			waiting: []*sched.Workload{gang("t2", 500, 1, 2, ""), gang("t1", 500, 1, 2, "")},
			want:    []string{"t1"},
		},
		"priority before age": {
			nodes:   []sched.Node{node(1, "z", a2...)},
			waiting: []*sched.Workload{gang("t1", 100, 1, 2, ""), gang("t2", 500, 1, 2, "")},
			want:    []string{"t2"},
		},
		"a gang is whole or not at all, and what fits behind it goes": {
			nodes:   []sched.Node{node(1, "z", a2...)},
			waiting: []*sched.Workload{gang("t1", 500, 3, 1, ""), gang("t2", 500, 2, 1, "")},
			want:    []string{"t2"},
		},
		"the type is matched however it is written": {
			nodes:   []sched.Node{node(1, "z", a2...), node(2, "z", "Ascend 910")},
			waiting: []*sched.Workload{gang("t1", 500, 1, 1, "ascend-910"), gang("t2", 500, 1, 1, "V100")},
			want:    []string{"t1"},
		},
		"no devices asked, none given": {
			nodes:   []sched.Node{node(1, "z")},
			waiting: []*sched.Workload{gang("t1", 500, 8, 0, ""), gang("t2", 500, 1, 0, "")},
			want:    []string{"t1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := sched.NewQueues()
			for _, w := range tc.waiting {
				q.Add(w)
			}
			got := ids(sched.Plan(now, cluster(t, tc.nodes...), q, sched.Policy{}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlacePrefersOneHealthyZoneThenOneRegion(t *testing.T) {
	c := cluster(t, node(1, "bj1", "A100"), node(2, "bj2", "A100"), node(3, "sh1", "A100", "A100"), node(4, "sz1", "A100", "A100", "A100", "A100"))
	for _, z := range []sched.Zone{{Name: "bj1", Region: "bj"}, {Name: "bj2", Region: "bj"}, {Name: "sh1", Region: "sh"}, {Name: "sz1", Region: "sz", Degraded: true}} {
		c.SetZone(z)
	}
	q := sched.NewQueues()
	nodesOf := func(w *sched.Workload) []uint32 {
		q.Add(w)
		res := sched.Plan(now, c, q, sched.Policy{})
		if len(res.Decisions) != 1 {
			t.Fatalf("%s: %d decisions", w.ID, len(res.Decisions))
		}
		var out []uint32
		for _, s := range res.Decisions[0].At[0] {
			out = append(out, s.Node)
		}
		c.Release(w.ID)
		return out
	}
	if got := nodesOf(gang("a", 1, 2, 1, "")); !reflect.DeepEqual(got, []uint32{3, 3}) {
		t.Error("one zone before one region:", got)
	}
	blocked := gang("b", 1, 2, 1, "")
	blocked.Deny = []string{"sh1", "sz1"}
	if got := nodesOf(blocked); !reflect.DeepEqual(got, []uint32{1, 2}) {
		t.Error("one region:", got)
	}
	if got := nodesOf(gang("c", 1, 4, 1, "")); !reflect.DeepEqual(got, []uint32{4, 4, 4, 4}) {
		t.Error("a degraded zone before crossing regions:", got)
	}
}

func TestPausedQueueAndExplanations(t *testing.T) {
	c := cluster(t, node(1, "z", "A100", "A100"))
	c.SetHost(sched.Host{Name: "h", Processes: 1})
	virtual := node(2, "v", "A100")
	virtual.Host = "h"
	if err := c.SetNode(virtual); err != nil {
		t.Fatal(err)
	}
	q := sched.NewQueues()
	check := func(w *sched.Workload, want string) {
		t.Helper()
		q.Add(w)
		defer q.Remove(w.ID)
		got, ok := sched.Explain(now, c, q, w.ID, api.HighestPriority)
		if !ok || got.Reason != want {
			t.Errorf("%s: got %+v, want %s", w.ID, got, want)
		}
		if got.Message.EN == "" || got.Message.ZH == "" {
			t.Errorf("%s: no text: %+v", w.ID, got)
		}
	}
	check(gang("a", 1, 1, 1, ""), advice.ReasonScheduling)
	check(gang("b", 1, 1, 3, ""), advice.ReasonNeverFits)
	check(gang("c", 1, 1, 1, "H800"), advice.ReasonNeverFits)
	only := gang("d", 1, 1, 1, "")
	only.Allow = []string{"nowhere"}
	check(only, advice.ReasonNoZone)
	if err := c.Hold("x", gang("x", 1, 1, 2, "").Roles, sched.Assignment{{{Node: 1, Devices: 3}}}); err != nil {
		t.Fatal(err)
	}
	check(gang("e", 1, 1, 2, ""), advice.ReasonDevicesBusy)
	if err := c.Hold("y", gang("y", 1, 1, 0, "").Roles, sched.Assignment{{{Node: 2}}}); err != nil {
		t.Fatal(err)
	}
	check(gang("f", 1, 1, 1, ""), advice.ReasonProcessLimit)
	big := gang("g", 1, 1, 0, "")
	big.Roles[0].Need.CPU = 8000
	big.Allow = []string{"z"}
	check(big, advice.ReasonNodesFull)
	closed := node(1, "z", "A100", "A100")
	closed.Closed = true
	if err := c.SetNode(closed); err != nil {
		t.Fatal(err)
	}
	check(big, advice.ReasonClosed)
	q.SetPaused("q", true)
	q.Add(gang("h", 1, 1, 0, ""))
	if res := sched.Plan(now, c, q, sched.Policy{}); len(res.Decisions) != 0 {
		t.Error("a paused queue started", ids(res))
	}
	check(gang("i", 1, 1, 0, ""), advice.ReasonQueuePaused)
}

func TestABacklogIsNotTriedAgainUntilSomethingIsFreed(t *testing.T) {
	c := cluster(t, node(1, "z", "A100"))
	q := sched.NewQueues()
	for i := range 1000 {
		q.Add(gang(fmt.Sprintf("t%04d", i), 500, 1, 1, ""))
	}
	for i := range 5 {
		want := fmt.Sprintf("t%04d", i)
		if got := ids(sched.Plan(now, c, q, sched.Policy{})); !reflect.DeepEqual(got, []string{want}) {
			t.Fatalf("turn %d: %v", i, got)
		}
		if got := ids(sched.Plan(now, c, q, sched.Policy{})); got != nil {
			t.Fatalf("turn %d again: %v", i, got)
		}
		c.Release(want)
	}
}

// TestPlanIsSafe drives random clusters through random lives and checks, after every step, against
// a slow obvious count of who holds what.
func TestPlanIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		life := newLife(t)
		twin := newLife(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step := rapid.IntRange(0, 3).Draw(t, "step")
			seed := rapid.IntRange(0, 1<<20).Draw(t, "seed")
			life.step(t, step, seed)
			twin.step(t, step, seed)
			life.check(t)
		}
		if diff := cmp.Diff(life.log, twin.log); diff != "" {
			t.Fatal("the same input gave two answers:", diff)
		}
	})
}

type life struct {
	c     *sched.Cluster
	q     *sched.Queues
	nodes map[uint32]sched.Node
	held  map[string]sched.Decision
	order []string
	next  int
	log   []string
}

func newLife(t *rapid.T) *life {
	l := &life{c: sched.NewCluster(), q: sched.NewQueues(), nodes: map[uint32]sched.Node{}, held: map[string]sched.Decision{}}
	for i := range 6 {
		n := node(uint32(i+1), fmt.Sprintf("z%d", i%3))
		for range i + 1 {
			n.Devices = append(n.Devices, []string{"A100", "V100"}[i%2])
		}
		l.nodes[n.Number] = n
		if err := l.c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *life) step(t *rapid.T, step, seed int) {
	switch step {
	case 0: // somebody comes
		l.next++
		w := gang(fmt.Sprintf("t%04d", l.next), seed%3, seed%5+1, seed/7%4, []string{"", "A100", "V100"}[seed/31%3])
		l.q.Add(w)
	case 1: // plan
		for _, d := range sched.Plan(now, l.c, l.q, sched.Policy{MaxDecisions: seed%3 + 1}).Decisions {
			l.log = append(l.log, fmt.Sprintf("%s %v", d.Workload.ID, d.At))
			if seed%11 == 0 {
				sched.Undo(l.c, l.q, d)
				continue
			}
			l.held[d.Workload.ID] = d
			l.order = append(l.order, d.Workload.ID)
		}
	case 2: // somebody goes
		if len(l.order) > 0 {
			i := seed % len(l.order)
			id := l.order[i]
			l.c.Release(id)
			delete(l.held, id)
			l.order = append(l.order[:i:i], l.order[i+1:]...)
		}
	case 3: // a node closes or opens
		n := l.nodes[uint32(seed%len(l.nodes)+1)]
		n.Closed = !n.Closed
		l.nodes[n.Number] = n
		if err := l.c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *life) check(t *rapid.T) {
	devices, cpu := map[uint32]uint64{}, map[uint32]api.MilliCPU{}
	for id, d := range l.held {
		for i, role := range d.Workload.Roles {
			if len(d.At[i]) != role.Replicas {
				t.Fatalf("%s: %d of %d replicas placed", id, len(d.At[i]), role.Replicas)
			}
			for _, s := range d.At[i] {
				n := l.nodes[s.Node]
				if s.Devices&devices[s.Node] != 0 {
					t.Fatalf("%s: a device of node %d was given twice", id, s.Node)
				}
				if bits.OnesCount64(s.Devices) != role.Need.Devices || bits.Len64(s.Devices) > len(n.Devices) {
					t.Fatalf("%s: mask %b on a node of %d devices, %d wanted", id, s.Devices, len(n.Devices), role.Need.Devices)
				}
				if want := role.Need.DeviceType; want != "" && role.Need.Devices > 0 && n.Devices[0] != want {
					t.Fatalf("%s wants %s and stands on %s", id, want, n.Devices[0])
				}
				devices[s.Node] |= s.Devices
				if cpu[s.Node] += role.Need.CPU; cpu[s.Node] > n.CPU {
					t.Fatalf("node %d gives away more cores than it has", s.Node)
				}
			}
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, size := range []int{100, 1000, 12500} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			c := sched.NewCluster()
			for i := range size {
				n := node(uint32(i+1), fmt.Sprintf("z%d", i%4), "A100", "A100", "A100", "A100", "A100", "A100", "A100", "A100")
				if err := c.SetNode(n); err != nil {
					b.Fatal(err)
				}
			}
			q := sched.NewQueues()
			i := 0
			for b.Loop() {
				i++
				w := gang(fmt.Sprintf("t%d", i), 500, 8, 8, "")
				q.Add(w)
				if res := sched.Plan(now, c, q, sched.Policy{}); len(res.Decisions) != 1 {
					b.Fatal("nothing was placed")
				}
				c.Release(w.ID)
			}
		})
	}
}
