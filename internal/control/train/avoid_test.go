package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
)

// again is the task in its next generation, in which rank failed.
func again(s seen, p plan, failed *link.RankExit) seen {
	s = next(s, p)
	for i := range s.members {
		s.members[i].said.Generation, s.members[i].said.Failed = int64(p.status.Generation), nil
		s.members[i].said.Step += 1000 // it had come further: nothing waits
	}
	s.members[failed.Rank].said.Failed = failed
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
	s.members[1].said.Failed.Step = 4
	if p := decide(s, now.Add(2*time.Second)); p.status.Failure.Action != "restart" {
		t.Errorf("at another step: %+v", p.status.Failure)
	}
	s.members[1].said.Failed.Step = 3
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
		"a lost launcher":    {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"device-lost", "launcher-lost"}, nil},
		"the program itself": {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"killed", "killed"}, nil},
		"one by a machine":   {place{"r1", "l1", "z1"}, place{"r1", "l1", "z1"}, [2]string{"killed", "device-lost"}, []string{"node"}},
	} {
		s := twoRanks(died(0, c.causes[0], "f", 3, 0))
		for i, at := range []place{c.first, c.second} {
			s.members[i].rack, s.members[i].leaf, s.members[i].zone = at.rack, at.leaf, at.zone
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
		if e.reason == reason {
			return true
		}
	}
	return false
}

// TestPastFaultsAreBounded in number.
func TestPastFaultsAreBounded(t *testing.T) {
	s := twoRanks()
	p := plan{status: s.task.Status}
	for i := range 2 * api.MaxPastFaults {
		p.status.Generation = i
		s.remember(&p, now, &api.ReplicaFailure{Node: "n0"})
	}
	if len(p.status.Faults) != api.MaxPastFaults || p.status.Faults[0].Generation != api.MaxPastFaults {
		t.Errorf("%d", len(p.status.Faults))
	}
}
