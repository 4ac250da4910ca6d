package train

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestRestoredFrom: only where all launchers of the generation read the checkpoint from the same tier was it read whole.
func TestRestoredFrom(t *testing.T) {
	restored := func() *seen {
		s := gathered(nil)
		s.task.Status.Rendezvous = &api.Rendezvous{World: 2, Origin: &api.CheckpointOrigin{TaskID: "task-1", Name: "x", Step: 5}}
		for i := range s.members {
			s.members[i].said.Generation, s.members[i].said.Restored, s.members[i].said.RestoredAt = 2, link.TierShared, now.Add(time.Duration(-i)*time.Second)
		}
		return &s
	}
	s := restored()
	if tier, at := s.restoredFrom(2); tier != link.TierShared || !at.Equal(now.Add(-time.Second)) {
		t.Error(tier, at)
	}
	for name, change := range map[string]func(s *seen){
		"from memory":  func(s *seen) { s.task.Status.Rendezvous.Origin = nil },
		"another tier": func(s *seen) { s.members[1].said.Restored = link.TierLocal },
		"several":      func(s *seen) { s.members[0].said.Restored = "" },
		"not yet":      func(s *seen) { s.members[1].said.Generation = 1 },
		"files":        func(s *seen) { s.task.Spec.Checkpoint = &api.Checkpoints{Folder: "ckpt"} },
	} {
		s := restored()
		change(s)
		if tier, _ := s.restoredFrom(2); tier != "" {
			t.Error(name, tier)
		}
	}
}
