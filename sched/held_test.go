package sched_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
	"github.com/fermi-cluster/fermi/sched/fair"
)

// typed is a stage of two nodes with four A100 and, if wanted, one with four V100, whose queue may have so many A100, and V100 where v is not negative.
func typed(t *testing.T, other bool, a, v int64) *stage {
	s := newStage(t, 2, 4)
	if other {
		n := s.node(3)
		n.Devices = []string{"V100", "V100", "V100", "V100"}
		s.set(n)
	}
	limit := []int64{-1, -1, -1, a * sched.WholeDevice}
	if v >= 0 {
		limit = append(limit, v*sched.WholeDevice)
	}
	s.queues(fair.Queue{Name: "all", Limit: limit}, fair.Queue{Name: "q", Parent: "all"})
	s.p.NoPreemption = true
	return s
}

// on says which nodes a decision uses.
func on(res sched.Result) (out []uint32) {
	for _, d := range res.Decisions {
		for _, slots := range d.At {
			for _, slot := range slots {
				out = append(out, slot.Node)
			}
		}
	}
	return out
}

// A limit of a type holds for who names none, or several: it stands on types that have room, and what it takes is counted by what it got.
func TestTypeLimitsHoldForAnyType(t *testing.T) {
	for name, types := range map[string][]string{"any": nil, "several": {"A100", "V100"}} {
		s := typed(t, true, 2, -1)
		task := func(id string, devices int) *sched.Workload {
			w := s.task(id, 1, 1, devices)
			w.Roles[0].Need.DeviceTypes = types
			return w
		}
		s.q.Add(task("a", 4))
		if got := on(s.starts("a")); len(got) != 1 || got[0] != 3 {
			t.Fatalf("%s: four devices went to %v, past the limit of two A100", name, got)
		}
		s.q.Add(task("b", 4))
		s.starts()
		if ex, ok := sched.Explain(s.now, s.c, s.q, "b", 10_000); !ok || ex.Reason == advice.ReasonScheduling || ex.Reason == advice.ReasonReserved || ex.Impossible {
			t.Errorf("%s: %+v", name, ex)
		}
		s.q.Add(task("c", 2))
		if got := on(s.starts("c")); len(got) != 1 || got[0] == 3 {
			t.Fatalf("%s: %v", name, got)
		}
		d := s.task("d", 1, 1, 1)
		d.Roles[0].Need.DeviceType = "A100"
		s.q.Add(d)
		s.starts()
		if ex, ok := sched.Explain(s.now, s.c, s.q, "d", 10_000); !ok || ex.Reason != advice.ReasonQueueLimit || !strings.Contains(ex.Message.EN, "at most 2 A100 and uses 2; this needs 1") {
			t.Errorf("%s: %+v", name, ex)
		}
		s.end("c")
		s.starts("d")
		s.end("a")
		s.starts("b")
	}
}

// Who could stand only on types of which its queue may not have enough is refused at once, whichever way it names them.
func TestTypeLimitsRefuseAnyType(t *testing.T) {
	for name, c := range map[string]struct {
		other bool
		types []string
		v     int64
		field advice.Wrong
	}{
		"any, and there is one type":     {false, nil, -1, advice.WrongQueue},
		"any, and all are limited":       {true, nil, 2, advice.WrongQueue},
		"several, and all are limited":   {true, []string{"V100", "A100"}, 3, advice.WrongQueue},
		"several, and one is not":        {true, []string{"A100", "V100"}, -1, ""},
		"any, and one is not":            {true, nil, -1, ""},
		"any, and one is limited higher": {true, nil, 4, ""},
	} {
		s := typed(t, c.other, 2, c.v)
		x := s.task("x", 1, 1, 4)
		x.Roles[0].Need.DeviceTypes = c.types
		r, impossible := sched.Impossible(s.c, s.q, x)
		if impossible != (c.field != "") || r.Wrong != c.field {
			t.Errorf("%s: %+v", name, r)
		}
		if impossible && (!strings.Contains(r.Message.EN, "Queue all may use at most") || !strings.Contains(r.Message.EN, "100; this needs 4") || r.Message.ZH == "") {
			t.Errorf("%s: %s", name, r.Message.EN)
		}
		x.Roles[0].Need.Devices = 2
		if r, impossible := sched.Impossible(s.c, s.q, x); impossible {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Two A100 are allowed, and one V100 node is too small for the rest.
	s := typed(t, true, 2, -1)
	x := s.task("x", 1, 2, 4)
	if r, impossible := sched.Impossible(s.c, s.q, x); !impossible {
		t.Errorf("%+v", r)
	}
}

// An elastic gang of any type grows as far as the limit of the type that it stands on.
func TestTypeLimitsHoldGrowth(t *testing.T) {
	s := typed(t, false, 2, -1)
	w := s.task("e", 1, 1, 1)
	w.Roles[0].Min, w.Roles[0].Max = 1, 6
	s.q.Add(w)
	s.starts("e")
	replicas := 1
	for range 20 {
		s.pass(time.Hour)
		for _, r := range s.plan().Resizes {
			replicas = len(r.At[0])
		}
	}
	if replicas != 2 {
		t.Errorf("it stands on %d devices", replicas)
	}
}

// The roles of a gang stand on types at one place of their orders, also where a limit closes a type for one of them only.
func TestTypeLimitsKeepTheOrderOfAllRoles(t *testing.T) {
	s := typed(t, true, 8, 0)
	gang := s.task("g", 1, 1, 2)
	gang.Roles = append(gang.Roles, gang.Roles[0])
	gang.Roles[1].Name = "ps"
	gang.Roles[0].Need.DeviceTypes = []string{"A100", "A100"}
	gang.Roles[1].Need.DeviceTypes = []string{"V100", "A100"} // the queue may have no V100: the second place is left, for both
	s.q.Add(gang)
	if got := on(s.starts("g")); len(got) != 2 || got[0] == 3 || got[1] == 3 {
		t.Fatalf("it stands on %v", got)
	}
	s.end("g")
	gang.Roles[0].Need.DeviceTypes = []string{"A100", "V100"}
	gang.Roles[1].Need.DeviceTypes = []string{"V100", "A100"} // each place has a V100
	s.q.Add(gang)
	s.starts()
}
