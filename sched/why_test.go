package sched_test

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/fair"
)

var update = flag.Bool("update", false, "write docs/reference/why-pending.md anew")

// whys reaches every reason: each makes a stage on which the workload x waits for it.
var whys = map[string]func(s *stage) *sched.Workload{
	advice.ReasonScheduling: func(s *stage) *sched.Workload { return s.task("x", 1, 1, 1) },
	advice.ReasonBehind: func(s *stage) *sched.Workload {
		s.q.Add(s.task("first", 5, 1, 1))
		return s.task("x", 1, 1, 1)
	},
	advice.ReasonDeferred: func(s *stage) *sched.Workload {
		s.run("a", 1, 1, 4)
		s.run("b", 1, 1, 4)
		x := s.task("x", 1, 1, 1)
		s.p.NoPreemption = true
		s.q.Add(x)
		for i := range 20 { // something is freed all the time, and nobody can start
			s.c.Release("nobody")
			s.end(fmt.Sprint(i))
			if err := s.c.SetNode(s.spare()); err != nil {
				s.t.Fatal(err)
			}
			s.pass(time.Second)
			s.plan()
		}
		s.end("a")
		return x
	},
	advice.ReasonVictims: func(s *stage) *sched.Workload {
		s.run("a", 1, 2, 4)
		s.pass(time.Minute)
		x := s.task("x", 9, 1, 4)
		s.q.Add(x)
		s.plan()
		return x
	},
	advice.ReasonQueuePaused: func(s *stage) *sched.Workload {
		s.q.SetPaused("q", true)
		return s.task("x", 1, 1, 1)
	},
	advice.ReasonQueueLimit: func(s *stage) *sched.Workload {
		s.queues(fair.Queue{Name: "all", Limit: []int64{-1, -1, 3000}}, fair.Queue{Name: "q", Parent: "all"})
		s.run("a", 1, 1, 2)
		return s.task("x", 1, 2, 1)
	},
	advice.ReasonReserved: func(s *stage) *sched.Workload {
		s.p.NoPreemption = true
		s.run("a", 1, 1, 4)
		s.q.Add(s.task("gang", 9, 2, 4))
		s.plan()
		x := s.task("x", 1, 1, 1)
		x.Expected = 10 * time.Hour
		return x
	},
	advice.ReasonNoZone: func(s *stage) *sched.Workload {
		x := s.task("x", 1, 1, 1)
		x.Allow = []string{"nowhere"}
		return x
	},
	advice.ReasonOnly: func(s *stage) *sched.Workload {
		n := s.spare()
		n.Name, n.Closed, n.Devices = "home", true, []string{"A100"}
		if err := s.c.SetNode(n); err != nil {
			s.t.Fatal(err)
		}
		x := s.task("x", 1, 1, 1)
		x.Only = "home"
		return x
	},
	advice.ReasonNoNodes: func(s *stage) *sched.Workload {
		s.c.SetZone(sched.Zone{Name: "new"})
		x := s.task("x", 1, 1, 1)
		x.Allow = []string{"new"}
		return x
	},
	advice.ReasonNeverFits: func(s *stage) *sched.Workload { return s.task("x", 1, 1, 5) },
	advice.ReasonClosed: func(s *stage) *sched.Workload {
		s.close(1)
		s.close(2)
		return s.task("x", 1, 1, 1)
	},
	advice.ReasonProcessLimit: func(s *stage) *sched.Workload {
		s.c.SetHost(sched.Host{Name: "h", Processes: 1})
		for i := range 2 {
			n := s.node(uint32(i + 1))
			n.Host = "h"
			s.set(n)
		}
		s.run("a", 1, 1, 1)
		return s.task("x", 1, 1, 1)
	},
	advice.ReasonTopology: func(s *stage) *sched.Workload {
		x := s.task("x", 1, 3, 1)
		x.Topology.MaxPerRack = 1
		s.run("a", 1, 1, 1)
		n := s.node(3)
		n.Rack = "third"
		s.set(n)
		s.close(3)
		return x
	},
	advice.ReasonSplit: func(s *stage) *sched.Workload {
		x := s.task("x", 1, 2, 1)
		x.Split = where.Split{"z": where.Exactly(1), "nowhere": where.Exactly(1)}
		return x
	},
	advice.ReasonLatency: func(s *stage) *sched.Workload {
		s.regions(20 * time.Millisecond)
		s.stand("a", 2, 15)
		return s.task("x", 1, 2, 4)
	},
	advice.ReasonWindow: func(s *stage) *sched.Workload {
		s.c.SetZone(nightly("z", "04:00", 0.5))
		x := s.task("x", 1, 1, 1)
		x.Expected, x.Defer, x.Submitted = time.Hour, api.DeferCheap, s.now
		return x
	},
	advice.ReasonData: func(s *stage) *sched.Workload {
		x := s.beside(10*time.Minute, 1<<40)
		s.plan()
		return x
	},
	advice.ReasonRegion: func(s *stage) *sched.Workload {
		s.regions(time.Millisecond)
		s.stand("a", 2, 15)
		x := s.task("x", 1, 2, 4)
		x.OneRegion = true
		return x
	},
	advice.ReasonSurvive: func(s *stage) *sched.Workload {
		s.regions(time.Millisecond)
		s.stand("a", 3, 15)
		x := s.task("x", 1, 2, 4)
		x.Survive = true
		return x
	},
	advice.ReasonSpot: func(s *stage) *sched.Workload {
		n := s.node(1)
		n.Spot = true
		s.set(n)
		s.stand("a", 2, 15)
		x := s.task("x", 1, 1, 4)
		x.Roles[0].Need.Spot = spot.Never
		return x
	},
	advice.ReasonFragmented: func(s *stage) *sched.Workload {
		s.stand("a", 1, 3)
		s.stand("b", 2, 3)
		return s.task("x", 1, 1, 4)
	},
	advice.ReasonDevicesBusy: func(s *stage) *sched.Workload {
		s.run("a", 1, 2, 4)
		return s.task("x", 1, 1, 1)
	},
	advice.ReasonNodesFull: func(s *stage) *sched.Workload {
		for i := range 2 {
			a := s.task(fmt.Sprintf("a%d", i), 1, 1, 0)
			a.Roles[0].Need.CPU = 1 << 20
			s.q.Add(a)
		}
		s.plan()
		return s.task("x", 1, 1, 1)
	},
}

// regions adds node 3 in a zone of another region, so far away.
func (s *stage) regions(latency time.Duration) {
	n := s.node(3)
	n.Zone = "far"
	s.set(n)
	s.c.SetZone(sched.Zone{Name: "z", Region: "north", Latency: map[string]time.Duration{"far": latency}})
	s.c.SetZone(sched.Zone{Name: "far", Region: "south"})
}

func (s *stage) run(id string, priority, replicas, devices int) {
	s.q.Add(s.task(id, priority, replicas, devices))
	s.starts(id)
}

func (s *stage) node(number uint32) sched.Node {
	n := node(number, "z", "A100", "A100", "A100", "A100")
	n.CPU = 1 << 20
	return n
}

// spare is a node without devices; to set it again frees something in the planner's eyes.
func (s *stage) spare() sched.Node { return node(9, "z") }

func (s *stage) set(n sched.Node) {
	if err := s.c.SetNode(n); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) close(number uint32) {
	n := s.node(number)
	if number == 3 {
		n.Rack = "third"
	}
	n.Closed = true
	s.set(n)
}

func (s *stage) queues(list ...fair.Queue) {
	if err := s.q.Set(list, s.c.Total()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) stand(id string, on uint32, devices uint64) {
	w := s.task(id, 1, 1, bits.OnesCount64(devices))
	at := sched.Assignment{{api.Slot{Node: on, Devices: devices}}}
	if err := s.c.Hold(id, w.Roles, at); err != nil {
		s.t.Fatal(err)
	}
	s.q.Run(s.now, s.c, w, at, s.now)
}

func TestWhy(t *testing.T) {
	for _, r := range advice.Reasons {
		t.Run(r.Reason, func(t *testing.T) {
			make, ok := whys[r.Reason]
			if !ok {
				t.Fatal("no test reaches this reason")
			}
			s := newStage(t, 2, 4)
			x := make(s)
			if _, waits := s.q.Get("x"); !waits {
				s.q.Add(x)
			}
			ex, ok := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
			if !ok || ex.Reason != r.Reason {
				t.Fatalf("%+v", ex)
			}
			if ex.Message.EN == "" || ex.Message.ZH == "" || strings.Contains(ex.Message.EN+ex.Message.ZH+ex.Action.EN+ex.Action.ZH, "%!") {
				t.Errorf("%+v", ex)
			}
			_, impossible := sched.Impossible(s.c, s.q, x)
			if impossible != ex.Impossible && ex.Reason != advice.ReasonQueuePaused {
				t.Errorf("at submit impossible %t, now %t", impossible, ex.Impossible)
			}
		})
	}
	if len(whys) != len(advice.Reasons) {
		t.Error("the list of reasons is not whole:", len(whys), len(advice.Reasons))
	}
}

// A split that leaves no room says what is missing where.
func TestWhySplit(t *testing.T) {
	for _, c := range []struct {
		split where.Split
		want  string
	}{
		{where.Split{"z": {Least: 1, Most: 3}, "y": {Least: 2, Most: 3}}, "Zone y is to have 2, and has room for 1."},
		{where.Split{"z": {Least: 1, Most: 1}, "y": {Most: 2}}, "Within its bounds these zones have room for 2 of 3."},
	} {
		s := newStage(t, 2, 4)
		n := s.node(3)
		n.Zone = "y"
		s.set(n)
		x := s.task("x", 1, 3, 4)
		x.Split = c.split
		s.q.Add(x)
		ex, ok := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
		if !ok || ex.Reason != advice.ReasonSplit || !strings.Contains(ex.Message.EN, c.want) || ex.Message.ZH == "" {
			t.Errorf("%v: %+v", c.split, ex)
		}
		if r, impossible := sched.Impossible(s.c, s.q, x); !impossible || !strings.Contains(r.Message.EN, c.want) {
			t.Errorf("%v: at submit %+v", c.split, r)
		}
		x.Split = where.Split{"z": {Least: 1, Most: 3}, "y": {Least: 1, Most: 3}}
		if r, impossible := sched.Impossible(s.c, s.q, x); impossible {
			t.Errorf("%v: %+v", x.Split, r)
		}
	}
}

// What a project may not give is not advised: neither the priority before others, nor the one before a reservation.
func TestWhyAdvisesNoForbiddenPriority(t *testing.T) {
	for _, reason := range []string{advice.ReasonBehind, advice.ReasonReserved} {
		s := newStage(t, 2, 4)
		x := whys[reason](s)
		s.q.Add(x)
		free, ok := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
		if !ok || free.Reason != reason || free.Change.Kind != advice.ChangePriority {
			t.Fatalf("%+v", free)
		}
		need := int(free.Change.Value)
		if same, _ := sched.Explain(s.now, s.c, s.q, "x", need); same.Change != free.Change {
			t.Errorf("%s: %d is allowed and not advised: %+v", reason, need, same)
		}
		ex, ok := sched.Explain(s.now, s.c, s.q, "x", need-1)
		if !ok || ex.Reason != reason || ex.Change.Kind == advice.ChangePriority || strings.Contains(ex.Action.EN, "priority") || ex.Action.EN == "" || ex.Action.ZH == "" {
			t.Errorf("%s: up to %d: %+v", reason, need-1, ex)
		}
		if made := sched.ExplainNew(s.c, s.q, x, need-1); made.Change.Kind == advice.ChangePriority {
			t.Errorf("%s: %+v", reason, made)
		}
	}
}

const whyPage = "../docs/reference/why-pending.md"

// TestWhyPage keeps the page in step with the reasons: go test ./sched -run TestWhyPage -update
func TestWhyPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Why a task is pending\n\nEach reason `fermi why` can give, in the order in which they are looked for. " +
		"Generated from `advice.Reasons`; each is reached by the test named beside it (`go test ./sched -run TESTNAME`).\n\n" +
		"| reason | meaning | 含义 | test |\n|---|---|---|---|\n")
	for _, r := range advice.Reasons {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `TestWhy/%s` |\n", r.Reason, r.Text.EN, r.Text.ZH, r.Reason)
	}
	b.WriteString("\n## Refused at submit\n\nWhat could never start, even with every node open and idle, is refused when it is submitted, on every server, with the " +
		"field, what is wrong and what would be right. What is only cordoned, not ready, paused or in use is accepted and waits with its reason; " +
		"so is everything while no node is known, and for five seconds after one came. Generated from `advice.Wrongs`.\n\n" +
		"| field | meaning | 含义 | test |\n|---|---|---|---|\n")
	for _, r := range advice.Wrongs {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `TestImpossible/%s` |\n", r.Field, r.Text.EN, r.Text.ZH, r.Wrong)
	}
	if *update {
		if err := os.WriteFile(whyPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(whyPage)
	if err != nil || string(page) != b.String() {
		t.Errorf("%s is out of step (%v): go test ./sched -run TestWhyPage -update", whyPage, err)
	}
}

// BenchmarkExplain is one explanation with 10,000 waiting on 1,000 nodes.
func BenchmarkExplain(b *testing.B) {
	s := newStage(b, 1000, 8)
	s.p.NoPreemption = true
	for i := range 1000 {
		s.q.Add(s.task(fmt.Sprintf("run%04d", i), 1, 1, 8))
	}
	for s.plan().More {
	}
	for i := range 10000 {
		s.q.Add(s.task(fmt.Sprintf("wait%05d", i), 1, 1+i%16, 1+i%8))
	}
	s.plan()
	for b.Loop() {
		if ex, ok := sched.Explain(s.now, s.c, s.q, "wait00007", api.HighestPriority); !ok || ex.Reason != advice.ReasonDevicesBusy {
			b.Fatal(ex)
		}
	}
}

// People count devices, cores and GiB: no reason speaks of thousandths or bytes.
func TestLimitsAreToldInPlainUnits(t *testing.T) {
	for _, c := range []struct {
		limit    []int64
		en, zh   string
		action   string
		replicas int
	}{
		{[]int64{-1, -1, 24_000}, "Queue q may use at most 24 devices and uses 0; this needs 32.", "队列 q 最多可用 24 张加速卡，已用 0；该任务需要 32。", "--limit devices=32", 8},
		{[]int64{-1, -1, -1, 2_000}, "Queue q may use at most 2 A100 and uses 0; this needs 4.", "队列 q 最多可用 2 张 A100，已用 0；该任务需要 4。", "--limit A100=4", 1},
		{[]int64{500, -1, -1}, "Queue q may use at most 0.5 cores and uses 0; this needs 1.", "队列 q 最多可用 0.5 核 CPU，已用 0；该任务需要 1。", "--limit cpu=1", 1},
		{[]int64{-1, 1 << 29, -1}, "Queue q may use at most 0.5 GiB of memory and uses 0; this needs 1.", "队列 q 最多可用 0.5 GiB 内存，已用 0；该任务需要 1。", "--limit memory=1", 1},
	} {
		s := newStage(t, 8, 4)
		s.queues(fair.Queue{Name: "q", Limit: c.limit})
		x := s.task("x", 1, c.replicas, 4)
		x.Roles[0].Need.CPU, x.Roles[0].Need.Memory, x.Roles[0].Need.DeviceType = 1000, 1<<30, "A100"
		s.q.Add(x)
		ex, _ := sched.Explain(s.now, s.c, s.q, "x", api.HighestPriority)
		if ex.Reason != advice.ReasonQueueLimit || ex.Message.EN != c.en || ex.Message.ZH != c.zh || !strings.Contains(ex.Action.EN, c.action) {
			t.Errorf("%s\n%+v", c.en, ex)
		}
	}
}
