package sched_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// wrongs reaches everything that can be wrong with a wish, on two nodes of four A100 each.
var wrongs = map[advice.Wrong]func(s *stage, x *sched.Workload){
	advice.WrongZones: func(_ *stage, x *sched.Workload) { x.Deny = []string{"z"} },
	advice.WrongQueue: func(s *stage, x *sched.Workload) {
		s.queues(fair.Queue{Name: "all", Limit: []int64{-1, -1, 3000}}, fair.Queue{Name: "q", Parent: "all"})
		x.Roles[0].Need.Devices = 4
	},
	advice.WrongTopology: func(_ *stage, x *sched.Workload) { x.Roles[0].Replicas, x.Topology.MaxPerRack = 5, 1 },
	advice.WrongSplit: func(_ *stage, x *sched.Workload) {
		x.Roles[0].Replicas, x.Split = 2, where.Split{"z": where.Exactly(1), "nowhere": where.Exactly(1)}
	},
	advice.WrongLatency: func(s *stage, x *sched.Workload) {
		s.regions(30 * time.Millisecond)
		x.Roles[0].Replicas, x.Roles[0].Need.Devices = 3, 4
	},
	advice.WrongRegion: func(s *stage, x *sched.Workload) {
		s.regions(time.Millisecond)
		x.Roles[0].Replicas, x.Roles[0].Need.Devices, x.OneRegion = 3, 4, true
	},
	advice.WrongSurvive: func(_ *stage, x *sched.Workload) { x.Roles[0].Replicas, x.Survive = 2, true },
	advice.WrongSpot:    func(_ *stage, x *sched.Workload) { x.Roles[0].Need.Spot = spot.Only },
	advice.WrongType:    func(_ *stage, x *sched.Workload) { x.Roles[0].Need.DeviceType = "H800" },
	advice.WrongDevices: func(_ *stage, x *sched.Workload) { x.Roles[0].Need.Devices = 16 },
	advice.WrongShare: func(s *stage, x *sched.Workload) {
		for _, number := range []uint32{1, 2} {
			n := s.node(number)
			n.WholeOnly = true
			s.set(n)
		}
		x.Roles[0].Need.Devices, x.Roles[0].Need.Share = 1, 500
	},
	advice.WrongCPU:    func(_ *stage, x *sched.Workload) { x.Roles[0].Need.CPU = 1 << 40 },
	advice.WrongMemory: func(_ *stage, x *sched.Workload) { x.Roles[0].Need.Memory = 1 << 60 },
	advice.WrongDisk: func(s *stage, x *sched.Workload) {
		for i := range 2 {
			n := s.node(uint32(i + 1))
			n.Disk = 1 << 30
			s.set(n)
		}
		x.Roles[0].Need.Disk = 2 << 30
	},
	advice.WrongTogether: func(s *stage, x *sched.Workload) {
		cores, bytes := s.node(1), s.node(2)
		cores.Memory, bytes.CPU = 1<<20, 1
		s.set(cores)
		s.set(bytes)
		x.Roles[0].Need.CPU, x.Roles[0].Need.Memory = 1000, 1<<30
	},
	advice.WrongReplicas: func(_ *stage, x *sched.Workload) { x.Roles[0].Replicas, x.Roles[0].Need.Devices = 3, 4 },
}

func TestImpossible(t *testing.T) {
	for _, row := range advice.Wrongs {
		t.Run(string(row.Wrong), func(t *testing.T) {
			change, ok := wrongs[row.Wrong]
			if !ok {
				t.Fatal("no test reaches it")
			}
			s := newStage(t, 2, 4)
			x := s.task("x", 1, 1, 1)
			if r, impossible := sched.Impossible(s.c, s.q, x); impossible {
				t.Fatalf("too early: %+v", r)
			}
			change(s, x)
			for _, n := range []uint32{1, 2} { // what is closed or used makes nothing impossible
				s.stand(fmt.Sprint("other", n), n, 1)
			}
			r, impossible := sched.Impossible(s.c, s.q, x)
			if !impossible || r.Wrong != row.Wrong || r.Field() != strings.Replace(row.Field, "[]", "[0]", 1) {
				t.Fatalf("impossible %t: %+v", impossible, r)
			}
			for _, text := range []string{r.Message.EN, r.Message.ZH, r.Hint.EN, r.Hint.ZH} {
				if text == "" || strings.Contains(text, "%!") {
					t.Errorf("%q in %+v", text, r)
				}
			}
		})
	}
	if len(wrongs) != len(advice.Wrongs) {
		t.Error("the list is not whole:", len(wrongs), len(advice.Wrongs))
	}
}

// TestImpossibleSaysWhatIsRight: the words of the most common mistake.
func TestImpossibleSaysWhatIsRight(t *testing.T) {
	s := newStage(t, 2, 4)
	x := s.task("x", 1, 1, 16)
	x.Roles[0].Need.DeviceType = "a100"
	r, _ := sched.Impossible(s.c, s.q, x)
	if r.Message.EN != "No node that it may use has 16 × a100; the largest has 4." || r.Message.ZH != "可用的节点中没有一个有 16 × a100；最多的有 4。" {
		t.Errorf("%+v", r.Message)
	}
	x = s.task("x", 1, 3, 4)
	if r, _ = sched.Impossible(s.c, s.q, x); !strings.Contains(r.Hint.EN, "at most 2 replicas") {
		t.Errorf("%+v", r)
	}
}

// TestNotImpossible: what is only so now waits with its reason.
func TestNotImpossible(t *testing.T) {
	possible := func(name string, s *stage, x *sched.Workload, reason string) {
		t.Helper()
		if r, impossible := sched.Impossible(s.c, s.q, x); impossible {
			t.Errorf("%s: refused: %+v", name, r)
		}
		s.q.Add(x)
		if ex, _ := sched.Explain(s.now, s.c, s.q, "x", 10_000); ex.Reason != reason || ex.Impossible {
			t.Errorf("%s: %+v", name, ex)
		}
	}
	s := newStage(t, 2, 4)
	s.close(1)
	s.close(2)
	possible("closed", s, s.task("x", 1, 2, 4), advice.ReasonClosed)

	s = newStage(t, 2, 4)
	s.q.SetPaused("q", true)
	possible("paused", s, s.task("x", 1, 2, 4), advice.ReasonQueuePaused)

	s = newStage(t, 0, 0)
	x := s.task("x", 1, 1, 1)
	x.Allow = []string{"z9"}
	possible("no node is known yet", s, x, advice.ReasonNoNodes)

	s = newStage(t, 2, 4)
	s.c.SetHost(sched.Host{Name: "h", Processes: 3})
	for i := range 2 {
		n := s.node(uint32(i + 1))
		n.Host = "h"
		s.set(n)
	}
	possible("a small machine behind virtual nodes", s, s.task("x", 1, 5, 1), advice.ReasonProcessLimit)
}

// TestLatencyHoles: of a table with holes either direction does; where there is neither, zones of one
// region count as near and others as far.
func TestLatencyHoles(t *testing.T) {
	for name, tc := range map[string]struct {
		z, other sched.Zone
		together bool
	}{
		"none, one region":  {sched.Zone{Region: "north"}, sched.Zone{Region: "north"}, true},
		"none, two regions": {sched.Zone{Region: "north"}, sched.Zone{Region: "south"}, false},
		"one way, near":     {sched.Zone{Region: "north", Latency: map[string]time.Duration{"other": time.Millisecond}}, sched.Zone{Region: "south"}, true},
		"other way, far":    {sched.Zone{Region: "north"}, sched.Zone{Region: "north", Latency: map[string]time.Duration{"z": 40 * time.Millisecond}}, false},
	} {
		s := newStage(t, 1, 4)
		n := s.node(2)
		n.Zone = "other"
		s.set(n)
		tc.z.Name, tc.other.Name = "z", "other"
		s.c.SetZone(tc.z)
		s.c.SetZone(tc.other)
		x := s.task("x", 1, 2, 4) // one replica in each zone
		if r, impossible := sched.Impossible(s.c, s.q, x); impossible == tc.together {
			t.Errorf("%s: impossible %t: %+v", name, impossible, r)
		}
		s.q.Add(x)
		if started := len(s.plan().Decisions) == 1; started != tc.together {
			t.Errorf("%s: started %t", name, started)
		}
	}
}

// TestClockGoesBack: for the planner time stands still until the clock has caught up; nothing is
// charged, aged or predicted backwards.
func TestClockGoesBack(t *testing.T) {
	s := newStage(t, 1, 4)
	s.p.NoPreemption = true
	s.run("a", 1, 1, 4)
	s.q.Add(s.task("b", 1, 1, 4))
	s.pass(time.Hour)
	s.plan()
	late := s.now
	s.pass(-2 * time.Hour)
	if res := s.plan(); len(res.Decisions)+len(res.Evictions) != 0 || !res.Wake.IsZero() && res.Wake.Before(late) {
		t.Errorf("%+v", res)
	}
	if ex, ok := sched.Explain(s.now, s.c, s.q, "b", 10_000); !ok || ex.Reason != advice.ReasonDevicesBusy || !ex.Start.IsZero() && ex.Start.Before(late) {
		t.Errorf("%+v", ex)
	}
	s.end("a")
	if got := s.q.Usage("q"); got[sched.VectorDevices] != 0 {
		t.Errorf("%v are left", got)
	}
	s.starts("b")
}

// Parts of devices go only where something holds a process to its part: in a mixed cluster to the virtual node.
func TestSharesAvoidRealCards(t *testing.T) {
	s := newStage(t, 2, 4)
	n := s.node(1)
	n.WholeOnly = true
	s.set(n)
	for i := range 20 {
		w := s.task(fmt.Sprintf("s%02d", i), 1, 1, 1)
		w.Roles[0].Need.Share = 500
		s.q.Add(w)
	}
	started := s.plan().Decisions
	if len(started) != 8 {
		t.Errorf("%d halves on four virtual cards", len(started))
	}
	for _, d := range started {
		if d.At[0][0].Node != 2 {
			t.Errorf("%s stands on a real card", d.Workload.ID)
		}
	}
	whole := s.task("whole", 1, 1, 4)
	s.q.Add(whole)
	s.starts("whole")
}
