package train

import (
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// again is the task in its next generation, in which rank failed.
func again(s snapshot, p plan, failed *link.RankExit) snapshot {
	s = next(s, p)
	for i := range s.Members {
		s.Members[i].Said.Generation, s.Members[i].Said.Failed = int64(p.status.Generation), nil
		s.Members[i].Said.Step += 1000 // it had come further: nothing waits
	}
	s.Members[failed.Rank].Said.Failed = failed
	return s
}

// TestErrorsThatTakeTurns: two errors of the program that come one after the other are each tried once more, no oftener.
func TestErrorsThatTakeTurns(t *testing.T) {
	s := twoRanks(died(0, "python-error", "a", 3, 0))
	p := decide(s, now)
	s = again(s, p, died(0, "python-error", "b", 3, -time.Second))
	p = decide(s, now.Add(time.Second))
	if f := p.status.Failure; f.Action != "restart" || p.status.Generation != 3 {
		t.Fatalf("another error: %+v", f)
	}
	s = again(s, p, died(1, "python-error", "a", 3, -2*time.Second))
	if p := decide(s, now.Add(2*time.Second)); p.status.Failure.Action != "stop" || p.status.Generation != 3 {
		t.Errorf("the first one again: %+v", p.status.Failure)
	}
	s.Members[1].Said.Failed.Step = 4
	if p := decide(s, now.Add(2*time.Second)); p.status.Failure.Action != "restart" {
		t.Errorf("at another step: %+v", p.status.Failure)
	}
	s.Members[1].Said.Failed.Step = 3
	if p := decide(s, now.Add(2*time.Hour)); p.status.Failure.Action != "restart" || len(p.status.Faults) != 1 {
		t.Errorf("outside of the window: %+v, %+v", p.status.Failure, p.status.Faults)
	}
}

// TestTwoFaultsInOnePlace: the smallest place that both were in is avoided; what says nothing of machines does not count.
func TestTwoFaultsInOnePlace(t *testing.T) {
	type place struct{ rack, leaf, zone string }
	for name, c := range map[string]struct {
		first, second place
		causes        [2]string
		want          []string
	}{
		"one rack":           {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"device-lost", "device-lost"}, []string{"rack", "node"}},
		"one leaf":           {place{"r1", "l1", "z1"}, place{"r2", "l1", "z1"}, [2]string{"device-lost", "device-memory-error"}, []string{"leaf", "node"}},
		"one zone":           {place{"r1", "l1", "z1"}, place{"r2", "l2", "z1"}, [2]string{"device-lost", "device-lost"}, []string{"zone", "node"}},
		"racks of one name":  {place{"r1", "l1", "z1"}, place{"r1", "l1", "z2"}, [2]string{"device-lost", "device-lost"}, []string{"node"}},
		"nothing is known":   {place{}, place{}, [2]string{"device-lost", "device-lost"}, []string{"node"}},
		"a lost launcher":    {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"device-lost", "launcher-lost"}, []string{"rack", "node"}},
		"two lost launchers": {place{"r1", "l1", "z1"}, place{"r2", "l1", "z1"}, [2]string{"launcher-lost", "launcher-lost"}, []string{"leaf", "node"}},
		"the program itself": {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"killed", "killed"}, nil},
		"one by a machine":   {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"killed", "device-lost"}, []string{"node"}},
	} {
		s := twoRanks(died(0, c.causes[0], "f", 3, 0))
		for i, at := range []place{c.first, c.second} {
			s.Members[i].Rack, s.Members[i].Leaf, s.Members[i].Zone = at.rack, at.leaf, at.zone
		}
		s.stay = true // the first time there was no other place
		p := decide(s, now)
		s = again(s, p, died(1, c.causes[1], "g", 5, -time.Second))
		s.stay = false
		p = decide(s, now.Add(time.Second))
		if len(p.swap.kinds) != len(c.want) || len(c.want) > 0 && (p.swap.kinds[0] != c.want[0] || p.swap.node != "n1") {
			t.Errorf("%s: %+v", name, p.swap)
		}
		if told := tells(p, "PlaceAtFault"); told != (len(c.want) > 1) || len(c.want) > 1 && p.status.Reason != "Swapping" {
			t.Errorf("%s: told %v, %s", name, told, p.status.Reason)
		}
	}
}

func tells(p plan, reason string) bool {
	for _, e := range p.events {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

// TestPastFaultsAreBounded in number.
func TestPastFaultsAreBounded(t *testing.T) {
	s := twoRanks()
	p := plan{status: s.Task.Status}
	for i := range 2 * api.MaxPastFaults {
		p.status.Generation = i
		answer{&s, mainOf(&s.Gang, &p), &p, now}.remember(&api.ReplicaFailure{Node: "n0"})
	}
	if len(p.status.Faults) != api.MaxPastFaults || p.status.Faults[0].Generation != api.MaxPastFaults {
		t.Errorf("%d", len(p.status.Faults))
	}
}

// lostTwice is a task of two whose first launcher was lost in generation 1, and whose second is now.
func lostTwice(change func(first, second *gang.Member)) (s snapshot, p plan) {
	s = twoRanks()
	for i := range s.Members {
		s.Members[i].Rack, s.Members[i].Leaf, s.Members[i].Zone = "r1", "l1", "z1"
	}
	change(&s.Members[0], &s.Members[1])
	lose := func(s *snapshot, i int) plan {
		attempt := s.Task.Status.Attempt
		for k := range s.Members {
			m := &s.Members[k]
			m.Name, m.Attempt, m.State, m.Exit = engine.NameOf("task-1", "worker", k, attempt), attempt, engine.StateDone, exit(engine.ReasonStopped, 143)
		}
		s.Members[i].Exit = exit(engine.ReasonLauncherLost, -1)
		return decide(*s, now)
	}
	p = lose(&s, 0)
	s = next(s, p)
	s.Task.Status.Generation, s.Task.Status.Rendezvous = 2, &api.Rendezvous{World: 2}
	p = lose(&s, 1)
	return s, p
}

// TestTwoLostNodes: the next generation avoids the place of two lost launchers, and where there is no other that is
// said; a node that somebody works on is no fault, nor is a task that is stopped.
func TestTwoLostNodes(t *testing.T) {
	s, p := lostTwice(func(_, _ *gang.Member) {})
	if p.swap.node != "n1" || !slices.Equal(p.swap.kinds, []string{"rack", "node"}) || !tells(p, "PlaceAtFault") || !strings.Contains(p.status.Message.EN, "rack z1/r1") || p.status.Attempt != 2 {
		t.Errorf("%+v, %+v", p.swap, p.status)
	}
	s.stay = true
	if p := decide(s, now); p.swap.node != "" || p.status.Attempt != 3 || !tells(p, "PlaceKept") {
		t.Errorf("no other place: %+v, %+v", p.swap, p.events)
	}
	for name, change := range map[string]func(first, second *gang.Member){
		"the first was cordoned":  func(first, _ *gang.Member) { first.Closed = true },
		"the second was cordoned": func(_, second *gang.Member) { second.Closed = true },
		"in other places":         func(_, second *gang.Member) { second.Rack, second.Leaf, second.Zone = "r9", "l9", "z9" },
	} {
		if _, p := lostTwice(change); p.swap.node != "" || tells(p, "PlaceAtFault") || p.status.Attempt != 3 || len(p.status.Faults) != 2 {
			t.Errorf("%s: %+v, %+v", name, p.swap, p.status)
		}
	}
	s, _ = lostTwice(func(_, _ *gang.Member) {})
	s.Task.Spec.Stop = true
	if p := decide(s, now); p.swap.node != "" || len(p.status.Faults) != 1 || p.status.Phase != api.PhaseStopped {
		t.Errorf("stopped: %+v, %+v", p.swap, p.status)
	}
}

// TestReplacedOutside: the replica that an elastic task lost as the second of a rack gets a slot outside of it, not its
// own again.
func TestReplacedOutside(t *testing.T) {
	for name, c := range map[string]struct {
		rack string
		want string
	}{"the same rack": {"r1", "rack"}, "another zone": {"", ""}} {
		s := lostOne(0, true)
		s.Members[1].Zone, s.Members[1].Leaf, s.Members[1].Rack = "z1", "l1", "r1"
		s.Task.Status.Generation = 2
		for i := range s.Members {
			s.Members[i].Said.Generation = 2
		}
		s.Task.Status.Faults = []api.PastFault{{At: now, Generation: 1, Node: "n9", Zone: "z" + c.rack, Rack: c.rack, Cause: "launcher-lost"}}
		if c.rack != "" {
			s.Task.Status.Faults[0].Zone = "z1"
		}
		p := decide(s, now)
		if p.resize == nil || p.resize.Lost.Around != c.want || tells(p, "PlaceAtFault") != (c.want != "") || len(p.status.Faults) != 2 {
			t.Fatalf("%s: %+v, %+v", name, p.resize, p.events)
		}
		if again := len(p.resize.Roles[0].Slots) == 3; again != (c.want == "") || c.want != "" && (p.resize.Lost.Of != 2 || p.resize.Lost.Roles["worker"] != 1) {
			t.Errorf("%s: %+v, %+v", name, p.resize.Roles, p.resize.Lost)
		}
	}
}

// TestSpareOutside: of two spares the one outside of a place with two faults is taken, though the other comes first; where
// only that one is there, it is taken, and that is said.
func TestSpareOutside(t *testing.T) {
	for name, c := range map[string]struct {
		racks [2]string // of the spares
		taken int
		kept  bool
	}{"one outside": {[2]string{"r1", "r2"}, 4, false}, "both inside": {[2]string{"r1", "r1"}, 3, true}} {
		g := watched(engine.StateRunning)
		g.tk.Spec.Roles[0].Spares = 2
		g.pl.Spec.Roles = slotsOn(1, 2, 4, 5, 7)
		more := *g.worker(3)
		more.Name, more.Index, more.Node = engine.NameOf("task-1", "worker", 4, 1), 4, "n4"
		g.world[more.Name] = &more
		for _, m := range g.world {
			m.Zone, m.Leaf, m.Rack = "z1", "l1", "r1"
			if m.Index > 2 {
				m.Rack = c.racks[m.Index-3]
			}
		}
		g.tk.Status.Generation = 2
		for i := range 3 {
			g.worker(i).Said.Generation = 2
		}
		s := g.look()
		g.tk.Status.Rendezvous.Members = s.Members.Hash()
		g.tk.Status.Faults = []api.PastFault{{At: now, Generation: 1, Node: "n9", Zone: "z1", Leaf: "l1", Rack: "r1", Cause: "device-lost"}}
		g.worker(1).Said.Failed = died(1, "device-lost", "f", 3, 0)
		p := g.step()
		if !slices.Equal(p.status.Rendezvous.Vacant, []int{1}) || !tells(p, "PlaceAtFault") {
			t.Fatalf("%s: %+v, %+v", name, p.status, p.events)
		}
		g.worker(1).Said.Frozen = true
		p = g.step()
		if r := p.status.Rendezvous; p.status.Generation != 3 || !slices.Equal(r.Stead, []api.Seat{{Index: c.taken, Place: 1}}) || tells(p, "PlaceKept") != c.kept {
			t.Errorf("%s: %+v, %+v", name, r, p.events)
		}
	}
}
