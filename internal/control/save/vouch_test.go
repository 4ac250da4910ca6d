package save

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestRestoredFrom: only where all launchers of the generation read the checkpoint from the same tier was it read whole.
func TestRestoredFrom(t *testing.T) {
	restored := func() *gang.Gang {
		s := gathered()
		s.Task.Status.Rendezvous = &api.Rendezvous{World: 2, Origin: &api.CheckpointOrigin{TaskID: "task-1", Name: "x", Step: 5}}
		for i := range s.Members {
			s.Members[i].Said.Generation, s.Members[i].Said.Restored, s.Members[i].Said.RestoredAt = 2, link.TierShared, now.Add(time.Duration(-i)*time.Second)
		}
		return s
	}
	s := restored()
	if tier, at := restoredFrom(main(s), 2); tier != link.TierShared || !at.Equal(now.Add(-time.Second)) {
		t.Error(tier, at)
	}
	for name, change := range map[string]func(s *gang.Gang){
		"from memory":  func(s *gang.Gang) { s.Task.Status.Rendezvous.Origin = nil },
		"another tier": func(s *gang.Gang) { s.Members[1].Said.Restored = link.TierLocal },
		"several":      func(s *gang.Gang) { s.Members[0].Said.Restored = "" },
		"not yet":      func(s *gang.Gang) { s.Members[1].Said.Generation = 1 },
		"files":        func(s *gang.Gang) { s.Task.Spec.Checkpoint = &api.Checkpoints{Folder: "ckpt"} },
	} {
		s := restored()
		change(s)
		if tier, _ := restoredFrom(main(s), 2); tier != "" {
			t.Error(name, tier)
		}
	}
}
