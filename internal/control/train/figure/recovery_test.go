package figure

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func TestAReloadIsKnownAsOne(t *testing.T) {
	for _, origin := range []*api.CheckpointOrigin{nil, {TaskID: "task-1", Name: "n", Step: 7}} {
		before := &api.TrainingTaskStatus{Phase: api.PhaseRecovering, Attempt: 1, Generation: 1}
		after := *before
		after.Generation, after.Rendezvous = before.Generation+1, &api.Rendezvous{Restore: 7, Origin: origin}
		f := Turn{Terms: gang.Terms{Task: &api.TrainingTask{Status: *before}}, Before: before, After: &after, Now: now}
		in := &api.Interruptions{Last: []api.Recovery{{RecoverySteps: api.RecoverySteps{Step: 9}, FailedAt: now, SeenAt: now}}}
		if f.advance(in, in.Newest()); in.Last[0].Reloaded != (origin != nil) || in.Last[0].Restore != 7 {
			t.Errorf("%+v", in.Last[0])
		}
	}
}
