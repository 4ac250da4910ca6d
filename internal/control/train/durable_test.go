package train

import (
	"slices"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/control/save"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// past are the checkpoints of the played task, newest first.
func past() (list []api.CheckpointOrigin) {
	for step := int64(3); step > 0; step-- {
		list = append(list, api.CheckpointOrigin{TaskID: "task-1", Name: "0000000000000000001-000000000000000000" + itoa(int(step)), Step: step})
	}
	return list
}

// unrefused are the checkpoints that no member refused.
func unrefused(s *snapshot) []api.CheckpointOrigin {
	return slices.DeleteFunc(past(), func(o api.CheckpointOrigin) bool {
		return s.Task.Spec.Restore.Abandons(o.Name) || slices.ContainsFunc(s.Members, func(m gang.Member) bool { return m.Said.Refused != nil && m.Said.Refused.Name == o.Name })
	})
}

func gathered(origins []api.CheckpointOrigin) snapshot {
	s := snapshot{Gang: gang.Gang{Terms: gang.Terms{Task: task(api.PhaseInitializing, 2, 1), Placement: placed()}}, origins: save.Origins{List: origins}}
	s.Task.Status.Rendezvous = nil
	s.Members = gang.Members{at(0, 2, engine.StateCreated, true, nil), at(1, 2, engine.StateCreated, true, nil)}
	s.Rank()
	return s
}

func TestANewAttemptBeginsFromTheNewestCheckpoint(t *testing.T) {
	p := decide(gathered(past()), now)
	r := p.status.Rendezvous
	if r == nil || r.Restore != 3 || r.Origin == nil || r.Origin.Step != 3 || len(p.goAhead) != 2 {
		t.Fatalf("%+v", r)
	}
	s := gathered(past())
	if g := s.orderFor(0, &p.status, false); g.Origin == nil || g.Origin.Name != r.Origin.Name || g.Restore != 3 {
		t.Errorf("%+v", g)
	}
}

func TestMemoryIsNearerThanACheckpoint(t *testing.T) {
	s := gathered(past())
	for i := range s.Members {
		s.Members[i].Said.Held = []int64{7}
	}
	if r := decide(s, now).status.Rendezvous; r == nil || r.Restore != 7 || r.Origin != nil {
		t.Errorf("%+v", r)
	}
}

func TestAStoreThatIsAwayIsNoReasonToBeginAnew(t *testing.T) {
	s := gathered(nil)
	s.origins.Away = true
	p := decide(s, now)
	if p.status.Rendezvous != nil || p.status.Reason != "CheckpointsAway" || p.wake == 0 {
		t.Errorf("%+v", p.status)
	}
}

// TestARefusedCheckpointIsFollowedByTheNextOlder: whoever can't restore says so, and nobody's restart is spent.
func TestARefusedCheckpointIsFollowedByTheNextOlder(t *testing.T) {
	s := gathered(past())
	s.Task.Status = decide(s, now).status
	for _, want := range []int64{2, 1, 0} {
		r := s.Task.Status.Rendezvous
		s.Members[1].Said.Refused = &link.Origin{TaskID: r.Origin.TaskID, Name: r.Origin.Name}
		s.origins.List = slices.DeleteFunc(s.origins.List, func(o api.CheckpointOrigin) bool { return o.Name == r.Origin.Name })
		p := decide(s, now)
		if got := p.status.Rendezvous; p.status.Generation != s.Task.Status.Generation+1 || got.Restore != want || (got.Origin == nil) != (want == 0) || len(p.status.Restarts) > 0 {
			t.Fatalf("%d: %+v", want, got)
		}
		s.Task.Status = p.status
	}
	if p := decide(s, now); p.status.Generation != s.Task.Status.Generation {
		t.Error("a refusal of what is not asked for any more counts")
	}
}
