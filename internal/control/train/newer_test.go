package train

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/save"
)

// TestANewerFermisCheckpointIsWaitedFor: the task begins neither from an older one nor at nothing, and says why; states in
// memory are newer still.
func TestANewerFermisCheckpointIsWaitedFor(t *testing.T) {
	for _, origins := range [][]api.CheckpointOrigin{nil, past()[2:]} {
		s := gathered(origins)
		s.origins.Durable, s.origins.Passed = true, []save.Unreadable{{Name: past()[0].Name, Step: 3, Why: api.T("Its format 9 is newer.", "格式过新。"), Newer: true}}
		p := decide(s, now)
		if p.status.Rendezvous != nil || p.status.Reason != "CheckpointNewer" || !strings.Contains(p.status.Message.EN, "format 9") || len(p.events) != 1 || !p.events[0].Warning {
			t.Errorf("%+v %+v", p.status, p.events)
		}
		s.Task.Status.From = &api.CheckpointOrigin{TaskID: "task-0", Name: "a"}
		if p = decide(s, now); p.status.Reason != "CheckpointNewer" || len(p.stop) > 0 {
			t.Errorf("one that was told where to begin: %+v", p.status)
		}
		for i := range s.Members {
			s.Members[i].Said.Held = []int64{7}
		}
		if r := decide(s, now).status.Rendezvous; r == nil || r.Restore != 7 {
			t.Errorf("%+v", r)
		}
	}
}

// TestATornCheckpointIsPassedOver, and people are told.
func TestATornCheckpointIsPassedOver(t *testing.T) {
	s := gathered(past()[1:])
	s.origins.Passed = []save.Unreadable{{Name: past()[0].Name, Step: 3, Why: api.T("It is torn.", "不完整。")}}
	p := decide(s, now)
	if r := p.status.Rendezvous; r == nil || r.Restore != 2 {
		t.Fatalf("%+v", r)
	}
	for _, e := range p.events {
		if e.Reason == "CheckpointUnreadable" && e.Warning && strings.Contains(e.Message.EN, "step 3") && strings.Contains(e.Message.EN, "torn") {
			return
		}
	}
	t.Errorf("nobody was told: %+v", p.events)
}
