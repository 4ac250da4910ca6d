package blame

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// unit is three launchers of one rank each, in generation 4.
func unit() *gang.Unit {
	u := &gang.Unit{Terms: gang.Terms{Task: &api.TrainingTask{}}, Generation: 4, Rendezvous: &api.Rendezvous{}, World: 3}
	for i := range 3 {
		m := gang.Member{Name: engine.Name("w" + string(rune('0'+i))), Role: "worker", Index: i, Ranking: gang.Ranking{Ranks: 1, First: i}, State: engine.StateRunning, Attached: true}
		m.Said.Generation = 4
		u.Members = append(u.Members, m)
	}
	return u
}

func died(rank int, cause string, ago time.Duration) *link.RankExit {
	return &link.RankExit{Rank: rank, Code: 1, Reason: engine.ReasonNonZero, At: now.Add(-ago), Diagnosis: engine.Diagnosis{Cause: cause}}
}

// TestTheCulpritIsNamed: not the first that died of it; one who died of another is only blamed when nobody else comes.
func TestTheCulpritIsNamed(t *testing.T) {
	u := unit()
	u.Members[0].Said.Failed = died(0, "peer-lost", 100*time.Millisecond)
	if f, wait := OfRank(u, nil, now); f != nil || wait != victimGrace-100*time.Millisecond {
		t.Errorf("%+v, wait %s", f, wait)
	}
	u.Members[2].Said.Failed = died(2, "python-error", 0)
	if f, _ := OfRank(u, nil, now); f == nil || *f.Rank != 2 || f.Generation != 4 {
		t.Errorf("%+v", f)
	}
	u.Members[2].Said.Failed = nil
	if f, wait := OfRank(u, nil, now.Add(time.Minute)); f == nil || *f.Rank != 0 || wait != 0 || !IsVictim(f) {
		t.Errorf("%+v, wait %s", f, wait)
	}
	u.Members[0].Said.Generation = 3 // of a generation that is over
	if f, wait := OfRank(u, nil, now); f != nil || wait != 0 {
		t.Errorf("%+v, wait %s", f, wait)
	}
}

// TestALauncherThatIsGoneIsLost: only where it was told to go; one that ended well is none.
func TestALauncherThatIsGoneIsLost(t *testing.T) {
	u := unit()
	u.Members[0].State, u.Members[0].Exit = engine.StateDone, &engine.Exit{Reason: engine.ReasonSucceeded}
	if f := OfReplica(u); f != nil {
		t.Errorf("%+v", f)
	}
	u.Members[1].State = ""
	if f := OfReplica(u); f == nil || f.Reason != engine.ReasonLauncherLost || f.Index != 1 {
		t.Errorf("%+v", f)
	}
	if u.Rendezvous = nil; OfReplica(u) != nil {
		t.Error("one that was not started yet is lost")
	}
}

// TestSilence: all who watch must see it, or it is only told, a process that is stopped needs no witness, and a task that would end of what is only
// printed is spared.
func TestSilence(t *testing.T) {
	silent := func(u *gang.Unit, i int, step int64, state byte) {
		said := &u.Members[i].Said
		said.Watched, said.HungAt, said.SteppedAt = true, now, now.Add(-time.Minute)
		said.Hung = []link.RankState{{Rank: i, Step: step, State: state, Silent: time.Minute}}
	}
	u := unit()
	for i := range u.Members {
		u.Members[i].Said.Watched, u.Members[i].Said.SteppedAt = true, now.Add(-time.Minute)
	}
	silent(u, 0, 7, 'S')
	if h := OfSilence(u, nil, 1, now); h != (Hang{Wait: aloneAfter}) {
		t.Errorf("one of three: %+v", h)
	}
	if h := OfSilence(u, nil, 1, now.Add(aloneAfter)); h.Failure != nil || h.Alone == nil || h.Alone.Rank != 0 || h.Alone.Step != 7 {
		t.Errorf("one of three, for a minute: %+v", h)
	}
	silent(u, 1, 5, 'S')
	silent(u, 2, 7, 'S')
	h := OfSilence(u, nil, 1, now)
	if h.Failure == nil || *h.Failure.Rank != 1 || h.Failure.Step != 5 {
		t.Fatalf("%+v", h)
	}
	if again := OfSilence(unit(), h.Failure, 1, now); again.Failure != h.Failure {
		t.Error("what is known is judged again")
	}
	for i := range u.Members {
		u.Members[i].Said.Printed = true
	}
	if h := OfSilence(u, nil, 0, now); h.Failure != nil || !h.Spared {
		t.Errorf("%+v", h)
	}
	silent(u, 2, 7, 'T')
	if h := OfSilence(u, nil, 0, now); h.Failure == nil || *h.Failure.Rank != 2 {
		t.Errorf("%+v", h)
	}
}

// TestTrouble: the smallest place that had two faults of machines, in two generations; what was planned counts for nothing.
func TestTrouble(t *testing.T) {
	at := func(generation int, node, rack, cause string) api.PastFault {
		return api.PastFault{At: now, Generation: generation, Node: node, Rack: rack, Leaf: "l", Zone: "z", Cause: cause}
	}
	machine := "device-lost"
	for want, l := range map[string]Past{
		"":     {at(1, "a", "r", machine)},
		"node": {at(1, "a", "r", machine), at(2, "a", "r", machine)},
		"rack": {at(1, "a", "r", machine), at(2, "b", "r", machine)},
		"leaf": {at(1, "a", "r", machine), at(2, "b", "s", machine)},
	} {
		if kind, _ := l.Troubled(); kind != want {
			t.Errorf("%q instead of %q", kind, want)
		}
	}
	for name, l := range map[string]Past{
		"of the program":     {at(1, "a", "r", machine), at(2, "a", "r", "python-error")},
		"of one generation":  {at(1, "a", "r", machine), at(1, "a", "r", machine)},
		"it was taken down":  {{At: now, Generation: 1, Node: "a", Cause: machine, Planned: true}, at(2, "a", "r", machine)},
		"of another program": {at(1, "a", "r", "python-error"), at(2, "a", "r", machine)},
	} {
		if kind, _ := l.Troubled(); kind != "" {
			t.Errorf("%s: %q", name, kind)
		}
	}
	if got := Recent([]api.PastFault{at(1, "a", "r", machine)}, time.Minute, now.Add(time.Minute)); len(got) != 0 {
		t.Errorf("one that is over counts: %v", got)
	}
	if m := (&gang.Member{Stand: gang.Stand{Node: "c", Rack: "r", Leaf: "l", Zone: "z"}}); !InTrouble(&api.TrainingTaskStatus{Faults: []api.PastFault{at(1, "a", "r", machine), at(2, "b", "r", machine)}}, m) {
		t.Error("a node of the rack")
	}
}
