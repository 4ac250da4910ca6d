package train

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// past are the checkpoints of the played task, newest first.
func past() []api.CheckpointOrigin {
	k := &checkpoints{}
	for step := int64(1); step <= 3; step++ {
		k.add("task-1", "0000000000000000001-000000000000000000"+itoa(int(step)), step)
	}
	return k.list
}

// unrefused are the checkpoints that no member refused.
func unrefused(s *seen) []api.CheckpointOrigin {
	return slices.DeleteFunc(past(), func(o api.CheckpointOrigin) bool {
		return s.task.Spec.Restore.Abandons(o.Name) || slices.ContainsFunc(s.members, func(m member) bool { return m.said.Refused != nil && m.said.Refused.Name == o.Name })
	})
}

func gathered(origins []api.CheckpointOrigin) seen {
	s := seen{task: task(api.PhaseInitializing, 2, 1), placement: placed(), origins: origins}
	s.task.Status.Rendezvous = nil
	s.members = []member{at(0, 2, engine.StateCreated, true, nil), at(1, 2, engine.StateCreated, true, nil)}
	s.table()
	return s
}

func TestANewAttemptBeginsFromTheNewestCheckpoint(t *testing.T) {
	p := decide(gathered(past()), now)
	r := p.status.Rendezvous
	if r == nil || r.Restore != 3 || r.Origin == nil || r.Origin.Step != 3 || len(p.goAhead) != 2 {
		t.Fatalf("%+v", r)
	}
	s := gathered(past())
	if g := s.orderFor(0, p.status, false); g.Origin == nil || g.Origin.Name != r.Origin.Name || g.Restore != 3 {
		t.Errorf("%+v", g)
	}
}

func TestMemoryIsNearerThanACheckpoint(t *testing.T) {
	s := gathered(past())
	for i := range s.members {
		s.members[i].said.Held = []int64{7}
	}
	if r := decide(s, now).status.Rendezvous; r == nil || r.Restore != 7 || r.Origin != nil {
		t.Errorf("%+v", r)
	}
}

func TestAStoreThatIsAwayIsNoReasonToBeginAnew(t *testing.T) {
	s := gathered(nil)
	s.unread = true
	p := decide(s, now)
	if p.status.Rendezvous != nil || p.status.Reason != "CheckpointsAway" || p.wake == 0 {
		t.Errorf("%+v", p.status)
	}
}

// TestARefusedCheckpointIsFollowedByTheNextOlder: whoever can't restore says so, and nobody's restart is spent.
func TestARefusedCheckpointIsFollowedByTheNextOlder(t *testing.T) {
	s := gathered(past())
	s.task.Status = decide(s, now).status
	for _, want := range []int64{2, 1, 0} {
		r := s.task.Status.Rendezvous
		s.members[1].said.Refused = &link.Origin{TaskID: r.Origin.TaskID, Name: r.Origin.Name}
		s.origins = slices.DeleteFunc(s.origins, func(o api.CheckpointOrigin) bool { return o.Name == r.Origin.Name })
		p := decide(s, now)
		if got := p.status.Rendezvous; p.status.Generation != s.task.Status.Generation+1 || got.Restore != want || (got.Origin == nil) != (want == 0) || len(p.status.Restarts) > 0 {
			t.Fatalf("%d: %+v", want, got)
		}
		s.task.Status = p.status
	}
	if p := decide(s, now); p.status.Generation != s.task.Status.Generation {
		t.Error("a refusal of what is not asked for any more counts")
	}
}

func persistedSeen(steps ...int64) *seen {
	s := gathered(nil)
	s.task.Status.Rendezvous = &api.Rendezvous{World: 2}
	for i, step := range steps {
		parts := `[{"rank":` + itoa(i) + `,"key":"parts/00/a-` + itoa(i) + `","bytes":1,"hash":"` + hash0 + `","lease":"a","size":1,"new":1}]`
		s.members[i].said.Persisted = []link.Persisted{{Tier: link.TierLocal, Generation: 2, Step: step, Parts: []byte(parts)}}
	}
	return &s
}

const hash0 = "0000000000000000000000000000000000000000000000000000000000000000"

func TestACheckpointNeedsEveryLauncher(t *testing.T) {
	v := newSaving(2, 0, now)
	if _, ok := persistedSeen(5).proposal(link.TierLocal, v); ok {
		t.Error("one of two")
	}
	if _, ok := persistedSeen(5, 6).proposal(link.TierLocal, v); ok {
		t.Error("two steps")
	}
	s := persistedSeen(5, 5)
	s.members[0].said.Persisted[0].Metrics = map[string]float64{"loss": 0.5}
	p, ok := s.proposal(link.TierLocal, v)
	if !ok || p.Step != 5 || p.Generation != 2 || len(p.Parts) != 2 || p.Metrics["loss"] != 0.5 {
		t.Fatalf("%v %+v", ok, p)
	}
	if _, ok := s.proposal(link.TierLocal, newSaving(3, 0, now)); ok {
		t.Error("of an older generation")
	}
	v.settle(outcome{link.Committed{Tier: link.TierLocal, Generation: 2, Step: 5}, nil}, now)
	if _, ok := s.proposal(link.TierLocal, v); ok {
		t.Error("it is committed already")
	}
	s.members[0].said.Persisted[0].Parts = []byte(`[{"rank":0,"what":1}]`)
	if _, ok := s.proposal(link.TierLocal, newSaving(2, 0, now)); ok {
		t.Error("what is not understood is no part")
	}
}

func TestOriginsAreSortedAndBounded(t *testing.T) {
	k := &checkpoints{}
	for i := range 2 * maxOrigins {
		k.add("t", "0000000000000000001-0000000000000000"+itoa(100+i), int64(100+i))
		k.add("t", "0000000000000000001-0000000000000000"+itoa(100+i), int64(100+i))
	}
	if len(k.list) != maxOrigins || k.list[0].Step != 2*maxOrigins+99 {
		t.Error(len(k.list), k.list[0])
	}
	if d := cmp.Diff(int64(3), past()[0].Step); d != "" {
		t.Error(d)
	}
}
